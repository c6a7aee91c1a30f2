// The probe of managed memory. One thread at a time may run it, in a child process. After one probe
// has ended, all threads use its outcome.
#pragma once
#include <mutex>
#include <string>

namespace hotslot {

class Probe {
 public:
  // Claims the probe for the thread. Returns "mine" if the thread has claimed it by this call, and
  // "here" if it had claimed it before. Returns "running" if another thread has claimed it. Returns
  // the outcome if the probe has ended.
  std::string claim(const void* thread) {
    std::lock_guard lock(mutex_);
    if (!outcome_.empty()) return outcome_;
    if (!claimed_by_) {
      claimed_by_ = thread;
      return "mine";
    }
    return claimed_by_ == thread ? "here" : "running";
  }
  // Sets the outcome permanently. Does nothing unless the thread has claimed the probe.
  void publish(const void* thread, std::string outcome) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ != thread) return;
    claimed_by_ = nullptr;
    outcome_ = std::move(outcome);
  }
  // Releases the probe if the thread has claimed it, because the thread ends. Another thread can
  // then claim it.
  void leave(const void* thread) {
    std::lock_guard lock(mutex_);
    if (claimed_by_ == thread) claimed_by_ = nullptr;
  }
  // Returns the outcome, or "" before publish().
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
