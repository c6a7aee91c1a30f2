// What was let go while the device may still touch it. A GPU's queued work holds no references: instead, when the last
// reference to something goes, a mark is put behind everything enqueued so far, and it is freed once all marks are
// passed. So enqueueing costs nothing, and closing never waits.
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
  // `mark` puts a mark behind everything enqueued so far, on every stream.
  explicit Retired(std::function<Marks()> mark) : mark_(std::move(mark)) {}
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

  // Frees what can be freed; whether all is.
  bool sweep() {
    if (!may_sweep()) return false;
    std::list<Each> over;
    std::vector<std::function<void()>> fresh;
    size_t left;
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
    return left == 0;
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
  std::mutex mutex_;
  std::vector<std::function<void()>> unmarked_;
  std::list<Each> waiting_;
};

}  // namespace hotslot
