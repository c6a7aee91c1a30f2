// What was let go while the device may still touch it. A GPU's queued work holds no references: instead, when the last
// reference to something goes, a mark is put behind everything enqueued so far, and it is freed once all marks are passed.
// So enqueueing costs nothing, and closing never waits.
#pragma once
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "wait/bell.hpp"

namespace hotslot {

// A point behind everything one stream had been given. An error counts as passed: nothing of that stream runs any more.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool passed() = 0;
};

class Retired {
 public:
  using Marks = std::vector<std::shared_ptr<Mark>>;

  // `free` runs once every mark is passed: now, or in some later sweep, in whatever thread sweeps then. It must not throw.
  void add(Marks marks, std::function<void()> free) {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back({std::move(marks), std::move(free)});
    }
    sweep();
  }

  // Frees what can be freed; how much is left.
  size_t sweep() {
    std::list<Each> over;
    size_t left;
    {
      std::lock_guard lock(mutex_);
      for (auto each = waiting_.begin(); each != waiting_.end();) {
        auto& marks = each->marks;
        while (!marks.empty() && marks.back()->passed()) marks.pop_back();
        const auto next = std::next(each);
        if (marks.empty()) over.splice(over.end(), waiting_, each);
        each = next;
      }
      left = waiting_.size();
    }
    // Without the lock: freeing may let go of more.
    for (auto& each : over) each.free();
    return left;
  }

  // Sweeps until nothing is left or `ns` are over.
  void drain(uint64_t ns) {
    for (const uint64_t deadline = now_ns() + ns; sweep() > 0 && now_ns() < deadline;) {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  struct Each {
    Marks marks;
    std::function<void()> free;
  };
  std::mutex mutex_;
  std::list<Each> waiting_;
};

}  // namespace hotslot
