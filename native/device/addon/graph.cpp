// The core's face to JavaScript: captures and their graphs.
#include "device/addon/arguments.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

Napi::Value begin_capture(Info info) {
  return guard(info, [&] { stream(info, 0)->begin_capture(); });
}
Napi::Value end_capture(Info info) {
  return guard(info, [&] { return own(info).make(stream(info, 0)->end_capture()); });
}
Napi::Value capturing(Info info) {
  return guard(info, [&] { return stream(info, 0)->capturing(); });
}

// Whether this thread has a capture open, on whatever stream: it may only enqueue work then.
Napi::Value captures_here(Info info) { return Napi::Boolean::New(info.Env(), thread_captures()); }

Napi::Value instantiate(Info info) {
  return guard(info, [&] {
    Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
    return own(info).make(Replays::instantiate(*graph));
  });
}

// True: taken in place, false: made anew.
Napi::Value update(Info info) {
  return guard(info, [&] {
    Pinned<Exec> exec(number(info, 0), Kind::exec, "graph");
    Pinned<Graph> graph(number(info, 1), Kind::graph, "graph");
    return Replays::update(*exec, graph.ref());
  });
}

Napi::Value node_count(Info info) {
  return guard(info, [&] {
    Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
    return double(graph->node_count());
  });
}

Napi::Value replay(Info info) {
  return guard(info, [&] {
    Pinned<Exec> exec(number(info, 1), Kind::exec, "graph");
    Replays::replay(*stream(info, 0), exec.ref());
  });
}

}  // namespace

void add_graph_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"beginCapture", begin_capture},   {"endCapture", end_capture},  {"capturing", capturing},
      {"threadCaptures", captures_here}, {"instantiate", instantiate}, {"update", update},
      {"nodeCount", node_count},         {"replay", replay},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot
