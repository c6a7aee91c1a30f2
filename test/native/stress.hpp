// What the stress scenarios of the native core share: the device family, threads, memory with
// values, and ways to wait.
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

// Duration of an average scenario, in nanoseconds.
inline uint64_t second_ns = 1'000'000'000;
inline const Family* family = &host_family();
inline std::atomic<const char*> scenario{"start"};
inline std::atomic<uint64_t> progress{0};

struct Scenario {
  const char* name;
  void (*run)();
};
// Scenarios about the host's executor, about objects that are released, revoked or left open, and
// about shared objects.
std::vector<Scenario> executor_scenarios();
std::vector<Scenario> lifetime_scenarios();
std::vector<Scenario> shared_scenarios();
// leave_work() leaves waiting work on the device. finish_work() lets it run after all static
// objects are destroyed.
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
        violation("an unexpected refusal", i, error.status, error.what());
      }
    });
  for (auto& thread : all) thread.join();
}

inline void during(uint64_t ns, const std::function<void()>& body) {
  for (const uint64_t end = now_ns() + ns; now_ns() < end; progress++) body();
}

// Returns the status that `body` is refused with, or 0. Hotslot must refuse a wrong call before the
// driver does, so an error of the driver itself is a violation.
template <class F>
int refusal(F&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    if (std::strstr(error.what(), "refused with") == nullptr)
      violation("a wrong call reached the driver", error.status, 0, error.what());
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
// Devices are never closed, as in a process that uses them.
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

// Host memory for results. Only the CPU device's own memory could be read in place.
struct Home {
  explicit Home(size_t on = 0) : memory(device(on)->allocate_host(bytes)) {}
  Ref<Memory> memory;
  Span span() const { return {memory, 0, bytes}; }
  const float* read() const { return reinterpret_cast<const float*>(memory->address); }
  // Checks that every element equals `value`. Otherwise reports the first that differs.
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

// Blocks a stream until open() is called.
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

// A thread learns of an event in three ways: it queries (the pool must do all work), it waits, or
// it attends with a bell.
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

// A thread with a bell, like poll.node: it queries, helps, then sleeps on the bell. If completions
// ring no bell on this device, it waits natively, like poll.node.
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

// Sends a value through three streams that only events order. The thread calls `done` with the last
// event of each round.
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
    // s[0] waits for the last round. The streams behind are blocked when the work of the first
    // stream arrives.
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
      violation("elapsed_ms() of an earlier event is negative, or the event is not done");
  }
}

}  // namespace hotslot::stress
