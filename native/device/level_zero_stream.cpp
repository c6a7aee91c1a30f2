// Level Zero's streams and events. Lists are not made for several threads: a queue's lock is held over every call on its own.
#include <algorithm>
#include <cstring>

#include "device/level_zero.hpp"

namespace hotslot::level_zero {
namespace {

constexpr const char* lender_gone = "it touches host memory that a thread lent which has ended";

// How many passed points an append looks for: more than it adds, so that they never pile up.
constexpr size_t swept_per_append = 4;

}  // namespace

// ---- the driver's side of a stream -----------------------------------------------------------------------------------

Ref<Queue> Queue::open(XpuDevice& device, int priority) {
  // What it was given goes on without the stream; the driver's objects go when that is over.
  const auto depart = [](Queue* queue) { queue->device.driver.depart(std::unique_ptr<Queue>(queue)); };
  Ref<Queue> queue(new Queue(device, priority), depart);
  queue->list(queue->last_);
  device.driver.arrive(queue);
  return queue;
}

Queue::Queue(XpuDevice& device, int priority)
    : device(device), priority_(priority), moves_(device.has_copies && priority < 0), last_(moves_ ? copies : compute) {}

Queue::~Queue() = default;

// True: gone. What the driver still uses, or would not take, stays until the next look.
template <class H>
bool Queue::destroy(const char* call, Status (*function)(H), H& handle) {
  if (!handle) return true;
  Status got = function(handle);
  if (!taken(got) && got != status::handle_object_in_use) got = function(handle);
  if (taken(got)) {
    handle = nullptr;
    return true;
  }
  if (got != status::handle_object_in_use && !std::exchange(told_, true)) not_taken(call, got);
  return false;
}

bool Queue::destroyed() {
  std::lock_guard guard(lock_);
  sweep(flights_, SIZE_MAX);
  sweep(relays_, SIZE_MAX);
  bool gone = flights_.empty() && relays_.empty();
  for (auto& list : lists_) gone = gone && destroy("zeCommandListDestroy", ze().zeCommandListDestroy, list);
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
  // What is done needs no waiting for.
  for (Ref<Point>* last : {&tail_, &relay_tail_})
    if (*last && (*last)->state() == Point::done) last->reset();
}

void Queue::marks(Marks& marks) {
  std::lock_guard guard(lock_);
  for (auto& point : {tail_, relay_tail_})
    if (point && point->state() == Point::pending) marks.push_back(point);
}

// A stream above normal priority is one that moves data (the pipeline's copies are): where the device has engines that only
// copy, its copies and fills run there, beside the kernels of other streams. Each engine's list is made by its first use and
// waits for the other's last point, so a kernel on such a stream is no mistake, only another list.
Queue::Engine Queue::engine_of(const Work& work) const {
  if (!moves_) return compute;
  if (work.type == Work::copy) return copies;
  return work.type == Work::fill && work.pattern_bytes <= device.copies.most_fill_pattern ? copies : compute;
}

ListHandle Queue::list(Engine engine) {
  if (!lists_[engine]) {
    // The relay waits for graphs that run on the engine that computes: beside it, if there is anything beside.
    const bool aside = device.has_copies && engine != compute;
    lists_[engine] = device.immediate_list(aside ? device.copies : device.compute, priority_, device.in_order);
  }
  return lists_[engine];
}

void Queue::note(Status status) {
  if (failed_ == status::success && lost(status)) failed_ = status;
}

void Queue::check_locked() {
  if (failed_ != status::success) fail("zeEventQueryStatus", failed_, "earlier work on the stream failed");
}

void Queue::check() {
  std::lock_guard guard(lock_);
  sweep(flights_, swept_per_append);
  check_locked();
}

// Streams are done in order, so the first that is not done ends the search.
void Queue::sweep(std::deque<Flight>& flights, size_t most) {
  for (; most > 0 && !flights.empty(); --most) {
    const Point& point = *flights.front().point;
    if (flights.front().point->look() == Point::pending) return;
    if (point.state() == Point::failed) note(point.why());
    flights.pop_front();
  }
}

// What the next append on this engine has to wait for: other streams' points, and the stream's own last one where nothing
// else keeps the order. What is known to be over needs no waiting.
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

// `call` appends to the list it is given, which waits for `waits` and for `inner`, an event of a graph's; what it signals
// becomes the stream's last point, or the relay's.
template <class F>
Ref<Point> Queue::append(Engine engine, bool timed, std::vector<Ref<Point>> waits, EventHandle inner, F&& call) {
  auto& flights = engine == relay ? relays_ : flights_;
  std::vector<EventHandle> events;
  for (auto& point : waits) events.push_back(point->event());
  if (inner) events.push_back(inner);
  Ref<Point> point = device.driver.points.point(device, timed, device.counters && !timed);
  flights.push_back({point, std::move(waits)});
  try {
    call(list(engine), point->event(), uint32_t(events.size()), events.empty() ? nullptr : events.data());
  } catch (const Error& error) {
    flights.pop_back();
    note(Status(error.status));
    throw;
  }
  point->arm();
  if (engine == relay) return relay_tail_ = point;
  pending_.clear();
  last_ = engine;
  return tail_ = point;
}

Ref<Point> Queue::barrier(Engine engine, bool timed, std::vector<Ref<Point>> waits, EventHandle inner) {
  return append(engine, timed, std::move(waits), inner, [](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) {
    HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, events);
  });
}

