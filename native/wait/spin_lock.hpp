// A lock for critical sections of a few instructions.
#pragma once
#include <sched.h>

#include <atomic>

namespace hotslot {

// Short critical sections; a preempted holder is waited for by yielding.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); ++spins)
      if (spins > 64) sched_yield();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  // Taken by acquiring what the last holder released; the exchange needs no more, for it guards
  // plain memory alone.
  std::atomic<bool> flag_{false};
};

}  // namespace hotslot
