// Stress of the native core without JavaScript, for the sanitizers: handle table, host streams, events, captures, graphs,
// bells. The net under lost wakes is compiled away, so a lost one stalls and the watchdog says where. Prints the first
// violation and returns 1. From the project root (and once more with -fsanitize=address,undefined):
//   g++ -std=c++17 -O1 -g -fsanitize=thread -DHOTSLOT_STRESS -Inative test/native/core_harness.cpp
//   test/native/stress_pause.cpp native/device/host.cpp native/device/host_executor.cpp native/kernels/*.cpp -ldl -lpthread
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "device/handles.hpp"
#include "device/host.hpp"

using namespace hotslot;

namespace {

constexpr uint64_t forever_ns = 3'000'000'000'000, second_ns = 1'000'000'000;
constexpr int n = 64;

std::atomic<const char*> scenario{"start"};
std::atomic<uint64_t> progress{0};

void violation(const char* what, double a = 0, double b = 0) {
  std::printf("VIOLATION in '%s': %s (%g, %g)\n", scenario.load(), what, a, b);
  std::fflush(stdout);
  _exit(1);
}

// Nothing here takes seconds: no progress for that long is a lost wake.
void watchdog() {
  std::thread([] {
    for (uint64_t last = ~0ull;;) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      const uint64_t now = progress.load();
      if (now == last) violation("stalled: a wake was lost", double(now));
      last = now;
    }
  }).detach();
}

void threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i) all.emplace_back(body, i);
  for (auto& thread : all) thread.join();
}

void during(uint64_t ns, const std::function<void()>& body) {
  for (const uint64_t end = now_ns() + ns; now_ns() < end; progress++) body();
}

Ref<Device> device() {
  static const Ref<Device> one = host::open(0);
  return one;
}

struct Floats {
  Ref<Memory> memory = device()->allocate(n * 4);
  Span span() const { return {memory, 0, n * 4}; }
  const float* read() const { return reinterpret_cast<const float*>(memory->address); }
};

void fill(Stream& stream, const Floats& to, float value) { stream.fill(to.span(), &value, 4); }

// y += x
void add(Stream& stream, const Floats& y, const Floats& x) {
  Launch launch;
  launch.kernel = find_kernel("axpby");
  launch.spans = {y.span(), x.span()};
  launch.args.whole[0] = n;
  launch.args.real[0] = launch.args.real[1] = 1;
  stream.launch(std::move(launch));
}

// Holds its stream until opened.
struct Latch {
  Ref<Memory> word = device()->allocate(4);
  void hold(Stream& stream) {
    Launch launch;
    launch.kernel = find_kernel("latch");
    launch.spans = {Span{word, 0, 4}};
    launch.args.whole[0] = 10'000;
    stream.launch(std::move(launch));
  }
  void open() { word_at(reinterpret_cast<int32_t*>(word->address)).store(1); }
};

// The ways a thread can learn of an event: asking (then the pool must do everything), waiting, or attending with a bell.
void ask(Event& event) {
  while (!event.query()) std::this_thread::yield();
}
void wait(Event& event) {
  if (!device()->wait_event(event, forever_ns)) violation("a wait timed out");
}