void Queue::issue(const Work& work, const char* call) {
  std::lock_guard guard(lock_);
  check_locked();
  // Under the lock: a revocation puts its marks under it too, and either finds this work or is found here.
  const auto check = [&](const Span& span) {
    if (span.memory && span.memory->revoked.load())
      refuse(family_name, call, int(status::invalid_argument), "INVALID_ARGUMENT", lender_gone, "close what uses the memory before its thread ends");
  };
  check(work.to), check(work.from);
  for (auto& span : work.launch.spans) check(span);
  const Engine engine = engine_of(work);
  append(engine, false, ahead(engine), nullptr,
         [&](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) { device.append(list, work, signal, count, events); });
}

// Prefetches and advice take no events: what they come after is waited for by a barrier before them, and a point behind them
// keeps their memory. Without events a barrier waits for all that was appended before it.
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
    // Something has to stand behind what is under way, whatever this call's fate.
    barrier(compute, false, {});
    throw;
  }
}

void Queue::prefetch(const Span& span) {
  eventless([&](ListHandle list) { HOTSLOT_ZE(zeCommandListAppendMemoryPrefetch, list, span.address(), span.bytes); });
}

void Queue::advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about) {
  eventless([&](ListHandle list) { HOTSLOT_ZE(zeCommandListAppendMemAdvise, list, about, at, bytes, advice); });
}

void Queue::wait(const Ref<Point>& point, bool order_only) {
  std::lock_guard guard(lock_);
  const auto passed = [](auto& each) { return each.point->state() == Point::done || (each.order_only && each.point->state() == Point::failed); };
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), passed), pending_.end());
  for (auto& each : pending_)
    if (each.point == point) return void(each.order_only &= order_only);
  pending_.push_back({point, order_only});
}

// The last append's own point is the record, unless something is still to be waited for or the time is wanted. Barriers keep
// the time in every list; plain signals do not everywhere.
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
  Status odd = status::success;
  if (!done) flights_.front().point->look(&odd);
  for (auto& [point, order_only] : pending_) {
    const bool failed = point->look(&odd) == Point::failed;
    if (failed && !order_only) note(point->why());
    done = done && (point->state() == Point::done || (failed && order_only));
  }
  check_locked();
  must("zeEventQueryStatus", odd);
  return done;
}

