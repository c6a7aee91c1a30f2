// Level Zero's events. Every append to a list signals an event of its own, called a point. Later
// work, records, the host, and memory that waits to be freed all wait for points.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "device/gpu/retired.hpp"
#include "device/level_zero/calls.hpp"

namespace hotslot::level_zero {

struct Driver;
class XpuDevice;

// A driver's event, which Points lends.
//
// A counter-based event may be signaled again at any time. A pooled event can be signaled only once
// before it is reset, so Points lends it again only when no work can wait for it. A wait on the
// device keeps its point alive until the wait is over.
struct EventSlot {
  EventHandle event = nullptr;
  bool timed = false, counter = false;
  PoolHandle pool = nullptr;
  uint32_t index = 0;
};

// One signal of an event by an append. As a mark it has passed if the signal was seen or the stream
// failed.
class Point final : public Mark {
 public:
  enum State : uint8_t { unarmed, pending, done, failed };
  Point(Driver& driver, EventSlot slot) : driver_(driver), slot_(slot) {}
  ~Point() override;
  EventHandle event() const { return slot_.event; }
  // Notes that the driver has accepted the append that signals this point.
  void arm() { state_.store(pending); }
  State state() const { return state_.load(); }
  // Returns the state, and queries the driver if the point is pending. If the query fails,
  // `failure` becomes its status.
  State look(Status* failure = nullptr);
  bool passed() override { return look() != pending; }
  Status why() const { return why_.load(); }
  // Returns the device's time of the signal, in cycles.
  uint64_t stamp() const;
  // If this point is a record in a graph: the graph's event, after which the point was signaled and
  // which has recorded the time. Otherwise null.
  std::shared_ptr<class Gate> inner;

 private:
  Driver& driver_;
  EventSlot slot_;
  std::atomic<State> state_{unarmed};
  std::atomic<Status> why_{status::success};
};

// An event that a closed command list waits for or signals at each run. It is reset before the next
// run, and freed with the list. It has nothing to do with the pipeline's gate.
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

// All events of a driver. An event that is returned to Points is lent again.
class Points {
 public:
  explicit Points(Driver& driver) : driver_(driver) {}
  // `counter` requests a counter-based event, for in-order immediate lists if the device has these
  // events.
  Ref<Point> point(XpuDevice& device, bool timed, bool counter);
  EventSlot slot(XpuDevice* device, bool timed, bool counter);
  // The state of a returned event.
  // - clean: the event was never signaled
  // - signalled: the event was signaled, and must be reset
  // - unsure: enqueued work may still signal the event
  enum Left { clean, signalled, unsure };
  // Takes an event back. It never throws.
  void give(EventSlot slot, Left left);
  // Frees the events that are not lent, and the pools without events.
  void trim();

 private:
  static constexpr uint32_t pool_events = 64;
  struct Pool {
    PoolHandle handle;
    uint64_t taken;  // a bit per event
  };
  struct Kind {
    std::vector<EventSlot> free;
    std::vector<std::pair<EventSlot, Left>> rest;  // returned, but not reset yet; see settle()
    std::vector<Pool> pools;
    size_t made = 0;  // number of events, including lent ones
  };
  EventSlot fresh(bool timed);
  void settle(Kind& kind);
  void trim(Kind& kind);
  Driver& driver_;
  std::mutex lock_;
  Kind kinds_[2][2];  // indices: timed, counter
};

}  // namespace hotslot::level_zero
