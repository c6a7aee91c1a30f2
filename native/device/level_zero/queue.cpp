// Implements a stream for Level Zero. Several threads must not use a list at once, so a thread
// holds the queue's lock during every call on its lists.
#include "device/level_zero/queue.hpp"

#include <algorithm>

namespace hotslot::level_zero {
namespace {

// The maximum number of passed points that one append removes. An append adds fewer, so passed
// points never accumulate.
constexpr size_t swept_per_append = 4;

}  // namespace

Ref<Queue> Queue::open(XpuDevice& device, int priority) {
  // The queue's work continues after the stream is closed. So the last reference does not delete
  // the queue, but moves it to the driver's list of departed queues. The queue is deleted after its
  // work is done and the driver's objects are freed.
  const auto depart = [](Queue* queue) {
    queue->device.driver.depart(std::unique_ptr<Queue>(queue));
  };
  Ref<Queue> queue(new Queue(device, priority), depart);
  queue->list(queue->last_);
  device.driver.arrive(queue);
  return queue;
}

Queue::Queue(XpuDevice& device, int priority)
    : device(device),
      priority_(priority),
      moves_(device.has_copies && priority < 0),
      last_(moves_ ? copies : compute) {}

Queue::~Queue() = default;

// Frees an object, and returns true after it is freed. If the driver still uses the object or fails
// to free it, returns false, and the caller tries again later.
template <class H>
bool Queue::destroy(const char* call, Status (*function)(H), H& handle) {
  if (!handle) return true;
  Status got = function(handle);
  if (!taken(got) && got != status::handle_object_in_use) got = function(handle);
  if (taken(got)) {
    handle = nullptr;
    return true;
  }
  if (got != status::handle_object_in_use && !std::exchange(reported_, true))
    release([&] { must_take(call, got); });
  return false;
}

bool Queue::destroyed() {
  std::lock_guard guard(lock_);
  sweep(flights_, SIZE_MAX);
  sweep(relays_, SIZE_MAX);
  bool gone = flights_.empty() && relays_.empty();
  for (auto& list : lists_)
    gone = gone && destroy("zeCommandListDestroy", ze().zeCommandListDestroy, list);
  return gone && destroy("zeCommandQueueDestroy", ze().zeCommandQueueDestroy, queue_);
}

bool Queue::failed() {
  std::lock_guard guard(lock_);
  return failed_ != status::success;
}

void Queue::tidy() {
  std::lock_guard guard(lock_);
  sweep(flights_, SIZE_MAX);
  sweep(relays_, SIZE_MAX);
  // Work need not wait for points that are done.
  for (Ref<Point>* last : {&tail_, &relay_tail_})
    if (*last && (*last)->state() == Point::done) last->reset();
}

void Queue::marks(Marks& marks) {
  std::lock_guard guard(lock_);
  for (auto& point : {tail_, relay_tail_})
    if (point && point->state() == Point::pending) marks.push_back(point);
}

// Returns the engine that runs the work. Streams above normal priority are for moving data, as the
// pipeline's copies do. If the device has engines that only copy, copies and fills of such a stream
// run on them, concurrently with kernels of other streams. Kernels of such a stream run on the
// compute engine.
//
// Each engine has its own list. Work on one engine's list waits for the last point of the other
// list.
Queue::Engine Queue::engine_of(const Work& work) const {
  if (!moves_) return compute;
  if (work.type == Work::copy) return copies;
  return work.type == Work::fill && work.pattern_bytes <= device.copies.max_fill_pattern ? copies
                                                                                         : compute;
}

ListHandle Queue::list(Engine engine) {
  if (!lists_[engine]) {
    // The relay (see replay()) waits for graphs, which run on the compute engine. So its list uses
    // the copy engine if the device has one.
    const bool aside = device.has_copies && engine != compute;
    lists_[engine] =
        device.immediate_list(aside ? device.copies : device.compute, priority_, device.in_order);
  }
  return lists_[engine];
}

void Queue::note(Status status) {
  if (failed_ == status::success && lost(status)) failed_ = status;
}

void Queue::check_locked() {
  if (failed_ != status::success)
    fail("zeEventQueryStatus", failed_, "earlier work on the stream failed");
}

void Queue::check() {
  std::lock_guard guard(lock_);
  sweep(flights_, swept_per_append);
  check_locked();
}

// Removes at most `most` points that have passed. A stream's work ends in order, so the first
// pending point ends the search.
void Queue::sweep(std::deque<Flight>& flights, size_t most) {
  for (; most > 0 && !flights.empty(); --most) {
    const Point& point = *flights.front().point;
    if (flights.front().point->look() == Point::pending) return;
    if (point.state() == Point::failed) note(point.why());
    flights.pop_front();
  }
}

// Returns the points for which the next append on this engine has to wait. These are points of
// other streams, and the stream's own last point if nothing else keeps the order. Points that are
// known to be done are left out.
std::vector<Ref<Point>> Queue::ahead(Engine engine) {
  sweep(flights_, swept_per_append);
  std::vector<Ref<Point>> waits;
  for (auto& [point, order_only] : pending_) {
    if (point->look() == Point::failed && !order_only) note(point->why());
    if (point->state() == Point::pending) waits.push_back(point);
  }
  check_locked();
  const bool ordered = device.in_order && engine == last_;
  if (!ordered && tail_ && tail_->state() == Point::pending) waits.push_back(tail_);
  return waits;
}

// Calls `call`, which appends to the list that it receives. The appended work waits for `waits` and
// for `inner`, an event of a graph. The work signals a new point, which becomes the last point of
// the stream or of the relay.
Ref<Point> Queue::append(Engine engine, bool timed, std::vector<Ref<Point>> waits,
                         EventHandle inner, const Call& call) {
  auto& flights = engine == relay ? relays_ : flights_;
  std::vector<EventHandle> events;
  for (auto& point : waits) events.push_back(point->event());
  if (inner) events.push_back(inner);
  Ref<Point> point = device.driver.points.point(device, timed, device.counters && !timed);
  flights.push_back({point, std::move(waits)});
  try {
    call(list(engine), point->event(), uint32_t(events.size()),
         events.empty() ? nullptr : events.data());
  } catch (const Error& error) {
    flights.pop_back();
    note(Status(error.status));
    throw;
  }
  point->arm();
  if (engine == relay) {
    relay_tail_ = point;
  } else {
    pending_.clear();
    last_ = engine;
    tail_ = point;
  }
  return point;
}

Ref<Point> Queue::barrier(Engine engine, bool timed, std::vector<Ref<Point>> waits,
                          EventHandle inner) {
  return append(engine, timed, std::move(waits), inner,
                [](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) {
                  HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, events);
                });
}

