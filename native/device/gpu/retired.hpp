// What was let go while the device may still touch it. A GPU's queued work holds no references:
// instead, when the last reference to something goes, a mark is put behind everything enqueued so
// far, and it is freed once all marks are passed. So enqueueing costs nothing, and closing never
// waits.
//
// What goes back to the driver itself waits longer: until nothing runs at all. A driver that takes
// memory back waits until its device is idle, and some let no other call in meanwhile (CUDA's under
// a lock of the context).
//
// Letting go asks for no memory: a destructor cannot say that there is none. Whatever will be let
// go brings its place.
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

// A point behind everything one stream had been given. An error counts as passed: nothing of that
// stream runs any more.
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
  struct Each;

 public:
  // Room for one thing that will be let go, had when the thing is made.
  class Place {
   public:
    Place();
    ~Place();
    Place(Place&&) noexcept;
    Place& operator=(Place&&) noexcept;
    // Without one where there is no memory: what would wait for an idle device then goes back at
    // once.
    static Place if_any();
    explicit operator bool() const { return each_ != nullptr; }

   private:
    friend class Retired;
    explicit Place(std::unique_ptr<Each> each);
    std::unique_ptr<Each> each_;
  };

  // `mark` puts a mark behind everything enqueued so far, on every stream; `idle` only asks whether
  // something runs.
  Retired(std::function<Marks()> mark, std::function<bool()> idle)
      : mark_(std::move(mark)), idle_(std::move(idle)) {}
  // False: no memory for marks.
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

  // `free` runs once nothing enqueued so far is left: now, or in some later sweep, in whatever
  // thread sweeps then. It must not throw, and may take the place for what comes next.
  template <class F>
  void add(Place place, F free);

  // `give_back` runs once nothing runs on any stream: now, or in some later sweep; or by force().
  // It must not throw. A device that is never idle is made to wait when there is this much for it.
  static constexpr size_t max_waiting_bytes = size_t(1) << 30;
  template <class F>
  void when_idle(Place place, size_t bytes, F give_back);
  // Whether nothing runs on any stream, as far as is known. Threads that enqueue may change that at
  // once.
  bool idle() const {
    try {
      return may_sweep() && idle_();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Frees what can be freed; whether nothing is left that work may still touch.
  bool sweep();
  // What waits for an idle device goes back now, whatever runs: the caller may have to wait until
  // it is done.
  void force();

  // Sweeps until nothing is left or `ns` are over.
  void drain(uint64_t ns) {
    for (const uint64_t deadline = now_ns() + ns; !sweep() && now_ns() < deadline;) {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  // A closure that lies in its place, and runs once.
  class Deed {
   public:
    template <class F>
    void becomes(F deed) {
      static_assert(sizeof(F) <= sizeof room_ && std::is_nothrow_move_constructible_v<F>);
      new (room_) F(std::move(deed));
      run_ = [](void* at, Place place) {
        F deed = std::move(*static_cast<F*>(at));
        static_cast<F*>(at)->~F();
        if constexpr (std::is_invocable_v<F&, Place>)
          deed(std::move(place));
        else
          deed();
      };
    }
    void operator()(Place place) { run_(room_, std::move(place)); }

   private:
    alignas(std::max_align_t) unsigned char room_[80];
    void (*run_)(void*, Place) = nullptr;
  };
  struct Each {
    std::unique_ptr<Each> next;
    std::shared_ptr<Marks> marks;  // of all that were marked together
    Deed deed;
  };
  // First in, first out.
  class Chain {
   public:
    void push(std::unique_ptr<Each> each) {
      Each* const last = each.get();
      (last_ ? last_->next : first_) = std::move(each);
      last_ = last;
    }
    std::unique_ptr<Each> pop() {
      auto each = std::move(first_);
      if (each) first_ = std::move(each->next);
      if (!first_) last_ = nullptr;
      return each;
    }
    Chain take() {
      Chain all;
      std::swap(all, *this);
      return all;
    }
    bool empty() const { return !first_; }

   private:
    std::unique_ptr<Each> first_;
    Each* last_ = nullptr;
  };
  static void run(std::unique_ptr<Each> each) {
    Deed& deed = each->deed;
    each->marks.reset();
    deed(Place(std::move(each)));
  }

  const std::function<Marks()> mark_;
  const std::function<bool()> idle_;
  std::mutex mutex_;
  Chain unmarked_, waiting_, for_idle_;
  size_t for_idle_bytes_ = 0;
};

inline Retired::Place::Place() : each_(std::make_unique<Each>()) {}
inline Retired::Place::Place(std::unique_ptr<Each> each) : each_(std::move(each)) {}
inline Retired::Place::~Place() = default;
inline Retired::Place::Place(Place&&) noexcept = default;
inline Retired::Place& Retired::Place::operator=(Place&&) noexcept = default;
inline Retired::Place Retired::Place::if_any() {
  return Place(std::unique_ptr<Each>(new (std::nothrow) Each));
}

template <class F>
void Retired::add(Place place, F free) {
  place.each_->deed.becomes(std::move(free));
  {
    std::lock_guard lock(mutex_);
    unmarked_.push(std::move(place.each_));
  }
  sweep();
}

template <class F>
void Retired::when_idle(Place place, size_t bytes, F give_back) {
  if (!place) return give_back();
  place.each_->deed.becomes(std::move(give_back));
  std::lock_guard lock(mutex_);
  for_idle_.push(std::move(place.each_));
  for_idle_bytes_ += bytes;
}

inline bool Retired::sweep() {
  if (!may_sweep()) return false;
  Chain fresh, over;
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
    for (Chain all = waiting_.take(); auto each = all.pop();)
      (passed(*each->marks) ? over : waiting_).push(std::move(each));
    nothing_left = waiting_.empty() && unmarked_.empty();
  }
  // Without the lock: freeing may let go of more.
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
  Chain all;
  {
    std::lock_guard lock(mutex_);
    all = for_idle_.take();
    for_idle_bytes_ = 0;
  }
  while (auto each = all.pop()) run(std::move(each));
}

}  // namespace hotslot
