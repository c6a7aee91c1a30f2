// A lock for critical sections of a few instructions.
#pragma once
#include <sched.h>

#include <atomic>

namespace hotslot {

// lock() yields the core after a few spins, because the thread that has the lock may be preempted.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); ++spins)
      if (spins > 64) sched_yield();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  // A thread that takes the lock acquires what the last holder released. The exchange needs no
  // stronger order, because the lock only guards plain memory.
  std::atomic<bool> flag_{false};
};

}  // namespace hotslot
