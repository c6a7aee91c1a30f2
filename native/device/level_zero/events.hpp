// Level Zero's events. Every append signals its own event (a point), for which later work, records,
// memory to be freed and the host wait.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "device/gpu/retired.hpp"
#include "device/level_zero/calls.hpp"

namespace hotslot::level_zero {

struct Driver;
class XpuDevice;

// A driver's event, lent by Points. Counter-based events may be signaled again at any time. Pooled
// events are one-shot, and are lent again only when no work can wait for them, because a wait on
// the device holds the point until it has passed.
struct EventSlot {
  EventHandle event = nullptr;
  bool timed = false, counter = false;
  PoolHandle pool = nullptr;
  uint32_t index = 0;
};

// One signal of an event, in a list. As a mark it has passed when it is done, or when its stream
// failed.
class Point final : public Mark {
 public:
  enum State : uint8_t { unarmed, pending, done, failed };
  Point(Driver& driver, EventSlot slot) : driver_(driver), slot_(slot) {}
  ~Point() override;
  EventHandle event() const { return slot_.event; }
  // Notes that the driver accepted the append that signals it.
  void arm() { state_.store(pending); }
  State state() const { return state_.load(); }
  // Queries the driver while the point is pending. `failure` receives the status of a query that
  // failed.
  State look(Status* failure = nullptr);
  bool passed() override { return look() != pending; }
  Status why() const { return why_.load(); }
  // Returns the device's clock at the signal.
  uint64_t stamp() const;
  // The event inside a graph after which this point was signaled. It has the time.
  std::shared_ptr<class Gate> inner;

 private:
  Driver& driver_;
  EventSlot slot_;
  std::atomic<State> state_{unarmed};
  std::atomic<Status> why_{status::success};
};

// An event built into a command list. Each run signals it, and it is reset before the next. It is
// freed with its list.
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

// All events of a driver, which are reused.
class Points {
 public:
  explicit Points(Driver& driver) : driver_(driver) {}
  // `counter`: for in-order immediate lists, if the device has counter-based events.
  Ref<Point> point(XpuDevice& device, bool timed, bool counter);
  EventSlot slot(XpuDevice* device, bool timed, bool counter);
  // State of a returned event. clean: never signaled. unsure: the signal may still come.
  enum Left { clean, signalled, unsure };
  // Never throws.
  void give(EventSlot slot, Left left);
  // Frees the events and pools that are not in use.
  void trim();

 private:
  static constexpr uint32_t pool_events = 64;
  struct Pool {
    PoolHandle handle;
    uint64_t taken;  // a bit per event
  };
  struct Kind {
    std::vector<EventSlot> free;
    std::vector<std::pair<EventSlot, Left>> rest;  // tried again when no event is free
    std::vector<Pool> pools;
    size_t made = 0;  // number of events, including lent ones
  };
  EventSlot fresh(bool timed);
  void settle(Kind& kind);
  void trim(Kind& kind);
  Driver& driver_;
  std::mutex lock_;
  Kind kinds_[2][2];  // timed, counter
};

}  // namespace hotslot::level_zero
