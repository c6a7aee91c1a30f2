// Functions for JavaScript: captures, graphs, and graph pools.
#include "device/addon/arguments.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

void begin_capture(Info info) { stream(info, 0)->begin_capture(); }
double end_capture(Info info) { return own(info).make(stream(info, 0)->end_capture()); }
bool capturing(Info info) { return stream(info, 0)->capturing(); }

// Returns whether this thread has a capture open on any stream. If so, the thread may only enqueue
// work.
bool captures_here(Info) { return thread_captures(); }

double instantiate(Info info) {
  Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
  return own(info).make(Replays::instantiate(*graph));
}

// Makes later replays of the exec run the given graph. Returns true if the driver's object was
// updated in place, and false if it was created anew.
bool update(Info info) {
  Pinned<Exec> exec(number(info, 0), Kind::exec, "graph");
  Pinned<Graph> graph(number(info, 1), Kind::graph, "graph");
  return Replays::update(*exec, graph.ref());
}

double node_count(Info info) {
  Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
  return double(graph->node_count());
}

void replay(Info info) {
  Pinned<Exec> exec(number(info, 1), Kind::exec, "graph");
  Replays::replay(*stream(info, 0), exec.ref());
}

// ---- graph pools and the capture stream ---------------------------------------------------------

Pinned<GraphPool> pool(double handle) { return {handle, Kind::pool, "graph pool"}; }

double create_graph_pool(Info info) {
  return own(info).make(std::make_shared<GraphPool>(device(info, 0).ref()));
}
double graph_pool_bytes(Info info) { return double(pool(number(info, 0))->bytes()); }

// enterCapture(device, pool or 0, ms): returns the handle of the device's shared capture stream.
// Until leaveCapture(), only this thread uses the stream and the pool. If another thread uses the
// stream, waits up to `ms`, then returns 0.
double enter_capture(Info info) {
  Ref<Object> with;
  if (number(info, 1) != 0) with = pool(number(info, 1)).ref();
  return Core::instance().enter_capture(number(info, 0), with, &own(info),
                                        uint64_t(number(info, 2) * 1e6));
}
void leave_capture(Info info) { Core::instance().leave_capture(number(info, 0), &own(info)); }

// poolAllocate(pool, bytes): returns [handle of a block, byte offset in the block]. The pool closes
// the handle, so the caller must not.
Napi::Value pool_allocate(Info info) {
  const auto from = pool(number(info, 0));
  Core::instance().require_entered(*from, &own(info));
  const GraphPool::Part part = from->allocate(whole(info, 1));
  auto out = Napi::Array::New(info.Env(), 2);
  out.Set(0u, part.block);
  out.Set(1u, double(part.offset));
  return out;
}

}  // namespace

void add_graph_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported graphs[] = {
      {"enterCapture", enter_capture}, {"leaveCapture", leave_capture},
      {"beginCapture", begin_capture}, {"endCapture", end_capture},
      {"capturing", capturing},        {"threadCaptures", captures_here},
      {"instantiate", instantiate},    {"update", update},
      {"nodeCount", node_count},       {"replay", replay},
  };
  static constexpr Exported pools[] = {
      {"createGraphPool", create_graph_pool},
      {"graphPoolBytes", graph_pool_bytes},
      {"poolAllocate", pool_allocate},
  };
  add_functions(env, add_group(env, exports, "graphs"), graphs);
  add_functions(env, add_group(env, exports, "pools"), pools);
}

}  // namespace hotslot
