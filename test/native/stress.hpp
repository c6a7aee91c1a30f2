// What the stress scenarios of the native core share: the family they run on, threads, things that
// hold values, ways to wait.
#pragma once
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "device/core/family.hpp"
#include "wait/bell.hpp"

namespace hotslot::stress {

constexpr uint64_t forever_ns = 3'000'000'000'000;
constexpr int n = 64, bytes = n * 4;

// How long a scenario of average length goes on.
inline uint64_t second_ns = 1'000'000'000;
inline const Family* family = &host_family();
inline std::atomic<const char*> scenario{"start"};
inline std::atomic<uint64_t> progress{0};

struct Scenario {
  const char* name;
  void (*run)();
};
// Those about the host's executor alone, those about what is let go, taken back or left open, and
// those about what is shared.
std::vector<Scenario> executor_scenarios();
std::vector<Scenario> lifetime_scenarios();
std::vector<Scenario> shared_scenarios();
// Leaves the host device work that waits; and lets it go on, when everything of static life is
// gone.
void leave_work();
void finish_work();

[[noreturn]] inline void violation(const char* what, double a = 0, double b = 0,
                                   const char* said = "") {
  std::printf("VIOLATION in '%s': %s (%g, %g) %s\n", scenario.load(), what, a, b, said);
  std::fflush(stdout);
  _exit(1);
}

inline void threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([&body, i] {
      try {
        body(i);
      } catch (const Error& error) {
        violation("a refusal that nobody expected", i, error.status, error.what());
      }
    });
  for (auto& thread : all) thread.join();
}

inline void during(uint64_t ns, const std::function<void()>& body) {
  for (const uint64_t end = now_ns() + ns; now_ns() < end; progress++) body();
}

// What `body` is refused with, or 0. What the driver says is no refusal: our own rules come first
// and know everything it asks.
template <class F>
int refusal(F&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    if (std::strstr(error.what(), "refused with") == nullptr)
      violation("the driver was asked for what it must not be", error.status, 0, error.what());
    return error.status;
  }
}

class Draw {
 public:
  explicit Draw(int id) : state_(uint32_t(id) * 2654435761u + 1) {}
  uint32_t operator()(uint32_t below) {
    return ((state_ = state_ * 1664525 + 1013904223) >> 8) % below;
  }

 private:
  uint32_t state_;
};

inline size_t devices() { return family->find().devices.size(); }
// Never closed, as in a process that opened them.
inline const Ref<Device>& device(size_t index = 0) {
  static const auto& two =
      *new std::array{family->open(0), devices() > 1 ? family->open(1) : nullptr};
  return two[index];
}
inline bool is(const char* name) { return std::strcmp(family->name, name) == 0; }

struct Floats {
  explicit Floats(size_t on = 0) : memory(device(on)->allocate(bytes)) {}
  Ref<Memory> memory;
  Span span() const { return {memory, 0, bytes}; }
};

// Where values come home to be read; only the host device's own memory could be read in place.
struct Home {
  explicit Home(size_t on = 0) : memory(device(on)->allocate_host(bytes)) {}
  Ref<Memory> memory;
  Span span() const { return {memory, 0, bytes}; }
  const float* read() const { return reinterpret_cast<const float*>(memory->address); }
  // Every value is this one, else the first that is not.
  void expect(float value, const char* otherwise) const {
    for (int i = 0; i < n; ++i)
      if (read()[i] != value) violation(otherwise, read()[i], value);
  }
};

inline void fill(Stream& stream, const Span& to, float value) { stream.fill(to, &value, 4); }
inline void fill(Stream& stream, const Floats& to, float value) { fill(stream, to.span(), value); }

// y += x
inline void add(Stream& stream, const Floats& y, const Floats& x) {
  Launch launch;
  launch.kernel = find_kernel("axpby");
  launch.spans = {y.span(), x.span()};
  launch.args.whole[0] = n;
  launch.args.real[0] = launch.args.real[1] = 1;
  stream.launch(std::move(launch));
}

// Holds its stream until opened.
struct Latch {
  Ref<Memory> word = device()->allocate_host(4);
  Latch() { word_at(reinterpret_cast<int32_t*>(word->address)).store(0); }
  void hold(Stream& stream) {
    Launch launch;
    launch.kernel = find_kernel("latch");
    launch.spans = {Span{word, 0, 4}};
    launch.args.whole[0] = 10'000;
    stream.launch(std::move(launch));
  }
  void open() { word_at(reinterpret_cast<int32_t*>(word->address)).store(1); }
};

// The ways a thread can learn of an event: asking (then the pool must do everything), waiting, or
// attending with a bell.
inline void ask(Event& event) {
  while (!event.query()) std::this_thread::yield();
}
inline void wait(Event& event) {
  if (!device()->wait_event(event, forever_ns)) violation("a wait timed out");
}
inline void finish(Stream& stream) {
  const auto event = device()->create_event(false);
  stream.record(event, false);
  wait(*event);
}

// A thread with a bell, as poll.node runs it: look, help, sleep on the bell; now and then it parks
// where only a ring of its own kind would wake it, having said so. Where completions ring nobody it
// waits natively, as poll.node does then.
struct Attendant {
  Bell bell{0, 0};
  bool attending = false;
  const bool rings = device()->traits().rings;
  void attend(bool yes) {
    if (yes != attending) yes ? device()->attend(&bell) : device()->dismiss(&bell);
    attending = yes;
  }
  ~Attendant() { attend(false); }
  void until_done(Event& event) {
    if (!rings) return wait(event);
    attend(true);
    for (;;) {
      const int32_t seen = bell.read();
      if (event.query()) return;
      if (bell.read() != seen || device()->help(50'000)) continue;
      bell.sleep(seen, forever_ns);
    }
  }
};

// A value through three streams, ordered by events alone; other streams of the same thread run
// beside it.
inline void chain(int id, const std::function<void(Event&)>& done) {
  Ref<Stream> s[3];
  Ref<Event> e[3];
  for (auto& stream : s) stream = device()->create_stream(id % 3 - 1);
  for (auto& event : e) event = device()->create_event(true);
  const bool timed = device()->traits().timing_events;
  Floats a, b;
  Home c;
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
    c.expect(value, "a stream ran ahead of its event");
    if (!e[0]->query() || (timed && e[2]->elapsed_ms(*e[0]) < 0))
      violation("an earlier event is later");
  }
}

}  // namespace hotslot::stress