// Runs a graph on the engine that computes. Its events are reset behind everything before it, the relays of its last run
// included. A list that cannot be appended runs on a queue of its own: it waits for `go`, which the stream signals when it has
// come here, and the stream waits for `end`. What the graph records inside is relayed to fresh points by a list beside the
// stream, so that outsiders are free before the graph is over and no later run can take their record away.
void Queue::run(Instance& instance, const std::vector<Memory*>& lent, const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
                std::vector<Ref<Point>>& relays) {
  std::lock_guard guard(lock_);
  // Under the lock, as in issue().
  for (const Memory* memory : lent)
    if (memory->revoked.load())
      refuse(family_name, "zeCommandListAppendGraphExt", int(status::invalid_argument), "INVALID_ARGUMENT",
             "the graph touches host memory that a thread lent which has ended", "close what uses the memory before its thread ends");
  sweep(relays_, SIZE_MAX);
  // Another stream's failure is its own.
  for (auto& point : earlier)
    if (point->look() == Point::pending) pending_.push_back({point, false});
  const bool beside = instance.go != nullptr;
  Ref<Point> renewed;
  if (beside || !instance.records.empty()) renewed = renew(instance);
  if (beside) {
    run_beside(instance, over);
  } else {
    over = append(compute, false, ahead(compute), nullptr, [&](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) {
      Driver& driver = device.driver;
      if (instance.executable) HOTSLOT_ZE_NEWER(driver, zeCommandListAppendGraphExt, list, instance.executable, nullptr, signal, count, events);
      else if (instance.list) HOTSLOT_ZE_NEWER(driver, zeCommandListImmediateAppendCommandListsExp, list, 1, &instance.list, signal, count, events);
      else HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, events);
    });
  }
  for (auto& gate : instance.records) {
    // Not before the event was reset, else the last run's signal would do; then one behind the other, like the records.
    std::vector<Ref<Point>> waits{relays.empty() ? renewed : relays.back()};
    relays.push_back(barrier(relay, false, std::move(waits), gate->event()));
    relays.back()->inner = gate;
  }
  // Whoever waits for the stream waits for the events of the graph too.
  if (!relays.empty()) pending_.push_back({relays.back(), false});
}

// The graph's events are unsignalled again behind the point.
Ref<Point> Queue::renew(Instance& instance) {
  barrier(compute, false, ahead(compute));
  for (auto& gate : instance.records) HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), gate->event());
  if (instance.end) HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), instance.end->event());
  // Without events a barrier waits for all that was appended before it.
  return barrier(compute, false, {});
}

void Queue::run_beside(Instance& instance, Ref<Point>& over) {
  if (!queue_) {
    QueueDesc desc{Type::command_queue_desc, nullptr, device.compute.ordinal, 0, 0, QueueMode::asynchronous, Priority::normal};
    HOTSLOT_ZE(zeCommandQueueCreate, device.driver.context(), device.handle, &desc, &queue_);
  }
  HOTSLOT_ZE(zeCommandListAppendBarrier, list(compute), instance.go->event(), 0, nullptr);
  const Status got = ze().zeCommandQueueExecuteCommandLists(queue_, 1, &instance.list, nullptr);
  // `end` comes after all there is; without events a barrier waits for all there is in the list.
  const auto last = [&] { return barrier(compute, false, {}, got == status::success ? instance.end->event() : nullptr); };
  try {
    over = last();
  } catch (const Error&) {
    // Something has to stand behind what is under way, whatever this call's fate.
    instance.broken = true;
    over = last();
    throw;
  }
  if (got == status::success) return;
  // `go` was signalled for nothing: with it the list would run too early another time.
  instance.broken = true;
  note(got);
  fail("zeCommandQueueExecuteCommandLists", got);
}

// ---- events ----------------------------------------------------------------------------------------------------------

