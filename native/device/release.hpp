// Failures of giving something back. Destructors cannot throw, and whoever closes has nothing left to close: the sentence is
// kept until JavaScript fetches it and warns.
#pragma once
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hotslot {

class ReleaseFailures {
 public:
  static ReleaseFailures& instance() {
    static ReleaseFailures& all = *new ReleaseFailures;  // never destroyed: see Core::instance
    return all;
  }
  void add(std::string text) {
    std::lock_guard lock(mutex_);
    if (texts_.size() < most) texts_.push_back(std::move(text));
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  static constexpr size_t most = 100;  // a lost device fails every call
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Runs what gives something back; what it throws is kept.
template <class F>
void release(F&& give_back) {
  try {
    give_back();
  } catch (const std::exception& error) {
    ReleaseFailures::instance().add(error.what());
  }
}

}  // namespace hotslot
