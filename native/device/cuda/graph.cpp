// CUDA's and ROCm's graphs.
#include "device/cuda/graph.hpp"

#include <new>
#include <optional>
#include <system_error>
#include <thread>

namespace hotslot::cuda {

void refuse_revoked(const Memory& memory, const char* call) {
  if (memory.revoked.load())
    refuse(memory.family, call, refusal::launch_failed, lender_gone, keep_the_lender);
}

Ref<Exec> CudaGraph::instantiate() {
  std::lock_guard guard(raw.lock);
  return std::make_shared<CudaExec>(raw.device, std::make_shared<RawExec>(raw), capture);
}

CudaExec::~CudaExec() {
  // Replays may still run, so the memory that they touch is freed after them.
  device_.driver.retired.add(std::move(place_),
                             [raw = std::move(raw_), capture = std::move(capture_)] {});
}

bool CudaExec::do_update(const Ref<Graph>& graph) {
  auto& next = static_cast<CudaGraph&>(*graph);
  const Driver& driver = device_.driver;
  const Enter enter(driver, device_.context);
  const RelaxedCaptureMode relaxed(driver);
  Retired::Reservation place;
  Ref<RawExec> old;
  Ref<Capture> before;
  ExecUpdateResult result{};
  Status got;
  {
    std::lock_guard guard(lock_);
    std::lock_guard graph_guard(next.raw.lock);
    got = driver.call.graph_exec_update(raw_->handle, next.raw.handle, &result);
    if (got != status::success && got != status::graph_exec_update_failure &&
        got != status::not_supported)
      driver.refuse(driver.call.graph_exec_update.name, got);
    old = raw_;
    if (got != status::success) raw_ = std::make_shared<RawExec>(next.raw);
    before = std::exchange(capture_, next.capture);
    lent_ = capture_->lent();
    upload();
  }
  // The exec's lock is released before retired.add(). add() enqueues marks, and so locks the
  // membership of every stream. A replay locks its stream's membership before the exec's lock, so
  // the opposite order here could deadlock.
  device_.driver.retired.add(std::move(place),
                             [old = std::move(old), before = std::move(before)] {});
  return got == status::success;
}

Ref<RawStream> CudaDevice::upload_stream() {
  std::lock_guard guard(own_lock_);
  return uploads_ ? static_cast<CudaStream&>(*uploads_).raw() : nullptr;
}

void CudaExec::upload() {
  const Driver& driver = device_.driver;
  const Ref<RawStream> stream = device_.upload_stream();
  if (!stream || driver.open_captures.load() > 0) return;
  try {
    const Enter enter(driver, device_.context);
    const RelaxedCaptureMode relaxed(driver);
    wait_for_last(stream);
    driver.check(driver.call.graph_upload, raw_->handle, stream->handle);
    driver.check(driver.call.event_record, last_->handle, stream->handle);
    last_on_ = stream;
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {}
}

void CudaExec::launch(const Ref<RawStream>& stream) {
  const Driver& driver = device_.driver;
  std::lock_guard guard(lock_);
  for (const Memory* memory : lent_) refuse_revoked(*memory, "graphLaunch");
  wait_for_last(stream);
  driver.check(driver.call.graph_launch, raw_->handle, stream->handle);
  // An error of the record is dropped. The stream's next call throws it.
  driver.call.event_record(last_->handle, stream->handle);
  last_on_ = stream;
  // From now on, the latest record of each event that the graph records is the one in this replay.
  for (auto& node : capture_->nodes) {
    if (node.type != Work::record) continue;
    auto& event = static_cast<CudaEvent&>(*node.event);
    std::lock_guard event_guard(event.capture_mark.lock);
    event.recorded_outside();
    event.note(stream, device_.tells_graph_events_early() ? last_ : nullptr);
  }
}

namespace {

// Records an event. Then runs a graph that is busy for `busy_us` and records the event again.
// Returns whether a query during the busy time reports the event as done, which is too early.
// Returns nullopt if the graph may have ended before the query.
std::optional<bool> seen_early(CudaDevice& device, int64_t busy_us) {
  const Driver& driver = device.driver;
  const auto& call = driver.call;
  const Enter enter(driver, device.context);
  const RelaxedCaptureMode relaxed(driver);
  const Function spin = device.function(*find_kernel("spin"));
  const auto stream = std::make_shared<RawStream>(device, 0);
  const RawEvent event(device, false);
  driver.check(call.event_record, event.handle, stream->handle);
  driver.check(call.stream_synchronize, stream->handle);
  GraphHandle handle = nullptr;
  driver.check(call.stream_begin_capture, stream->handle, capture_relaxed);
  void* parameters[] = {&busy_us};
  const Status launched = call.launch_kernel(spin, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream->handle,
                                             static_cast<void**>(parameters), nullptr);
  const Status recorded =
      call.event_record_with_flags(event.handle, stream->handle, unsigned(event_record_external));
  driver.check(call.stream_end_capture, stream->handle, &handle);
  const RawGraph graph(device, handle);
  for (const Status got : {launched, recorded})
    if (got != status::success) driver.refuse(call.event_record_with_flags.name, got);
  const RawExec exec(graph);
  const uint64_t begin = now_ns();
  driver.check(call.graph_launch, exec.handle, stream->handle);
  // An error of the query counts as reported too early.
  const bool done = call.event_query(event.handle) != status::not_ready;
  // If the system did not schedule this thread, the query may have come after the busy time. So a
  // query that reports the event as done counts only in the first half of the busy time.
  const bool in_time = now_ns() - begin < uint64_t(busy_us) * 500;
  driver.check(call.stream_synchronize, stream->handle);
  if (done && !in_time) return {};
  return done;
}

}  // namespace

void CudaDevice::learn_graph_events() {
  std::call_once(learnt_, [this] {
    early_events_.store(true);
    try {
      // Measures in another thread. This thread may have a capture open, in which the measurement's
      // calls would fail.
      std::thread elsewhere([this] {
        driver.open_captures.fetch_add(1);
        try {
          std::optional<bool> early;
          for (int64_t busy_us = 1000; !early && busy_us <= 64'000; busy_us *= 4)
            early = seen_early(*this, busy_us);
          early_events_.store(early.value_or(true));
        } catch (const std::exception&) {
          // The value stays true. This is always correct, because queries and waits then use the
          // event after the replay.
        }
        driver.open_captures.fetch_sub(1);
      });
      elsewhere.join();
    } catch (const std::system_error&) {
      // The system could not start a thread, so the value stays true.
    }
  });
}

void CudaExec::wait_for_last(const Ref<RawStream>& stream) {
  const Driver& driver = device_.driver;
  if (const auto on = last_on_.lock(); on && on != stream && pending())
    driver.check(driver.call.stream_wait_event, stream->handle, last_->handle, 0u);
}

bool CudaExec::pending() const {
  const Driver& driver = device_.driver;
  if (!driver.may_poll()) return true;
  const RelaxedCaptureMode relaxed(driver);
  return driver.call.event_query(last_->handle) == status::not_ready;
}

}  // namespace hotslot::cuda
