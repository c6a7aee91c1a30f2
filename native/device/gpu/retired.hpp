// Resources without references that the device may still touch. A GPU's queued work holds no
// references. Instead, when the last reference to a resource is dropped, a mark is enqueued after
// all work so far, and the resource is freed once all marks have passed. So enqueueing costs
// nothing, and closing never waits.
//
// A resource that is returned to the driver itself waits longer, until no work runs. A driver that
// frees memory waits until its device is idle, and some block all other calls meanwhile (CUDA's
// under a lock of the context).
//
// Retiring allocates nothing, because a destructor cannot report that memory ran out. Each resource
// brings its place.
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

// A point after all work enqueued so far on one stream. An error counts as passed, because no work
// of that stream runs then.
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
  // Room for one resource that will be retired, allocated when the resource is made.
  class Reservation {
   public:
    Reservation();
    ~Reservation();
    Reservation(Reservation&&) noexcept;
    Reservation& operator=(Reservation&&) noexcept;
    // Returns an empty place if memory runs out. A resource that would wait for an idle device is
    // then freed at once.
    static Reservation if_any();
    explicit operator bool() const { return each_ != nullptr; }

   private:
    friend class Retired;
    explicit Reservation(std::unique_ptr<Node> each);
    std::unique_ptr<Node> each_;
  };

  // `mark` enqueues a mark after all work so far, on every stream. `idle` only queries whether work
  // runs.
  Retired(std::function<Marks()> mark, std::function<bool()> idle)
      : mark_(std::move(mark)), idle_(std::move(idle)) {}
  // Returns false if memory for marks runs out.
  bool mark(Marks& marks) const {
    try {
      marks = mark_();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Taking marks locks every stream's membership, and memory must not be freed during a capture. A
  // thread that holds such a lock or captures skips the sweep.
  static bool may_sweep() { return CaptureMembership::held() == 0 && !thread_captures(); }

  // Runs `free` once all work enqueued so far is done: now, or in a later sweep, in the thread that
  // sweeps. It must not throw, and may take the place for a next step.
  template <class F>
  void add(Reservation place, F free);

  // Runs `give_back` once no work runs on any stream, in a later sweep or by force(), or at once if
  // `place` is empty. It must not throw. A device that is never idle has to wait if more than
  // `max_waiting_bytes` are waiting.
  static constexpr size_t max_waiting_bytes = size_t(1) << 30;
  template <class F>
  void when_idle(Reservation place, size_t bytes, F give_back);
  // Returns whether no work runs on any stream, as far as is known. Threads that enqueue may change
  // that at once.
  bool idle() const {
    try {
      return may_sweep() && idle_();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Frees what can be freed. Returns whether no resource is left that work may still touch.
  bool sweep();
  // Frees the resources that wait for an idle device even if work runs. The caller may have to wait
  // until that work is done.
  void force();

  // Sweeps until no resource is left or `ns` are over.
  void drain(uint64_t ns) {
    for (const uint64_t deadline = now_ns() + ns; !sweep() && now_ns() < deadline;) {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  // A closure that is stored in its place and runs once.
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
    std::shared_ptr<Marks> marks;  // of all that were marked together
    Deleter deleter;
  };
  // First in, first out.
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
      // A later sweep may find memory.
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
  // Without the lock, because freeing may retire more resources.
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
