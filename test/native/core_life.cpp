// Stresses lifetimes: memory that is freed and revoked, streams and captures that are destroyed
// with pending work, and events and graphs that several threads change. A strict driver finds
// everything that is freed too early.
#include <sys/mman.h>

#include "stress.hpp"

namespace hotslot::stress {
namespace {

// A variable that several threads share, with a block of memory. Each thread uses its own part of
// the block. The thread that stores another block may be the last owner of the old one.
class Place {
 public:
  Ref<Memory> get() {
    std::lock_guard guard(lock_);
    return memory_;
  }
  Ref<Memory> put(Ref<Memory> memory) {
    std::lock_guard guard(lock_);
    memory_.swap(memory);
    return memory;
  }

 private:
  std::mutex lock_;
  Ref<Memory> memory_;
};

// Replaces the stream by a new one that comes after all its work. The old stream is destroyed with
// work pending.
void change(Ref<Stream>& stream) {
  const auto event = device()->create_event(false);
  auto next = device()->create_stream(0);
  stream->record(event, false);
  next->wait(event);
  stream = std::move(next);
}

void let_go() {
  scenario =
      "memory is let go by several threads while streams work on it and captures begin and end "
      "elsewhere";
  constexpr int users = 6, most = 4;
  static Place places[most];
  const auto fresh = [] { return device()->allocate(users * bytes); };
  for (auto& place : places) place.put(fresh());
  threads(users, [&](int id) {
    Draw draw(id);
    auto stream = device()->create_stream(0);
    const auto event = device()->create_event(false);
    Home home;
    uint32_t turn = 0;
    const auto part = [id](Ref<Memory> of) {
      return Span{std::move(of), size_t(id) * bytes, bytes};
    };
    const auto work = [&] {
      const uint32_t from = draw(most);
      fill(*stream, part(places[from].get()), float(id));
      stream->copy(part(places[from ^ 1].get()), part(places[from ^ 2].get()));
    };
    during(second_ns / 2, [&] {
      switch (id % 3) {
        case 0:
          work();
          if (draw(4) == 0) change(stream);
          break;
        case 1: {
          auto next = fresh();
          stream->copy(home.span(), part(next));
          stream->record(event, false);
          wait(*event);
          home.expect(0, "new memory is not zero");
          places[draw(most)].put(std::move(next));
          break;
        }
        case 2: {
          auto spare = draw(2) ? fresh() : nullptr;
          stream->begin_capture();
          work();
          if (spare)
            places[draw(most)].put(
                std::move(spare));  // the old block may be freed while this thread captures
          const auto graph = stream->end_capture();
          const auto exec = graph->instantiate();
          for (int i = 0; i < 3; ++i) stream->replay(exec);
          break;
        }
      }
      if (++turn % 8 == 0) {
        stream->record(event, false);
        wait(*event);
      }
    });
    finish(*stream);
  });
  for (auto& place : places) place.put(nullptr);
}

// Returns whether the error is about revoked memory. On the CPU device, a later call on a stream
// with queued work may report it.
bool by_lender(const Error& error) {
  return std::strstr(error.what(), "host memory that a thread lent") != nullptr;
}

void taken_back() {
  scenario = "lent host memory is released and revoked while copies run";
  constexpr int lenders = 2, users = 3;
  constexpr size_t page = 4096;
  static Place places[lenders];
  static std::atomic<int> working{0};
  working = lenders;
  threads(lenders + users, [&](int id) {
    Draw draw(id);
    if (id < lenders) {
      struct Done {
        ~Done() { --working; }
      } done;
      return during(second_ns / 2, [&] {
        void* const pages =
            mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        auto memory = device()->register_host(pages, page, draw(4) > 0);
        places[id].put(memory);
        for (int i = int(draw(200)); i > 0; --i) std::this_thread::yield();
        // Either revokes the memory from all users, or waits until it has no user, then releases
        // it.
        const bool revoked = draw(2) > 0;
        if (revoked)
          device()->revoke(memory, forever_ns);
        else {
          places[id].put(nullptr);
          // Closed graphs refer to the memory until a call frees them.
          while (memory.use_count() > 1 || !memory->release())
            device()->memory_info(), std::this_thread::yield();
        }
        munmap(pages, page);
        places[id].put(nullptr);
      });
    }
    Floats own;
    auto stream = device()->create_stream(0);
    const auto event = device()->create_event(false);
    const size_t at = size_t(id) * 2 * bytes;
    for (uint32_t turn = 1; working > 0; ++turn) {
      const auto lent = places[draw(lenders)].get();
      if (!lent) {
        std::this_thread::yield();
        continue;
      }
      const Span source{lent, at, bytes}, target{lent, at + bytes, bytes};
      try {
        const auto use = [&] {
          stream->copy(own.span(), source);
          if (draw(2)) stream->copy(target, own.span());
        };
        if (draw(3) > 0) {
          use();
        } else {
          stream->begin_capture();
          Ref<Graph> graph;
          try {
            use();
            graph = stream->end_capture();
          } catch (const Error& error) {
            if (!by_lender(error)) throw;
            if (stream->capturing()) refusal([&] { stream->end_capture(); });
          }
          if (graph) {
            const auto exec = graph->instantiate();
            for (int i = 0; i < 3; ++i) stream->replay(exec);
          }
        }
        if (turn % 4 == 0) {
          stream->record(event, false);
          wait(*event);
        }
      } catch (const Error& error) {
        if (!by_lender(error)) throw;
        // On the CPU device the stream has failed for good. On other devices it may still have
        // work to do.
        try {
          change(stream);
        } catch (const Error&) {
          stream = device()->create_stream(0);
        }
      }
    }
    try {
      finish(*stream);
    } catch (const Error&) {}
  });
}

void shared_events() {
  scenario = "events that several threads record, renew, wait for and ask at once";
  const auto traits = device()->traits();
  static Ref<Event> events[3];
  for (auto& event : events) event = device()->create_event(true);
  threads(5, [&](int id) {
    Draw draw(id);
    Floats own;
    auto stream = device()->create_stream(0);
    Ref<Exec> exec;
    if (id == 0 && traits.graph_events) {
      stream->begin_capture();
      fill(*stream, own, 1);
      stream->record(events[0], true);
      fill(*stream, own, 2);
      stream->record(events[1], true);
      exec = stream->end_capture()->instantiate();
    }
    uint32_t turn = 0;
    during(second_ns / 2, [&] {
      auto &event = events[draw(3)], &other = events[draw(3)];
      fill(*stream, own, float(id));
      switch (draw(6)) {
        case 0:
          stream->record(event, false);
          break;
        case 1:
          stream->wait(event);
          break;
        case 2:
          (void)event->query();
          break;
        case 3:
          if (exec) stream->replay(exec);
          break;
        case 4:
          device()->wait_event(*event, 20'000);
          break;
        case 5:
          // Another thread may have recorded them again, so they may not be done.
          try {
            if (traits.timing_events) event->elapsed_ms(*other);
          } catch (const Error& error) {
            if (error.status != 600) throw;
          }
          break;
      }
      if (++turn % 8 == 0) finish(*stream);
    });
    finish(*stream);
  });
  for (auto& event : events) event.reset();
}

// Threads record and wait for the same events without knowing of each other's captures. Hotslot may
// refuse their calls, but the driver never may. Afterwards everything must work again.
void tangled() {
  scenario = "captures that draw in whoever waits for an event";
  static Ref<Event> events[2];
  for (auto& event : events) event = device()->create_event(false);
  threads(4, [&](int id) {
    Draw draw(id);
    auto stream = device()->create_stream(0);
    during(second_ns / 2, [&] {
      // Each fill has memory of its own. It may become part of another thread's capture, and a
      // replay of that capture is not ordered with this thread's next fill.
      Floats own[6];
      const auto own_event = device()->create_event(false);
      auto& event = events[draw(2)];
      const bool begun = draw(2) && refusal([&] { stream->begin_capture(); }) == 0;
      for (int i = 0; i < 6; ++i)
        refusal([&] {
          switch (draw(8)) {
            case 0:
              return stream->record(event, false);
            case 1:
              return stream->wait(event);
            case 2:
              return void(draw(4) || stream->query());
            case 3:
              return void(draw(4) || event->query());
            default:
              return fill(*stream, own[i], float(i));
          }
        });
      Ref<Graph> graph;
      if (begun) refusal([&] { graph = stream->end_capture(); });
      if (graph) refusal([&] { stream->replay(graph->instantiate()); });
      // The stream may have joined another thread's capture, until that one ends.
      refusal([&] {
        stream->record(own_event, false);
        wait(*own_event);
      });
    });
    if (stream->capturing()) stream = device()->create_stream(0);
  });
  for (auto& event : events) event.reset();
}

void updated() {
  scenario = "an exec is updated while others replay it";
  Floats value, first, second;
  // Both sums grow by the same values, unless two replays overlap. With `more`, the graph has
  // another number of nodes, which the driver treats as another graph.
  const auto capture = [&](float step, bool more) {
    auto stream = device()->create_stream(0);
    stream->begin_capture();
    fill(*stream, value, step);
    if (more) fill(*stream, value, step);
    add(*stream, first, value);
    add(*stream, second, value);
    return stream->end_capture();
  };
  const Ref<Graph> graphs[] = {capture(1, false), capture(2, false), capture(3, true)};
  const auto exec = graphs[0]->instantiate();
  threads(4, [&](int id) {
    Draw draw(id);
    auto stream = device()->create_stream(0);
    during(second_ns / 2, [&] {
      if (id < 2) {
        for (int i = 0; i < 4; ++i) stream->replay(exec);
        finish(*stream);
      } else {
        exec->update(id == 2 ? graphs[draw(3)] : capture(4, draw(2)));
        std::this_thread::yield();
      }
    });
  });
  Home a, b;
  auto stream = device()->create_stream(0);
  stream->copy(a.span(), first.span());
  stream->copy(b.span(), second.span());
  finish(*stream);
  if (a.read()[0] < (1 << 24) && memcmp(a.read(), b.read(), bytes) != 0)
    violation("replays of one exec overlapped", a.read()[0], b.read()[0]);
}

void abandoned() {
  scenario = "captures left open: their stream is destroyed, their thread ends, here and elsewhere";
  threads(3, [&](int id) {
    Draw draw(id);
    during(second_ns / 2, [&] {
      auto origin = device()->create_stream(0), side = device()->create_stream(0);
      const auto fork = device()->create_event(false), done = device()->create_event(false);
      Floats own;
      Home home;
      const auto begin = [&] {
        origin->begin_capture();
        fill(*origin, own, 1);
        origin->record(fork, false);
        side->wait(fork);
        fill(*side, own, 2);
      };
      switch (draw(4)) {
        case 0:
          begin();
          origin.reset();
          break;
        case 1:
          threads(1, [&](int) { begin(); });
          if (origin->capturing()) violation("a capture outlived its thread");
          fill(*origin, own, 3);
          finish(*origin);
          break;
        case 2:
          begin();
          threads(1, [&](int) { origin.reset(); });
          break;
        case 3: {
          begin();
          std::thread other([&] { origin.reset(); });
          for (int i = 0; i < 10; ++i) refusal([&] { fill(*side, own, 4); });
          other.join();
          break;
        }
      }
      if (side->capturing()) violation("a stream stayed in a capture that had ended");
      fill(*side, own, 5);
      side->copy(home.span(), own.span());
      side->record(done, false);
      wait(*done);
      home.expect(5, "work was captured by a capture that had ended");
    });
  });
}

void destroyed() {
  scenario = "streams are destroyed with work pending";
  threads(3, [&](int id) {
    during(second_ns / 2, [&] {
      const auto done = device()->create_event(false);
      Home home;
      Latch latch;
      {
        auto stream = device()->create_stream(0), behind = device()->create_stream(0);
        const auto passed = device()->create_event(false);
        Floats own;
        latch.hold(*stream);
        fill(*stream, own, float(id));
        stream->record(passed, false);
        behind->wait(passed);
        behind->copy(home.span(), own.span());
        behind->record(done, false);
        // The first stream may be asked about the second's memory, and vice versa.
        if (id == 1) behind.reset();
      }
      if (done->query()) violation("held work was done");
      latch.open();
      wait(*done);
      home.expect(float(id), "the work of a destroyed stream was lost");
    });
  });
}

void peers() {
  scenario = "values go from one device to another and back";
  if (devices() < 2) return;
  threads(3, [&](int id) {
    Ref<Stream> near = device(0)->create_stream(0), far = device(1)->create_stream(0);
    const auto there = device(0)->create_event(false), back = device(1)->create_event(false);
    during(second_ns / 2, [&] {
      const float value = float(id + 1);
      Home home;
      {
        Floats a(0), b(1), c(0);
        fill(*near, a, value);
        near->copy(b.span(), a.span());
        near->record(there, false);
        far->wait(there);
        add(*far, b, b);
        far->record(back, false);
        near->wait(back);
        near->copy(c.span(), b.span());
        near->copy(home.span(), c.span());
        near->record(there, false);
        // The memory of both devices is closed while both may still use it.
      }
      wait(*there);
      home.expect(2 * value, "a value was lost between two devices");
    });
  });
}

}  // namespace

std::vector<Scenario> lifetime_scenarios() {
  return {{"let-go", let_go},        {"taken-back", taken_back},
          {"events", shared_events}, {"tangled", tangled},
          {"updated", updated},      {"abandoned", abandoned},
          {"destroyed", destroyed},  {"peers", peers}};
}

}  // namespace hotslot::stress