void Queue::issue(const Work& work, const char* call) {
  std::lock_guard guard(lock_);
  check_locked();
  // This thread holds the queue's lock. A revocation first stores `revoked`, then takes this lock
  // to create its marks. So either the revocation's marks come after this work, or this check finds
  // `revoked`.
  const auto check = [&](const Span& span) {
    if (span.memory && span.memory->revoked.load())
      refuse(family_name, call, {int(status::invalid_argument), "INVALID_ARGUMENT"}, lender_gone,
             keep_the_lender);
  };
  check(work.to);
  check(work.from);
  for (auto& span : work.launch.spans) check(span);
  const Engine engine = engine_of(work);
  append(engine, false, ahead(engine), nullptr,
         [&](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) {
           device.append(list, work, signal, count, events);
         });
}

// Appends a prefetch or advice, which can neither wait for events nor signal one. A barrier before
// the prefetch waits for earlier work. A barrier after the prefetch signals a point, so the memory
// is kept until then. A barrier without events waits for everything that was appended before it.
template <class F>
void Queue::eventless(F&& call) {
  std::lock_guard guard(lock_);
  check_locked();
  if (auto waits = ahead(compute); !waits.empty()) barrier(compute, false, std::move(waits));
  try {
    call(list(compute));
  } catch (const Error& error) {
    note(Status(error.status));
    throw;
  }
  try {
    barrier(compute, false, {});
  } catch (const Error&) {
    // A point must follow the appended work even if the first barrier fails. Otherwise memory that
    // the work touches could be freed too early.
    barrier(compute, false, {});
    throw;
  }
}

void Queue::prefetch(const Span& span) {
  eventless([&](ListHandle list) {
    HOTSLOT_ZE(zeCommandListAppendMemoryPrefetch, list, span.address(), span.bytes);
  });
}

void Queue::advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about) {
  eventless([&](ListHandle list) {
    HOTSLOT_ZE(zeCommandListAppendMemAdvise, list, about, at, bytes, advice);
  });
}

void Queue::wait(const Ref<Point>& point, bool order_only) {
  std::lock_guard guard(lock_);
  const auto passed = [](auto& each) {
    return each.point->state() == Point::done ||
           (each.order_only && each.point->state() == Point::failed);
  };
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), passed), pending_.end());
  for (auto& each : pending_)
    if (each.point == point) {
      each.order_only &= order_only;
      return;
    }
  pending_.push_back({point, order_only});
}

// Returns the point of the record. This is the point of the last append, unless a wait is pending
// or the time is requested. In these two cases a barrier signals a new point. The time is recorded
// by a barrier, because a plain signal records the time only in some lists.
Ref<Point> Queue::record(bool timed) {
  std::lock_guard guard(lock_);
  sweep(flights_, swept_per_append);
  check_locked();
  if (!timed && pending_.empty()) return tail_;
  return barrier(last_, timed, ahead(last_));
}

bool Queue::idle() {
  std::lock_guard guard(lock_);
  sweep(flights_, SIZE_MAX);
  bool done = flights_.empty();
  Status failure = status::success;
  if (!done) flights_.front().point->look(&failure);
  for (auto& [point, order_only] : pending_) {
    const bool failed = point->look(&failure) == Point::failed;
    if (failed && !order_only) note(point->why());
    done = done && (point->state() == Point::done || (failed && order_only));
  }
  check_locked();
  must("zeEventQueryStatus", failure);
  return done;
}

}  // namespace hotslot::level_zero
