// Frees objects of a driver. The driver may fail to free an object, but a destructor cannot throw.
// So the error text is stored until JavaScript fetches it and emits a warning. The object is stored
// until a later attempt frees it.
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
  // Maximum number of stored texts. Further texts are dropped, because on a lost device every call
  // fails and adds a text.
  static constexpr size_t most = 100;
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Calls `act`. If it throws, stores the error text for JavaScript and returns false.
template <class F>
bool release(F&& act) {
  try {
    act();
    return true;
  } catch (const std::exception& error) {
    try {
      ReleaseFailures::instance().add(error.what());
    } catch (const std::bad_alloc&) {
      // Memory is too short to store the error, so it is dropped.
    }
    return false;
  }
}

// Calls `offer`, which throws the driver's error if the driver does not free the object. The error
// may be unrelated to the object, so `offer` is called a second time. Returns false if both calls
// threw, and stores the second error for JavaScript.
template <class Offer>
bool offer_twice(Offer&& offer) {
  try {
    offer();
    return true;
  } catch (const std::exception&) {
    return release(offer);
  }
}

// Objects that a driver has failed twice to free. offer_again() tries to free them again without
// another report. A family calls it when it counts or needs memory.
class Unreturned {
 public:
  template <class Offer>
  void give_back(Offer offer) {
    if (!offer_twice(offer)) keep(std::move(offer));
  }
  // Stores an offer for offer_again(). If memory for the offer runs out, the driver's object is
  // never freed, and an error for JavaScript is stored.
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
    // Called without the lock, because an offer may free more objects.
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
