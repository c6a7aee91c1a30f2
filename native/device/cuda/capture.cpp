// CUDA's and ROCm's captures. The core (core/capture.hpp) checks the rules of a capture. This file
// also begins and ends the capture in the driver, which records the work.
#include <new>

#include "device/cuda/graph.hpp"

namespace hotslot::cuda {
namespace {

// Makes the origin stream wait for a member stream of the capture. Without this wait, some drivers
// do not end a capture that has unjoined streams. The core still throws its error for unjoined
// streams.
void join(RawStream& origin, const CaptureMembership& member) {
  release([&] {
    auto& other = static_cast<RawStream&>(*std::static_pointer_cast<RawStream>(member.hold()));
    const Driver& driver = origin.device.driver;
    if (&other == &origin) return;
    const Enter enter(driver, origin.device.context);
    RawEvent event(other.device, false);
    driver.check(driver.call.event_record, event.handle, other.handle);
    driver.check(driver.call.stream_wait_event, origin.handle, event.handle, 0u);
  });
}

// Begins and ends an empty capture on the stream, and returns whether that worked. Call it if the
// driver first failed to end a capture of the stream, and then reported that no capture is open. If
// the function returns true, the first call did end the capture.
bool captures_again(RawStream& raw) {
  const Driver& driver = raw.device.driver;
  GraphHandle graph = nullptr;
  if (driver.call.stream_begin_capture(raw.handle, capture_thread_local) != status::success)
    return false;
  const bool ended = driver.call.stream_end_capture(raw.handle, &graph) == status::success;
  if (graph) raw.device.give_back(driver.call.graph_destroy, graph);
  return ended;
}

// Ends the driver's capture, and returns the status of the first attempt. If the status is success,
// `graph` is the captured graph. If the driver found the capture broken, the capture has ended
// without a graph.
//
// After any other error the capture may still be open, so the function tries a second time to end
// it. If the capture may be open even then, the function sets `capture_stuck`.
//
// For example, an H100 returns 908 if a thread that did not begin the capture ends it. The capture
// has ended nevertheless. The second call then returns 401, because no capture is open.
Status end_in_driver(RawStream& raw, GraphHandle& graph) {
  const Driver& driver = raw.device.driver;
  const auto over = [&](Status got) {
    return got == status::success ||
           (driver.ends_broken_captures && got >= status::capture_unsupported &&
            got < status::capture_wrong_thread);
  };
  try {
    const Enter enter(driver, raw.device.context);
    const Status got = driver.call.stream_end_capture(raw.handle, &graph);
    if (over(got)) return got;
    GraphHandle late = nullptr;
    const Status again = driver.call.stream_end_capture(raw.handle, &late);
    if (late) raw.device.give_back(driver.call.graph_destroy, late);
    const bool none = driver.ends_broken_captures && again == status::illegal_state;
    if (!over(again) && !(none && captures_again(raw))) raw.capture_stuck = true;
    return got;
  } catch (const Error& error) {
    raw.capture_stuck = true;
    return error.status;
  } catch (const std::bad_alloc&) {
    raw.capture_stuck = true;
    return status::out_of_memory;
  }
}

}  // namespace

void CudaStream::do_prepare_capture() {
  device_.prepare();
  if (driver_.call.event_record_with_flags) device_.learn_graph_events();
}

void CudaStream::do_begin_capture(Capture& capture) {
  const Enter enter(driver_, device_.context);
  raw_->before_capture = mark(*raw_);
  // The function is created before the capture begins, because creating it may throw. If it threw
  // later, the capture would stay open.
  decltype(capture.abandoned) abandoned = [raw = raw_](const Capture::Members& members) {
    Driver& driver = raw->device.driver;
    GraphHandle graph = nullptr;
    if (!driver.ends_broken_captures)
      for (auto& [member, frontier] : members) join(*raw, *member);
    end_in_driver(*raw, graph);
    // Only the thread that began a capture can end it. If another thread runs this function, the
    // driver may fail to end the capture. Destroying the stream then ends the capture. This must be
    // done now, because programs may use the other streams of the capture after this function.
    if (raw->capture_stuck) raw->destroy();
    if (graph) raw->device.give_back(driver.call.graph_destroy, graph);
    driver.open_captures.fetch_sub(1);
  };
  // Incremented before the capture begins. On a driver that forbids queries during a capture, no
  // thread queries events or streams from now on (see may_poll).
  driver_.open_captures.fetch_add(1);
  try {
    driver_.check(driver_.call.stream_begin_capture, raw_->handle, capture_thread_local);
  } catch (const Error&) {
    driver_.open_captures.fetch_sub(1);
    throw;
  }
  capture.abandoned = std::move(abandoned);
}

Ref<Graph> CudaStream::do_end_capture(const Ref<Capture>& capture,
                                      const std::vector<Ref<CaptureMembership>>& unjoined) {
  GraphHandle handle = nullptr;
  // Joins the streams that the program left unjoined, so that the driver's capture ends on all of
  // them. This is not needed if the capture is broken and the driver ends broken captures. For an
  // intact capture, the driver may do the same by itself, but no document promises that.
  if (!driver_.ends_broken_captures || !capture->invalid)
    for (auto& member : unjoined) join(*raw_, *member);
  const Status got = end_in_driver(*raw_, handle);
  driver_.open_captures.fetch_sub(1);
  Ref<Graph> graph;
  try {
    graph = std::make_shared<CudaGraph>(device_, handle, capture);
  } catch (const std::bad_alloc&) {
    if (handle) device_.give_back(driver_.call.graph_destroy, handle);
    throw;
  }
  if (got != status::success) driver_.refuse(driver_.call.stream_end_capture.name, got);
  return graph;
}

// After a capture has ended, drops the mark from before the capture. Otherwise the mark's event
// would exist as long as the stream.
void CudaStream::do_capture_over() {
  std::shared_ptr<Mark> mark;  // freed after the lock is released
  std::lock_guard guard(membership()->lock);
  if (!membership()->open() && !raw_->capture_stuck) mark.swap(raw_->before_capture);
}

}  // namespace hotslot::cuda