Ref<Point> XpuEvent::latest(const char* call, bool* recorded) {
  forbid_in_capture(family_name, call);
  std::lock_guard guard(mark_.lock);
  forbid_captured(family_name, call, mark_);
  if (recorded) *recorded = recorded_;
  return latest_;
}

namespace {

bool finished(Point& point) {
  Status odd = status::success;
  switch (point.look(&odd)) {
    case Point::done:
      return true;
    case Point::failed:
      fail("zeEventQueryStatus", point.why(), "what the event stands behind failed");
    default:
      must("zeEventQueryStatus", odd);
      return false;
  }
}

}  // namespace

bool XpuEvent::query() {
  const Ref<Point> point = latest("zeEventQueryStatus", nullptr);
  return !point || finished(*point);
}

double XpuEvent::elapsed_ms(Event& start) {
  const char* call = "zeEventQueryKernelTimestamp";
  require_family(family_name, start, "an event");
  auto& from = static_cast<XpuEvent&>(start);
  if (!timing || !from.timing) throw Error("ERR_HOTSLOT_ARGUMENT", "elapsedMs needs two events created with timing: true");
  if (!device.timing || !from.device.timing)
    fail(call, status::unsupported_feature, "the events of this device cannot measure time (traits.timingEvents is false)");
  const Ref<Point> begin = from.latest(call, nullptr), end = latest(call, nullptr);
  if (!begin || !end || !finished(*begin) || !finished(*end))
    refuse(family_name, call, 600, "NOT_READY", "both events must be recorded and done", "wait for the later event first");
  // The clock runs over: what would be more than seven eighths of its range is a small step back.
  const uint32_t bits = std::min(device.properties.kernel_timestamp_bits, 64u);
  const uint64_t range = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  const uint64_t cycles = (end->stamp() - begin->stamp()) & range;
  const double signed_cycles = cycles > range / 8 * 7 ? -double((begin->stamp() - end->stamp()) & range) : double(cycles);
  return signed_cycles * 1e3 / double(device.properties.timer_resolution);
}

// ---- streams ---------------------------------------------------------------------------------------------------------

void XpuStream::enqueue(Work&& work, const char* call) {
  const auto check = [&](const Span& span) {
    if (!span.memory) return;
    require_family(family_name, *span.memory, "memory");
    device_.reach(*span.memory, work.type == Work::kernel ? work.launch.kernel : nullptr);
  };
  check(work.to), check(work.from);
  for (auto& span : work.launch.spans) check(span);
  queue_->check();
  // What cannot run is refused before it can break a capture.
  if (work.type == Work::kernel) device_.prepare(*work.launch.kernel);
  std::lock_guard guard(lane_->lock);
  if (!lane_->open()) queue_->issue(work, call);
  else lane_->add(std::move(work), call);
}

void XpuStream::record(const Ref<Event>& ref, bool external) {
  const char* call = "zeCommandListAppendBarrier";
  require_family(family_name, *ref, "an event");
  queue_->check();
  auto& event = static_cast<XpuEvent&>(*ref);
  std::lock_guard guard(lane_->lock);
  if (external) {
    if (lane_->add(Work::record_of(ref), call)) return;
    refuse(family_name, call, 1, "INVALID_VALUE", "an external record belongs in a capture, and none is open on this stream", "record it plainly");
  }
  std::lock_guard event_guard(event.mark_.lock);
  if (lane_->open()) {
    lane_->record(event.mark_, call);
    return;
  }
  // First the driver: should it refuse, the event is what it was.
  Ref<Point> point = queue_->record(event.timing && device_.timing);
  lane_->record(event.mark_, call);
  event.latest_ = std::move(point);
  event.recorded_ = true;
}

