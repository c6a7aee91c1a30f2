// The result of probing managed memory. One thread's child process probes at most once, and the
// outcome is kept for all threads.
#pragma once
#include <mutex>
#include <string>

namespace hotslot {

class Probe {
 public:
  // Returns "mine" if the thread has the probe from now on, "here" if it already has it, "running"
  // if another thread has it, else the outcome.
  std::string claim(const void* thread) {
    std::lock_guard lock(mutex_);
    if (!outcome_.empty()) return outcome_;
    if (!claimed_by_) {
      claimed_by_ = thread;
      return "mine";
    }
    return claimed_by_ == thread ? "here" : "running";
  }
  // Sets the outcome permanently. Does nothing unless the thread has the probe.
  void publish(const void* thread, std::string outcome) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ != thread) return;
    claimed_by_ = nullptr;
    outcome_ = std::move(outcome);
  }
  // Releases the probe of a thread that ends, so that another thread can claim it.
  void leave(const void* thread) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ == thread) claimed_by_ = nullptr;
  }
  // Returns the outcome, or "" before it is published.
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
