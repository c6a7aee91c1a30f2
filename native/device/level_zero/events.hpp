// Level Zero's events: every append signals one of its own (a point), which is what later work,
// records, memory to be freed and the host wait for.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "device/gpu/retired.hpp"
#include "device/level_zero/calls.hpp"

namespace hotslot::level_zero {

struct Driver;
class XpuDevice;

// A driver's event, lent by Points. Counter-based ones may be signalled again at any time; pooled
// ones are one-shot, and are lent again only when nothing can wait for them any more: a wait on the
// device holds the point until it has passed.
struct EventSlot {
  EventHandle event = nullptr;
  bool timed = false, counter = false;
  PoolHandle pool = nullptr;
  uint32_t index = 0;
};

// One signal of an event, in a list. As a mark it is passed when it is done, or when its stream
// failed.
class Point final : public Mark {
 public:
  enum State : uint8_t { unarmed, pending, done, failed };
  Point(Driver& driver, EventSlot slot) : driver_(driver), slot_(slot) {}
  ~Point() override;
  EventHandle event() const { return slot_.event; }
  // The append that signals it was taken by the driver.
  void arm() { state_.store(pending); }
  State state() const { return state_.load(); }
  // Asks the driver while it is pending. `failure` gets the status of an answer that says neither
  // yes nor no.
  State look(Status* failure = nullptr);
  bool passed() override { return look() != pending; }
  Status why() const { return why_.load(); }
  // The device's clock when it was signalled.
  uint64_t stamp() const;
  // The event inside a graph that this one was signalled behind: it has the time.
  std::shared_ptr<class Gate> inner;

 private:
  Driver& driver_;
  EventSlot slot_;
  std::atomic<State> state_{unarmed};
  std::atomic<Status> why_{status::success};
};

// An event built into a command list: signalled by each run, reset before the next. Free when its
// list is gone.
class Gate {
 public:
  Gate(Driver& driver, bool timed);
  ~Gate();
  Gate(const Gate&) = delete;
  EventHandle event() const { return slot_.event; }

 private:
  Driver& driver_;
  EventSlot slot_;
};

// Every event of a driver, used again and again.
class Points {
 public:
  explicit Points(Driver& driver) : driver_(driver) {}
  // `counter`: for in-order immediate lists of a device that has them.
  Ref<Point> point(XpuDevice& device, bool timed, bool counter);
  EventSlot slot(XpuDevice* device, bool timed, bool counter);
  // State of a returned event: never signalled; signalled; the signal may still come.
  enum Left { clean, signalled, unsure };
  // Never throws.
  void give(EventSlot slot, Left left);
  // Gives back to the driver what is not in use.
  void trim();

 private:
  static constexpr uint32_t pool_events = 64;
  struct Pool {
    PoolHandle handle;
    uint64_t taken;  // a bit per event
  };
  struct Kind {
    std::vector<EventSlot> free;
    std::vector<std::pair<EventSlot, Left>> rest;  // looked at again when nothing is free
    std::vector<Pool> pools;
    size_t made = 0;  // that there are, lent ones too
  };
  EventSlot fresh(bool timed);
  void settle(Kind& kind);
  void trim(Kind& kind);
  Driver& driver_;
  std::mutex lock_;
  Kind kinds_[2][2];  // timed, counter
};

}  // namespace hotslot::level_zero