// A thread with a bell, as poll.node runs it: look, help, sleep on the bell; now and then it parks where only a ring of its
// own kind would wake it, having said so.
struct Attendant {
  Bell bell{0, 0};
  bool attending = false;
  void attend(bool yes) {
    if (yes != attending) yes ? device()->attend(&bell) : device()->dismiss(&bell);
    attending = yes;
  }
  ~Attendant() { attend(false); }
  void until_done(Event& event) {
    attend(true);
    for (;;) {
      const int32_t seen = bell.read();
      if (event.query()) return;
      if (bell.read() != seen || device()->help(50'000)) continue;
      bell.sleep(seen, forever_ns);
    }
  }
};

// A value through three streams, ordered by events alone; other streams of the same thread run beside it.
void chain(int id, const std::function<void(Event&)>& done) {
  Ref<Stream> s[3];
  Ref<Event> e[3];
  for (auto& stream : s) stream = device()->create_stream(id % 3 - 1);
  for (auto& event : e) event = device()->create_event(true);
  Floats a, b, c;
  for (int round = 1; round <= 8; ++round) {
    const float value = float(id * 100 + round);
    // Last first: the streams behind are blocked when the work in front arrives.
    s[0]->wait(e[2]);
    fill(*s[0], a, value);
    s[0]->record(e[0], false);
    s[1]->wait(e[0]);
    s[1]->copy(b.span(), a.span());
    s[1]->record(e[1], false);
    s[2]->wait(e[1]);
    s[2]->copy(c.span(), b.span());
    s[2]->record(e[2], false);
    done(*e[2]);
    for (int i = 0; i < n; ++i)
      if (c.read()[i] != value) violation("a stream ran ahead of its event", c.read()[i], value);
    if (!e[0]->query() || e[2]->elapsed_ms(*e[0]) < 0) violation("an earlier event is later");
  }
}

void ordering() {
  scenario = "chains of streams, asked, waited and attended for";
  threads(6, [](int id) {
    Attendant attendant;
    during(second_ns, [&] {
      if (id % 3 == 0) chain(id, ask);
      else if (id % 3 == 1) chain(id, wait);
      else {
        chain(id, [&](Event& event) { attendant.until_done(event); });
        attendant.attend(false);  // parks elsewhere: nobody may count on it
        chain(id, ask);
      }
    });
  });
}

void merged_attendants() {
  scenario = "enqueuers leave all work to one attendant";
  auto stream = device()->create_stream(0);
  std::atomic<bool> stop{false};
  Attendant attendant;
  std::thread poller([&] {
    attendant.attend(true);
    for (; !stop; progress++) {
      const int32_t seen = attendant.bell.read();
      if (stop) break;
      if (!device()->help(50'000)) attendant.bell.sleep(seen, forever_ns);
    }
    attendant.attend(false);
  });
  threads(3, [&](int id) { during(second_ns / 2, [&] { chain(id, ask); }); });
  stop = true;
  attendant.bell.ring();
  poller.join();
}

void graphs() {
  scenario = "one exec replayed by many threads";
  Floats sum, one, copy;
  auto origin = device()->create_stream(0), side = device()->create_stream(0);
  auto fork = device()->create_event(false), join = device()->create_event(false);
  origin->begin_capture();
  fill(*origin, one, 1);
  origin->record(fork, false);
  side->wait(fork);
  add(*origin, sum, one);
  // The side stream's part is captured by another thread at the same time.
  std::thread([&] {
    for (int i = 0; i < 40; ++i) side->copy(copy.span(), one.span());
    side->record(join, false);
  }).join();
  origin->wait(join);
  auto graph = origin->end_capture();
  if (graph->node_count() != 42) violation("nodes were lost", double(graph->node_count()));
  auto exec = graph->instantiate();
  graph.reset();
  std::atomic<int> replays{0};
  threads(4, [&](int id) {
    auto stream = device()->create_stream(0);
    auto event = device()->create_event(false);
    during(second_ns / 2, [&] {
      for (int i = 0; i < 5; ++i, ++replays) stream->replay(exec);
      stream->record(event, false);
      if (id % 2) wait(*event);
      else ask(*event);
    });
  });
  for (int i = 0; i < n; ++i)
    if (sum.read()[i] != float(replays) && replays < (1 << 24)) violation("replays of one exec overlapped", sum.read()[i], replays);
}

void captures() {
  scenario = "captures side by side, joined from other threads and broken";
  auto plain = device()->create_event(false);
  auto other = device()->create_stream(0);
  threads(4, [&](int id) {
    during(second_ns / 2, [&] {
      auto origin = device()->create_stream(0), side = device()->create_stream(0);
      auto fork = device()->create_event(false), join = device()->create_event(false);
      Floats a, b;
      origin->begin_capture();
      fill(*origin, a, float(id));
      origin->record(fork, false);
      std::thread helper([&] {
        side->wait(fork);
        for (int i = 0; i < 10; ++i) side->copy(b.span(), a.span());
        side->record(join, false);
      });
      for (int i = 0; i < 10; ++i) fill(*origin, a, float(id + i));
      helper.join();
      const int how = int(progress % 3);
      int status = 0;
      try {
        if (how == 0) origin->wait(join);
        if (how == 2) (void)origin->query();
      } catch (const Error&) {
      }
      side.reset();
      try {
        auto graph = origin->end_capture();
        other->replay(graph->instantiate());
        other->record(plain, false);
      } catch (const Error& error) {
        status = error.status;
      }
      static const int expected[] = {0, 904, 901};
      if (status != expected[how]) violation("a capture ended otherwise than it must", how, status);
      if (origin->capturing() || !origin->query()) violation("a stream stayed in its capture");
    });
  });
  wait(*plain);
}

void held_streams() {
  scenario = "held streams hold nobody else, and nobody helps";
  for (int round = 0; round < 5; ++round, progress++) {
    Latch latch;
    std::vector<Ref<Stream>> held;
    auto tail = device()->create_event(false);
    for (int i = 0; i < 6; ++i) {
      held.push_back(device()->create_stream(0));
      auto passed = device()->create_event(false);
      auto behind = device()->create_stream(0);
      // Blocked first, then released by an op whose stream goes on into a latch.
      held[size_t(i)]->record(passed, false);
      latch.hold(*held[size_t(i)]);
      behind->wait(passed);
      Floats floats;
      fill(*behind, floats, 3);
      behind->record(tail, false);
      ask(*tail);
      if (floats.read()[0] != 3) violation("done before it was done");
      if (held[size_t(i)]->query()) violation("a held stream says it is done");
    }
    latch.open();
    for (auto& stream : held) {
      stream->record(tail, false);
      ask(*tail);
    }
  }
}

void released_late() {
  scenario = "a record that frees another stream, followed by a latch";
  for (int round = 0; round < 50; ++round, progress++) {
    Latch first, second;
    auto a = device()->create_stream(0), b = device()->create_stream(0);
    auto free = device()->create_event(false), done = device()->create_event(false);
    first.hold(*a);
    a->record(free, false);
    second.hold(*a);
    b->wait(free);
    b->record(done, false);
    first.open();
    ask(*done);
    second.open();
    a->record(done, false);
    ask(*done);
  }
}

void given_back() {
  scenario = "a queue becomes runnable while a thread that found it blocked gives it back";
  threads(2, [](int) {
    auto front = device()->create_stream(0), behind = device()->create_stream(0);
    auto free = device()->create_event(false), done = device()->create_event(false);
    Floats floats;
    during(second_ns, [&] {
      fill(*front, floats, 1);
      front->record(free, false);
      behind->wait(free);
      behind->record(done, false);
      // Helps until the first stream is done, and leaves; the second is the pool's.
      wait(*free);
      ask(*done);
    });
  });
}

void back_to_back() {
  scenario = "one stream, asked for again and again while the pool goes to sleep";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  during(second_ns / 2, [&] {
    stream->record(event, false);
    ask(*event);
  });
}

void promise_broken() {
  scenario = "an attendant goes away with work behind it";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  for (int round = 0; round < 200; ++round, progress++) {
    Attendant attendant;
    std::atomic<int> step{0};
    std::thread keeper([&] {
      attendant.attend(true);
      step = 1;
      while (step != 2) std::this_thread::yield();
      attendant.attend(false);
    });
    while (step != 1) std::this_thread::yield();
    stream->record(event, false);
    step = 2;
    ask(*event);
    keeper.join();
  }
}

void helper_leaves() {
  scenario = "a helper's time is over in the middle of a queue that everybody else left to it";
  auto stream = device()->create_stream(0);
  auto entered = device()->create_event(false), event = device()->create_event(false);
  const Span large{device()->allocate(16 << 20), 0, 16 << 20};
  for (int round = 0; round < 20; ++round, progress++) {
    Attendant attendant;
    attendant.attend(true);  // here only: the pool is not woken
    stream->record(entered, false);
    for (int i = 0; i < 3; ++i) stream->fill(large, &round, 1);
    stream->record(event, false);
    std::thread helper([] { device()->help(1'000'000); });
    ask(*entered);
    attendant.attend(false);
    ask(*event);
    helper.join();
  }
}

void woken_by_completion() {
  scenario = "an attendant sleeps until somebody else's work is done";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  for (int round = 0; round < 50; ++round, progress++) {
    Attendant attendant;
    Latch latch;
    attendant.attend(true);
    latch.hold(*stream);  // the pool's, as every op that waits for the outside
    stream->record(event, false);
    std::thread opener([&] {
      // Once it sleeps; a ring that comes a little earlier only makes the round easier.
      while (word_at(&attendant.bell.parked).load() != Bell::native) std::this_thread::yield();
      latch.open();
    });
    attendant.until_done(*event);
    opener.join();
  }
}

void no_starvation() {
  scenario = "an attendant with a stream that never runs dry leaves another one alone";
  auto busy = device()->create_stream(0), other = device()->create_stream(1);
  auto event = device()->create_event(false);
  Floats floats;
  Attendant attendant;
  attendant.attend(true);
  for (int round = 0; round < 5; ++round, progress++) {
    other->record(event, false);
    while (!event->query()) {
      for (int i = 0; i < 2000; ++i) fill(*busy, floats, 1);
      device()->help(50'000);
    }
  }
}

void not_trapped() {
  scenario = "whoever waits is not caught in work that waits for the outside";
  for (int round = 0; round < 50; ++round, progress++) {
    Latch latch;
    auto held = device()->create_stream(-1), free = device()->create_stream(0);
    auto event = device()->create_event(false);
    latch.hold(*held);
    free->record(event, false);
    wait(*event);
    Attendant attendant;
    free->record(event, false);
    attendant.until_done(*event);
    if (held->query()) violation("the latch did not hold");
    latch.open();
    held->record(event, false);
    attendant.until_done(*event);
  }
}

void failures() {
  scenario = "a failed stream fails alone";
  Launch fail;
  fail.kernel = find_kernel("fail");
  threads(3, [&](int id) {
    during(second_ns / 4, [&] {
      auto bad = device()->create_stream(0), good = device()->create_stream(0);
      auto event = device()->create_event(false);
      bad->launch(Launch(fail));
      try {
        bad->record(event, false);
        for (; !event->query();) std::this_thread::yield();
        violation("an event of a failed stream said it was well");
      } catch (const Error& error) {
        if (error.status != 719) violation("another error than the kernel's", error.status);
      }
      // The latest record counts, and it is a healthy one.
      good->record(event, false);
      ask(*event);
      chain(id, wait);
    });
  });
}

class Canary final : public Object {
 public:
  explicit Canary(Kind kind) : Object(kind, "canary") {}
  ~Canary() override { alive = 0; }
  std::atomic<uint64_t> alive{0x5afe};
};

void handles() {
  scenario = "pins, unpins and removals of the same handles";
  static HandleTable table;
  constexpr int many = 64;
  static std::atomic<double> shared[many]{};
  for (auto& handle : shared) handle = table.add(std::make_shared<Canary>(Kind::event));
  threads(6, [&](int id) {
    uint32_t draw = uint32_t(id) * 2654435761u + 1;
    during(second_ns / 2, [&] {
      for (int i = 0; i < 500; ++i) {
        draw = draw * 1664525 + 1013904223;
        auto& place = shared[(draw >> 8) % many];
        const double handle = place.load();
        if (id < 4) {
          if (table.pin(handle, Kind::stream)) violation("a pin of another kind went through");
          auto* canary = static_cast<Canary*>(table.pin(handle, Kind::event));
          if (!canary) continue;
          if (canary->alive != 0x5afe) violation("a pinned object died");
          table.unpin(handle);
        } else if (table.remove(handle, forever_ns)) {
          if (table.pin(handle, Kind::event)) violation("a removed handle was pinned");
          if (table.remove(handle, 0)) violation("a handle was removed twice");
          place = table.add(std::make_shared<Canary>(Kind::event));
        }
      }
      if (table.count(Kind::event).entries > many) violation("handles leaked");
    });
  });
  if (table.count(Kind::event).pinned != 0) violation("a pin was left behind");
}

}  // namespace

int main() {
  watchdog();
  const struct {
    const char* name;
    void (*run)();
  } all[] = {{"ordering", ordering}, {"merged", merged_attendants}, {"graphs", graphs},     {"captures", captures},
             {"held", held_streams}, {"released", released_late},   {"given", given_back},
             {"back", back_to_back}, {"promise", promise_broken}, {"leaves", helper_leaves},
             {"woken", woken_by_completion}, {"starved", no_starvation},    {"trapped", not_trapped},
             {"failures", failures}, {"handles", handles}};
  const uint64_t begin = now_ns();
  for (auto& each : all) {
    each.run();
    progress++;
  }
  std::printf("core: no violation in %.1f s\n", double(now_ns() - begin) / 1e9);
  return 0;
}