void XpuStream::wait(const Ref<Event>& ref, bool order_only) {
  require_family(family_name, *ref, "an event");
  queue_->check();
  auto& event = static_cast<XpuEvent&>(*ref);
  if (&event.device.driver != &device_.driver)
    throw Error("ERR_HOTSLOT_ARGUMENT", "an event of xpu:" + std::to_string(event.device.index) + " cannot be waited for on xpu:" +
                                            std::to_string(device_.index) + ": the two belong to different drivers");
  std::lock_guard guard(lane_->lock);
  std::lock_guard event_guard(event.mark_.lock);
  if (lane_->wait(event.mark_, event.recorded_, "zeCommandListAppendWaitOnEvents")) return;
  if (event.latest_ && event.latest_->state() != Point::done) queue_->wait(event.latest_, order_only);
}

void XpuStream::copy(const Span& to, const Span& from) {
  enqueue(Work::copy_of(to, from), "zeCommandListAppendMemoryCopy");
}

void XpuStream::fill(const Span& to, const void* pattern, size_t pattern_bytes) {
  const char* call = "zeCommandListAppendMemoryFill";
  if (!to.memory->host || device_.kernels_reach(*to.memory)) return enqueue(Work::fill_of(to, pattern, pattern_bytes), call);
  // Drivers copy to any host memory, but fill only what kernels reach.
  const Span from{device_.staging(to.bytes), 0, to.bytes};
  for (size_t at = 0; at + pattern_bytes <= to.bytes; at += pattern_bytes) memcpy(from.address() + at, pattern, pattern_bytes);
  enqueue(Work::copy_of(to, from), call);
}

void XpuStream::launch(Launch&& launch) {
  enqueue(Work::of(std::move(launch)), "zeCommandListAppendLaunchKernel");
}

void XpuStream::replay(const Ref<Exec>& exec) {
  require_family(family_name, *exec, "a graph");
  queue_->check();
  std::lock_guard guard(lane_->lock);
  lane_->forbid("zeCommandListAppendGraphExt", "a graph cannot be replayed into a capture", "capture its work directly");
  for (auto& [ref, point] : static_cast<XpuExec&>(*exec).run(queue_)) {
    auto& event = static_cast<XpuEvent&>(*ref);
    std::lock_guard event_guard(event.mark_.lock);
    event.mark_.captured = false;
    event.latest_ = point;
    event.recorded_ = true;
  }
}

void XpuStream::prefetch(const Span& span, int device) {
  const char* call = "zeCommandListAppendMemoryPrefetch";
  require_family(family_name, *span.memory, "memory");
  queue_->check();
  std::lock_guard guard(lane_->lock);
  lane_->forbid(call, "a prefetch is no part of a graph", "prefetch before the capture, or before a replay: the address stays the same");
  const std::string own = "xpu:" + std::to_string(device_.index);
  if (device == on_cpu)
    throw Error("ERR_HOTSLOT_UNAVAILABLE", own + ": Level Zero has no prefetch to the CPU: pages go there when the CPU touches them; "
                                                 "advise(tensor, { preferredLocation: -1 }) keeps them there");
  if (device != device_.index)
    throw Error("ERR_HOTSLOT_UNAVAILABLE", own + ": Level Zero prefetches to the stream's own device alone: for xpu:" + std::to_string(device) +
                                               " prefetch on a stream of that device");
  device_.reach(*span.memory, nullptr);
  if (span.bytes > 0) queue_->prefetch(span);
}

bool XpuStream::query() {
  forbid_in_capture(family_name, "streamQuery");
  std::lock_guard guard(lane_->lock);
  lane_->forbid("streamQuery", "the stream is capturing", "end the capture first");
  return queue_->idle();
}

void XpuStream::begin_capture() {
  queue_->check();
  std::lock_guard guard(lane_->lock);
  lane_->begin();
}

Ref<Graph> XpuStream::end_capture() {
  return std::make_shared<XpuGraph>(device_, lane_->end([](auto&) {}));
}

bool XpuStream::capturing() {
  std::lock_guard guard(lane_->lock);
  return lane_->open() != nullptr;
}

}  // namespace hotslot::level_zero
