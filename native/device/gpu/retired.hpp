// Resources without references that the device may still touch. Queued work of a GPU keeps no
// references to resources. So when the last reference to a resource is dropped, a mark is enqueued
// on every stream after all work so far. The resource is freed after all these marks have passed.
// So enqueueing work costs nothing extra, and closing never waits.
//
// A resource that is returned to the driver waits longer, until no work runs. A driver that frees
// memory waits until its device is idle. Some drivers block all other calls meanwhile (CUDA does,
// under a lock of the context).
//
// Retiring allocates nothing, because a destructor cannot report that memory has run out. Each
// resource brings a Reservation, which was allocated together with it.
#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/core/capture.hpp"
#include "wait/bell.hpp"

namespace hotslot {

// A point in one stream after all work that was enqueued when the mark was created. If the stream
// has an error, the mark has passed, because no work of the stream runs then.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool passed() = 0;
};

using Marks = std::vector<std::shared_ptr<Mark>>;

inline bool passed(Marks& marks) {
  while (!marks.empty() && marks.back()->passed()) marks.pop_back();
  return marks.empty();
}

class Retired {
  struct Node;

 public:
  // Room for the entry of one resource that will be retired. It is allocated when the resource is
  // created.
  class Reservation {
   public:
    Reservation();
    ~Reservation();
    Reservation(Reservation&&) noexcept;
    Reservation& operator=(Reservation&&) noexcept;
    // Returns an empty reservation if memory runs out. With an empty one, when_idle() frees the
    // resource at once.
    static Reservation if_any();
    explicit operator bool() const { return each_ != nullptr; }

   private:
    friend class Retired;
    explicit Reservation(std::unique_ptr<Node> each);
    std::unique_ptr<Node> each_;
  };

