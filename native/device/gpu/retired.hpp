// What was let go while the device may still touch it. A GPU's queued work holds no references: instead, when the last
// reference to something goes, a mark is put behind everything enqueued so far, and it is freed once all marks are
// passed. So enqueueing costs nothing, and closing never waits.
//
// What goes back to the driver itself waits longer: until nothing runs at all. A driver that takes memory back waits
// until its device is idle, and some let no other call in meanwhile (CUDA's under a lock of the context).
#pragma once
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "device/core/capture.hpp"
#include "wait/bell.hpp"

namespace hotslot {

// A point behind everything one stream had been given. An error counts as passed: nothing of that stream runs any more.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool passed() = 0;
};

using Marks = std::vector<std::shared_ptr<Mark>>;

inline bool passed(Marks& marks) {
  while (!marks.empty() && marks.back()->passed()) marks.pop_back();
  return marks.empty();
}

class Retired {
 public:
  // `mark` puts a mark behind everything enqueued so far, on every stream; `idle` only asks whether something runs.
  Retired(std::function<Marks()> mark, std::function<bool()> idle) : mark_(std::move(mark)), idle_(std::move(idle)) {}
  Marks mark() const { return mark_(); }

  // Taking marks locks every stream's membership, and memory must not be freed during a capture. A thread that holds
  // such a lock or captures skips the sweep.
  static bool may_sweep() { return CaptureMembership::held() == 0 && !thread_captures(); }

  // `free` runs once nothing enqueued so far is left: now, or in some later sweep, in whatever thread sweeps then. It
  // must not throw.
  void add(std::function<void()> free) {
    {
      std::lock_guard lock(mutex_);
      unmarked_.push_back(std::move(free));
    }
    sweep();
  }

  // `give_back` runs once nothing runs on any stream: now, or in some later sweep; or by force(). It must not throw. A
  // device that is never idle is made to wait when there is this much for it.
  static constexpr size_t most_waiting_bytes = size_t(1) << 30;
  void when_idle(size_t bytes, std::function<void()> give_back) {
    std::lock_guard lock(mutex_);
    for_idle_.push_back(std::move(give_back));
    for_idle_bytes_ += bytes;
  }
  // Whether nothing runs on any stream. Threads that enqueue may change that at once.
  bool idle() const { return may_sweep() && idle_(); }

  // Frees what can be freed; whether nothing is left that work may still touch.
  bool sweep() {
    if (!may_sweep()) return false;
    std::list<Each> over;
    std::vector<std::function<void()>> fresh;
    size_t left;
    bool kept, too_much;
    {
      std::lock_guard lock(mutex_);
      fresh.swap(unmarked_);
    }
    if (!fresh.empty()) {
      const Marks marks = mark_();
      std::lock_guard lock(mutex_);
      for (auto& free : fresh) waiting_.push_back({marks, std::move(free)});
    }
    {
      std::lock_guard lock(mutex_);
      for (auto each = waiting_.begin(); each != waiting_.end();) {
        const auto next = std::next(each);
        if (passed(each->marks)) over.splice(over.end(), waiting_, each);
        each = next;
      }
      left = waiting_.size();
    }
    // Without the lock: freeing may let go of more.
    for (auto& each : over) each.free();
    {
      std::lock_guard lock(mutex_);
      kept = !for_idle_.empty();
      too_much = for_idle_bytes_ > most_waiting_bytes;
    }
    if (kept && (too_much || idle())) force();
    return left == 0;
  }

  // What waits for an idle device goes back now, whatever runs: the caller may have to wait until it is done.
  void force() {
    if (!may_sweep()) return;
    std::vector<std::function<void()>> all;
    {
      std::lock_guard lock(mutex_);
      all.swap(for_idle_);
      for_idle_bytes_ = 0;
    }
    for (auto& give_back : all) give_back();
  }

  // Sweeps until nothing is left or `ns` are over.
  void drain(uint64_t ns) {
    for (const uint64_t deadline = now_ns() + ns; !sweep() && now_ns() < deadline;) {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  struct Each {
    Marks marks;
    std::function<void()> free;
  };
  const std::function<Marks()> mark_;
  const std::function<bool()> idle_;
  std::mutex mutex_;
  std::vector<std::function<void()>> unmarked_;
  std::list<Each> waiting_;
  std::vector<std::function<void()>> for_idle_;
  size_t for_idle_bytes_ = 0;
};

}  // namespace hotslot
