// CUDA's and ROCm's captures. They begin and end in the driver as well.
#include <new>

#include "device/cuda/graph.hpp"

namespace hotslot::cuda {
namespace {

// Joins a member stream back to the origin, for a driver that otherwise does not end the capture.
// Our own rules still throw the error for unjoined streams.
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

// Returns whether the stream can capture again. Call it if the driver failed to end a capture of
// the stream and then reported that no capture is open.
bool captures_again(RawStream& raw) {
  const Driver& driver = raw.device.driver;
  GraphHandle graph = nullptr;
  if (driver.call.stream_begin_capture(raw.handle, capture_thread_local) != status::success)
    return false;
  const bool ended = driver.call.stream_end_capture(raw.handle, &graph) == status::success;
  if (graph) raw.device.give_back(driver.call.graph_destroy, graph);
  return ended;
}

// Ends the driver's capture. If the driver found the capture broken, the capture has also ended,
// without a graph. After any other error the capture may still be open, so the function ends it a
// second time.
//
// If a thread that did not begin the capture ends it, an H100 returns 908 although the capture has
// ended. To the second call it returns 401.
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
  // Created before the capture begins, because creating it may throw, and a capture that has begun
  // must end.
  decltype(capture.abandoned) abandoned = [raw = raw_](const Capture::Members& members) {
    Driver& driver = raw->device.driver;
    GraphHandle graph = nullptr;
    if (!driver.ends_broken_captures)
      for (auto& [member, frontier] : members) join(*raw, *member);
    end_in_driver(*raw, graph);
    // Only the thread that began a capture can end it. If another thread runs this function, the
    // driver may fail to end the capture. Destroying the stream then ends it. That must happen now,
    // because the streams that joined are in no capture after this function.
    if (raw->capture_stuck) raw->destroy();
    if (graph) raw->device.give_back(driver.call.graph_destroy, graph);
    driver.open_captures.fetch_sub(1);
  };
  // Incremented before the capture begins, so that no thread queries events from now on.
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
  // Joins the unjoined streams, unless the capture is broken and the driver ends broken captures.
  // The driver may free unjoined streams of an intact capture by itself, but no document promises
  // that.
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

// Releases the event that was recorded before a capture which has ended. A stream may exist for
// long and would keep the event.
void CudaStream::do_capture_over() {
  std::shared_ptr<Mark> mark;  // freed after the lock is released
  std::lock_guard guard(membership()->lock);
  if (!membership()->open() && !raw_->capture_stuck) mark.swap(raw_->before_capture);
}

}  // namespace hotslot::cuda
