// CUDA's and ROCm's captures: they begin and end in the driver too.
#include <new>

#include "device/cuda/graph.hpp"

namespace hotslot::cuda {
namespace {

// For a driver that would not end a capture with streams left in it; we refuse the graph all the
// same.
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

// Whether the stream captures again: the end of a capture was refused, and then there was none to
// end.
bool captures_again(RawStream& raw) {
  const Driver& driver = raw.device.driver;
  GraphHandle graph = nullptr;
  if (driver.call.stream_begin_capture(raw.handle, capture_thread_local) != status::success)
    return false;
  const bool ended = driver.call.stream_end_capture(raw.handle, &graph) == status::success;
  if (graph) raw.device.give_back(driver.call.graph_destroy, graph);
  return ended;
}

// A capture that the driver found broken is over too, without a graph. After any other refusal it
// may still be open: it is ended once more. An H100 refuses the end by another thread (908), ends
// the capture all the same, and answers 401 to the second end.
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
  // Had before it begins: what is left of it has to end, whatever comes.
  decltype(capture.abandoned) abandoned = [raw = raw_](const Capture::Members& members) {
    Driver& driver = raw->device.driver;
    GraphHandle graph = nullptr;
    if (!driver.ends_broken_captures)
      for (auto& [member, frontier] : members) join(*raw, *member);
    end_in_driver(*raw, graph);
    // Another thread than the one that began it cannot end it at all: the stream goes with its
    // capture, and at once, for the streams that joined are free behind this.
    if (raw->capture_stuck) raw->destroy();
    if (graph) raw->device.give_back(driver.call.graph_destroy, graph);
    driver.open_captures.fetch_sub(1);
  };
  // Counted before it begins: no thread asks for events any more.
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
  // Also where the driver would free the streams that were left out: no document promises it.
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

// A stream that lives long does not keep an event for a capture that is over.
void CudaStream::do_capture_over() {
  std::shared_ptr<Mark> mark;  // goes without the lock
  std::lock_guard guard(membership()->lock);
  if (!membership()->open() && !raw_->capture_stuck) mark.swap(raw_->before_capture);
}

}  // namespace hotslot::cuda
