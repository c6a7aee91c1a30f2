// Giving something back to a driver, which may refuse. Destructors cannot throw, and the caller
// that closes has nothing left to close: the sentence is kept until JavaScript fetches it and
// warns, the thing until the driver takes it.
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

// False: `act` threw, and its sentence will be told.
template <class F>
bool release(F&& act) {
  try {
    act();
    return true;
  } catch (const std::exception& error) {
    try {
      ReleaseFailures::instance().add(error.what());
    } catch (const std::bad_alloc&) {
      // Untold.
    }
    return false;
  }
}

// An offer throws what the driver says unless the driver takes the thing. A refusal may have had
// nothing to do with the thing, so the offer is made a second time at once. False: refused twice,
// and told.
template <class Offer>
bool offer_twice(Offer&& offer) {
  try {
    offer();
    return true;
  } catch (const std::exception&) {
    return release(offer);
  }
}

// What a driver refused twice. It is offered again, without another word, whenever its family
// counts or looks for memory.
class Unreturned {
 public:
  template <class Offer>
  void give_back(Offer offer) {
    if (!offer_twice(offer)) keep(std::move(offer));
  }
  // Refused, and no memory to remember it by: it is lost.
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
    // Without the lock: an offer may find more to give back.
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
