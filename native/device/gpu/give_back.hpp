// Frees a driver's object, which may fail. Destructors cannot throw, and the caller has already
// closed its object. So the error text is kept until JavaScript fetches it and warns, and the
// object until the driver frees it.
#pragma once
#include <functional>
#include <mutex>
#include <new>
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

// Returns false if `act` threw, and keeps the error text for JavaScript.
template <class F>
bool release(F&& act) {
  try {
    act();
    return true;
  } catch (const std::exception& error) {
    try {
      ReleaseFailures::instance().add(error.what());
    } catch (const std::bad_alloc&) {
      // The error is not reported.
    }
    return false;
  }
}

// Calls `offer`, which throws the driver's error unless the driver frees the object. The error may
// be unrelated to the object, so the offer is made a second time at once. Returns false if both
// failed, and keeps the second error for JavaScript.
template <class Offer>
bool offer_twice(Offer&& offer) {
  try {
    offer();
    return true;
  } catch (const std::exception&) {
    return release(offer);
  }
}

// Objects that a driver failed twice to free. They are offered again, without another report,
// whenever their family counts or looks for memory.
class Unreturned {
 public:
  template <class Offer>
  void give_back(Offer offer) {
    if (!offer_twice(offer)) keep(std::move(offer));
  }
  // Keeps an offer. If memory for it runs out, the object is lost.
  template <class Offer>
  void keep(Offer offer) {
    try {
      std::lock_guard guard(lock_);
      offers_.emplace_back(std::move(offer));
    } catch (const std::bad_alloc&) {
      release([] { throw std::bad_alloc(); });
    }
  }
  void offer_again() {
    std::vector<std::function<void()>> offers;
    {
      std::lock_guard guard(lock_);
      offers.swap(offers_);
    }
    // Without the lock, because an offer may free more objects.
    for (auto& offer : offers) {
      try {
        offer();
      } catch (const std::exception&) {
        keep(std::move(offer));
      }
    }
  }

 private:
  std::mutex lock_;
  std::vector<std::function<void()>> offers_;
};

}  // namespace hotslot