  // `mark` enqueues a mark on every stream after all work so far, and returns the marks. `idle`
  // returns whether no work runs, and enqueues nothing.
  Retired(std::function<Marks()> mark, std::function<bool()> idle)
      : mark_(std::move(mark)), idle_(std::move(idle)) {}
  // Enqueues marks and stores them. Returns false if memory for the marks runs out.
  bool mark(Marks& marks) const {
    try {
      marks = mark_();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Returns whether this thread may free resources. Enqueueing marks locks every stream's
  // membership, so a thread that holds such a lock may not. Memory must not be freed during a
  // capture, so a thread that captures may not either.
  static bool may_sweep() { return CaptureMembership::held() == 0 && !thread_captures(); }

  // Runs `free` after all work that is enqueued so far. `free` runs now or in a later sweep, in the
  // thread that sweeps, and must not throw. If `free` takes a Reservation, it receives `place`,
  // with which it can call when_idle().
  template <class F>
  void add(Reservation place, F free);

  // Stores `give_back` until no work runs on any stream. A later sweep or force() then runs it.
  // Runs `give_back` at once if `place` is empty. `give_back` must not throw.
  //
  // `bytes` counts towards the limit `max_waiting_bytes`. If the resources that wait exceed this
  // limit, the next sweep runs all of their functions, even if work still runs. The driver may then
  // block the thread until that work is done.
  static constexpr size_t max_waiting_bytes = size_t(1) << 30;
  template <class F>
  void when_idle(Reservation place, size_t bytes, F give_back);
  // Returns whether a query found no work on any stream. The answer may be outdated at once,
  // because other threads can enqueue work. Returns false if this thread may not sweep.
  bool idle() const {
    try {
      return may_sweep() && idle_();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Frees the resources that no work touches. Returns true after every resource of add() has been
  // freed. Returns false if some still wait, or if this thread may not sweep.
  bool sweep();
  // Frees the resources of when_idle() even if work runs. The driver may block the thread until
  // that work is done. Does nothing if this thread may not sweep.
  void force();

  // Sweeps until all resources of add() are freed or `ns` nanoseconds have passed.
  void drain(uint64_t ns) {
    for (const uint64_t deadline = now_ns() + ns; !sweep() && now_ns() < deadline;) {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  // A closure that is stored inside a Node and runs once.
  class Deleter {
   public:
    template <class F>
    void becomes(F deleter) {
      static_assert(sizeof(F) <= sizeof room_ && std::is_nothrow_move_constructible_v<F>);
      new (room_) F(std::move(deleter));
      run_ = [](void* at, Reservation place) {
        F deleter = std::move(*static_cast<F*>(at));
        static_cast<F*>(at)->~F();
        if constexpr (std::is_invocable_v<F&, Reservation>)
          deleter(std::move(place));
        else
          deleter();
      };
    }
    void operator()(Reservation place) { run_(room_, std::move(place)); }

   private:
    alignas(std::max_align_t) unsigned char room_[80];
    void (*run_)(void*, Reservation) = nullptr;
  };
  struct Node {
    std::unique_ptr<Node> next;
    std::shared_ptr<Marks> marks;  // shared by all resources that were marked together
    Deleter deleter;
  };
  // A queue: first in, first out.
  class Fifo {
   public:
    void push(std::unique_ptr<Node> each) {
      Node* const last = each.get();
      (last_ ? last_->next : first_) = std::move(each);
      last_ = last;
    }
    std::unique_ptr<Node> pop() {
      auto each = std::move(first_);
      if (each) first_ = std::move(each->next);
      if (!first_) last_ = nullptr;
      return each;
    }
    Fifo take() {
      Fifo all;
      std::swap(all, *this);
      return all;
    }
    bool empty() const { return !first_; }

   private:
    std::unique_ptr<Node> first_;
    Node* last_ = nullptr;
  };
  static void run(std::unique_ptr<Node> each) {
    Deleter& deleter = each->deleter;
    each->marks.reset();
    deleter(Reservation(std::move(each)));
  }

  const std::function<Marks()> mark_;
  const std::function<bool()> idle_;
  std::mutex mutex_;
  Fifo unmarked_, waiting_, for_idle_;
  size_t for_idle_bytes_ = 0;
};

inline Retired::Reservation::Reservation() : each_(std::make_unique<Node>()) {}
inline Retired::Reservation::Reservation(std::unique_ptr<Node> each) : each_(std::move(each)) {}
inline Retired::Reservation::~Reservation() = default;
inline Retired::Reservation::Reservation(Reservation&&) noexcept = default;
inline Retired::Reservation& Retired::Reservation::operator=(Reservation&&) noexcept = default;
inline Retired::Reservation Retired::Reservation::if_any() {
  return Reservation(std::unique_ptr<Node>(new (std::nothrow) Node));
}

template <class F>
void Retired::add(Reservation place, F free) {
  place.each_->deleter.becomes(std::move(free));
  {
    std::lock_guard lock(mutex_);
    unmarked_.push(std::move(place.each_));
  }
  sweep();
}

template <class F>
void Retired::when_idle(Reservation place, size_t bytes, F give_back) {
  if (!place) return give_back();
  place.each_->deleter.becomes(std::move(give_back));
  std::lock_guard lock(mutex_);
  for_idle_.push(std::move(place.each_));
  for_idle_bytes_ += bytes;
}

inline bool Retired::sweep() {
  if (!may_sweep()) return false;
  Fifo fresh, over;
  bool nothing_left, kept, too_much;
  {
    std::lock_guard lock(mutex_);
    fresh = unmarked_.take();
  }
  if (!fresh.empty()) {
    std::shared_ptr<Marks> marks;
    try {
      marks = std::make_shared<Marks>(mark_());
    } catch (const std::exception&) {
      // The resources stay unmarked. A later sweep may have enough memory.
    }
    std::lock_guard lock(mutex_);
    while (auto each = fresh.pop()) {
      each->marks = marks;
      (marks ? waiting_ : unmarked_).push(std::move(each));
    }
  }
  {
    std::lock_guard lock(mutex_);
    for (Fifo all = waiting_.take(); auto each = all.pop();)
      (passed(*each->marks) ? over : waiting_).push(std::move(each));
    nothing_left = waiting_.empty() && unmarked_.empty();
  }
  // Without the lock, because a resource's deleter may retire more resources.
  while (auto each = over.pop()) run(std::move(each));
  {
    std::lock_guard lock(mutex_);
    kept = !for_idle_.empty();
    too_much = for_idle_bytes_ > max_waiting_bytes;
  }
  if (kept && (too_much || idle())) force();
  return nothing_left;
}

inline void Retired::force() {
  if (!may_sweep()) return;
  Fifo all;
  {
    std::lock_guard lock(mutex_);
    all = for_idle_.take();
    for_idle_bytes_ = 0;
  }
  while (auto each = all.pop()) run(std::move(each));
}

}  // namespace hotslot
