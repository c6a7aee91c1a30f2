// Stresses what threads share through the core: the capture stream, graph pools and their turns,
// reused memory, and managed pages. Several threads also open and close the same devices.
#include <set>

#include "device/core/core.hpp"
#include "device/core/graph_pool.hpp"
#include "device/cuda/driver.hpp"
#include "kernels/halo.hpp"
#include "stress.hpp"

namespace hotslot::stress {
namespace {

const std::string& name() {
  static const std::string first = std::string(family->name) + ":0";
  return first;
}

// Each thread writes its number to the same block of a pool and reads it back through its own
// graphs.
void turns() {
  scenario = "graphs of one pool, captured and replayed by many threads";
  Core& core = Core::instance();
  const OpenDevice& open = core.open(name());
  const Ref<Device>& on = open.device;
  const auto pool = std::make_shared<GraphPool>(on);
  threads(4, [&](int id) {
    Ref<Stream> stream = on->create_stream(0);
    const auto done = on->create_event(false);
    const float value = float(id + 1);
    during(second_ns, [&] {
      const Ref<Memory> out = on->allocate(bytes), home = on->allocate_host(bytes);
      Ref<Exec> exec;
      Ref<Graph> graph;
      {
        core.enter_capture(open.handle, pool, &value, forever_ns);
        Pinned<Stream> capture(core.belonging(open.handle, capture_stream, nullptr), Kind::stream,
                               "stream");
        capture->begin_capture();
        const GraphPool::Part part = pool->allocate(bytes);
        const Span temporary{Pinned<Memory>(part.block, Kind::memory, "block").ref(), part.offset,
                             bytes};
        fill(*capture, temporary, value);
        for (int i = 0; i < 3; ++i) capture->copy(Span{out, 0, bytes}, temporary);
        graph = capture->end_capture();
        exec = Replays::instantiate(*graph);
        core.leave_capture(open.handle, &value);
      }
      for (int i = 0; i < 5; ++i) {
        // Replays of other graphs may run between two replays, but not during one.
        Replays::replay(*stream, exec);
        stream->copy(Span{home, 0, bytes}, Span{out, 0, bytes});
        stream->record(done, false);
        wait(*done);
        for (int at = 0; at < n; ++at)
          if (reinterpret_cast<const float*>(home->address)[at] != value)
            violation("another graph of the same pool ran in between", value);
        // A stream that is destroyed, one that fails, and an updated exec must not affect the
        // others.
        if (id == 0 && i == 2) stream = on->create_stream(0);
        if (id == 1 && i == 3 && on->traits().rings) {
          Launch fails;
          fails.kernel = find_kernel("fail");
          stream->launch(std::move(fails));
          try {
            Replays::replay(*stream, exec);
          } catch (const Error&) {
            // the stream has failed before
          }
          stream = on->create_stream(0);
        }
        if (id == 2 && i == 1) Replays::update(*exec, graph);
      }
    });
  });
  if (pool->bytes() > size_t(4) << 20)
    violation("scopes of one pool do not share its memory", double(pool->bytes()));
  core.close(open.handle);
}

// Frees blocks while work still uses them. The next owner's values must not appear in that work.
void used_again() {
  scenario = "memory that is used again";
  threads(4, [&](int id) {
    Ref<Stream> stream = device()->create_stream(0);
    const auto done = device()->create_event(false);
    Draw draw(id);
    during(second_ns, [&] {
      const float value = float(id * 1000 + int(draw(1000)));
      Home home;
      for (int i = 0; i < 4; ++i) {
        const Ref<Memory> block = device()->scratch(bytes),
                          other = device()->scratch(bytes * (1 + draw(40)));
        fill(*stream, Span{block, 0, bytes}, value);
        fill(*stream, Span{other, 0, bytes}, -value);
        stream->copy(home.span(), Span{block, 0, bytes});
      }
      stream->record(done, false);
      wait(*done);
      home.expect(value, "memory was reused while it was in use");
      if (draw(50) == 0) device()->trim();
    });
  });
}

void managed() {
  scenario = "managed pages that move while they are used";
  const DeviceTraits traits = device()->traits();
  if (!traits.no_managed.empty()) return;
  const size_t room = 64 << 10;
  const Ref<Memory> shared = device()->allocate_managed(room);
  threads(4, [&](int id) {
    const Ref<Stream> stream = device()->create_stream(0);
    const auto done = device()->create_event(false);
    const Span mine{shared, size_t(id) * room / 4, bytes};
    Draw draw(id);
    during(second_ns / 2, [&] {
      const float value = float(draw(1000));
      Home home;
      const Ref<Memory> own = device()->allocate_managed(bytes);
      const Span all{shared, 0, room};
      fill(*stream, mine, value);
      stream->prefetch(draw(2) ? all : mine, traits.moves_pages && draw(2) ? on_cpu : 0);
      device()->advise(mine, Advice::accessed_by, 0);
      stream->prefetch(Span{own, 0, bytes}, 0);
      stream->copy(Span{own, 0, bytes}, mine);
      stream->copy(home.span(), Span{own, 0, bytes});
      stream->record(done, false);
      const int where = device()->residency(all).location;
      if (where < nowhere || where > 0)
        violation("pages are at a location that no thread requested", where);
      wait(*done);
      home.expect(value, "a page that moved lost a value");
    });
  });
}

void opened() {
  scenario = "what belongs to a device, while threads open and close it";
  Core& core = Core::instance();
  threads(4, [&](int id) {
    during(second_ns / 2, [&] {
      const OpenDevice& open = core.open(name());
      const double stream =
          core.belonging(open.handle, "to nowhere", [](Device& of) { return of.create_stream(0); });
      // No other thread closes the device while this thread has it open.
      Pinned<Stream>(stream, Kind::stream, "stream")->query();
      try {
        if (core.enter_capture(open.handle, nullptr, &stream, id % 2 ? 0 : forever_ns) != 0) {
          Pinned<Stream> capture(core.belonging(open.handle, capture_stream, nullptr), Kind::stream,
                                 "stream");
          capture->begin_capture();
          // the last thread leaves its capture open, and the core ends it
          if (id != 3) capture->end_capture();
          id == 3 ? core.leave(&stream) : core.leave_capture(open.handle, &stream);
        }
      } catch (const Error& error) {
        if (std::strcmp(error.code, "ERR_HOTSLOT_STATE_BUSY") != 0) throw;
      }
      core.close(open.handle);
    });
  });
}

// Lends streams of a pool. Two threads must never have the same stream, whatever the last borrower
// did with it. Cached tables must keep their contents.
void lent() {
  scenario = "streams that are lent and tables that are shared";
  Core& core = Core::instance();
  std::mutex lock;
  std::set<double> out;
  threads(4, [&](int id) {
    Draw draw(id);
    during(second_ns, [&] {
      const OpenDevice& open = core.open(name());
      const Ref<Device>& on = open.device;
      const double handle = core.lend_stream(open.handle);
      {
        std::lock_guard guard(lock);
        if (!out.insert(handle).second) violation("two threads were lent the same stream", handle);
      }
      {
        Pinned<Stream> stream(handle, Kind::stream, "stream");
        // Every second element, forwards or backwards, which makes two tables for all threads.
        const bool back = draw(2);
        const int64_t count = n / 2;
        const HaloMove move{0, 0, 0, count, back ? n - 1 : 0, 1, {{count, back ? -2 : 2}}};
        const Ref<Memory> table = core.table(open.handle, &move, sizeof move);
        const Ref<Memory> from = on->allocate(bytes), buffer = on->allocate(bytes);
        const float value = float(1 + draw(1000));
        Home home;
        const float wanted = back ? -value : value;  // odd elements have the opposite sign
        Home both;
        for (int i = 0; i < n; ++i)
          reinterpret_cast<float*>(both.memory->address)[i] = i % 2 ? -value : value;
        stream->copy(Span{from, 0, bytes}, both.span());
        fill(*stream, Span{buffer, 0, bytes}, wanted);
        Launch pack;
        pack.kernel = halo_kernel(4);
        pack.args.whole[0] = 1, pack.args.whole[1] = count, pack.args.whole[2] = n;
        for (int i = 1; i < halo_arrays; ++i) pack.args.whole[2 + i] = 0;
        pack.spans = {Span{buffer, 0, bytes}, Span{table, 0, sizeof move}, Span{from, 0, bytes}};
        while (pack.spans.size() < size_t(pack.kernel->pointers))
          pack.spans.push_back(pack.spans[0]);
        stream->launch(std::move(pack));
        stream->copy(home.span(), Span{buffer, 0, bytes});
        const auto done = on->create_event(false);
        stream->record(done, false);
        if (draw(4) != 0)
          wait(*done), home.expect(wanted, "a halo was packed by another thread's table");
        if (on->traits().rings && draw(8) == 0) {
          Launch fails;
          fails.kernel = find_kernel("fail");
          stream->launch(std::move(fails));
        }
        if (draw(4) == 0) core.caches(open.handle);
      }
      {
        std::lock_guard guard(lock);
        out.erase(handle);
      }
      core.take_back_stream(open.handle, handle);
      core.close(open.handle);
    });
  });
}

// A fake driver that stores a current context and a capture mode, and counts its calls.
cuda::Context current = nullptr;
cuda::CaptureMode mode = cuda::capture_global;
int gets = 0, sets = 0, exchanges = 0;

cuda::Status get_current(cuda::Context* out) {
  return ++gets, *out = current, cuda::status::success;
}
cuda::Status set_current(cuda::Context to) { return ++sets, current = to, cuda::status::success; }
cuda::Status exchange_mode(cuda::CaptureMode* with) {
  return ++exchanges, std::swap(*with, mode), cuda::status::success;
}

// Nests scopes of two devices' contexts, in a thread of the library and in a thread that other code
// uses.
void contexts() {
  scenario = "contexts of two devices";
  static cuda::Driver driver;  // outlives the objects that it releases
  driver.call.context_get_current.function = get_current;
  driver.call.context_set_current.function = set_current;
  driver.call.exchange_capture_mode.function = exchange_mode;
  const auto context = [](uintptr_t number) { return reinterpret_cast<cuda::Context>(number); };
  const auto is = [&](uintptr_t number, const char* what) {
    if (current != context(number))
      violation(what, double(reinterpret_cast<uintptr_t>(current)), double(number));
  };
  for (const bool own : {false, true}) {
    current = own ? nullptr : context(9);
    mode = cuda::capture_global, gets = sets = exchanges = 0;
    threads(1, [&](int) {
      is_own_thread = own;
      for (int round = 0; round < 100; ++round) {
        const cuda::Enter outer(driver, context(1));
        is(1, "an outer scope's context");
        for (uintptr_t inner : {2, 1, 2}) {
          const cuda::Enter nested(driver, context(inner));
          const cuda::RelaxedCaptureMode relaxed(driver);
          is(inner, "an inner scope's context");
          if (mode != cuda::capture_relaxed) violation("a mode that is not relaxed", double(mode));
        }
        is(1, "an outer scope's context after an inner one");
      }
    });
    // The context and mode of other code are restored. The library sets what its own threads need,
    // and never queries it.
    is(own ? 1 : 9, "the context after the last scope");
    if (!own && mode != cuda::capture_global)
      violation("another library's mode is not put back", double(mode));
    if (own && gets + exchanges != 1) violation("queries in a thread of our own", gets, exchanges);
    if (own && sets != 401) violation("contexts set in a thread of our own", sets, 401);
  }
}

}  // namespace

std::vector<Scenario> shared_scenarios() {
  return {{"contexts", contexts}, {"turns", turns},   {"used-again", used_again},
          {"managed", managed},   {"opened", opened}, {"lent", lent}};
}

}  // namespace hotslot::stress
