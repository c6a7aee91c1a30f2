// What this process knows of managed memory: probed at most once, by one thread's child process,
// remembered for all threads.
#pragma once
#include <mutex>
#include <string>

namespace hotslot {

class Probe {
 public:
  // "mine": the thread has the probe from now on. "here": it has it already. "running": another has
  // it. Else the outcome.
  std::string claim(const void* thread) {
    std::lock_guard lock(mutex_);
    if (!outcome_.empty()) return outcome_;
    if (!claimed_by_) {
      claimed_by_ = thread;
      return "mine";
    }
    return claimed_by_ == thread ? "here" : "running";
  }
  // Only who has the probe says how it ended; it stays so.
  void publish(const void* thread, std::string outcome) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ != thread) return;
    claimed_by_ = nullptr;
    outcome_ = std::move(outcome);
  }
  // The thread ends: a probe that it did not finish is anybody's.
  void leave(const void* thread) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ == thread) claimed_by_ = nullptr;
  }
  // Empty: not known yet.
  std::string outcome() {
    std::lock_guard lock(mutex_);
    return outcome_;
  }

 private:
  std::mutex mutex_;
  std::string outcome_;
  const void* claimed_by_ = nullptr;
};

}  // namespace hotslot
