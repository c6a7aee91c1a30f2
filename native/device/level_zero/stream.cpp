// Level Zero's streams and events.
#include "device/level_zero/stream.hpp"

#include <algorithm>
#include <cstring>

#include "device/level_zero/graph.hpp"

namespace hotslot::level_zero {
namespace {

bool finished(Point& point) {
  Status failure = status::success;
  switch (point.look(&failure)) {
    case Point::done:
      return true;
    case Point::failed:
      fail("zeEventQueryStatus", point.why(), "what the event stands behind failed");
    default:
      must("zeEventQueryStatus", failure);
      return false;
  }
}

}  // namespace

Ref<Point> XpuEvent::latest() {
  std::lock_guard guard(capture_mark.lock);
  return latest_;
}

bool XpuEvent::do_query() { return !latest_ || finished(*latest_); }

std::optional<double> XpuEvent::do_elapsed_ms(Event& start) {
  auto& from = static_cast<XpuEvent&>(start);
  if (!device_.timing || !from.device_.timing)
    fail("zeEventQueryKernelTimestamp", status::unsupported_feature,
         "the events of this device cannot measure time (traits.timingEvents is false)");
  const Ref<Point> begin = from.latest(), end = latest();
  if (!begin || !end || !finished(*begin) || !finished(*end)) return {};
  // The clock wraps around. A difference of more than seven eighths of its range counts as a small
  // step back.
  const uint32_t bits = std::min(device_.properties.kernel_timestamp_bits, 64u);
  const uint64_t range = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  const uint64_t cycles = (end->stamp() - begin->stamp()) & range;
  const double signed_cycles =
      cycles > range / 8 * 7 ? -double((begin->stamp() - end->stamp()) & range) : double(cycles);
  return signed_cycles * 1e3 / double(device_.properties.timer_resolution);
}

// ---- streams ------------------------------------------------------------------------------------

void XpuStream::do_prepare(Work& work, const char*) {
  const bool fill = work.type == Work::fill;
  if (fill && work.to.memory->host && !device_.kernels_reach(*work.to.memory)) {
    // Drivers copy to any host memory, but they fill only memory that kernels reach. So the fill
    // becomes a copy.
    work.type = Work::copy;
    work.from = Span{device_.staging(work.to.bytes), 0, work.to.bytes};
    for (size_t at = 0; at + work.pattern_bytes <= work.to.bytes; at += work.pattern_bytes)
      memcpy(work.from.address() + at, &work.pattern, work.pattern_bytes);
  }
  const Kernel* const kernel = work.type == Work::kernel ? work.launch.kernel : nullptr;
  for (const Span* span : {&work.to, &work.from})
    if (span->memory) device_.reach(*span->memory, kernel);
  for (auto& span : work.launch.spans) device_.reach(*span.memory, kernel);
  if (kernel) device_.prepare(*kernel);
}

void XpuStream::do_check(const char*) { queue_->check(); }

void XpuStream::do_work(Work&& work, const char* call) { queue_->issue(work, call); }

void XpuStream::do_record(Event& each) {
  auto& event = static_cast<XpuEvent&>(each);
  event.latest_ = queue_->record(event.timing && device_.timing);
}

void XpuStream::do_wait(Event& each, bool order_only) {
  const Ref<Point>& latest = static_cast<XpuEvent&>(each).latest_;
  if (latest && latest->state() != Point::done) queue_->wait(latest, order_only);
}

void XpuStream::do_replay(const Ref<Exec>& exec) {
  for (auto& [each, point] : static_cast<XpuExec&>(*exec).enqueue(queue_)) {
    auto& event = static_cast<XpuEvent&>(*each);
    std::lock_guard event_guard(event.capture_mark.lock);
    event.recorded_outside();
    event.latest_ = point;
  }
}

void XpuStream::do_prefetch(const Span& span, int device) {
  if (device == on_cpu)
    throw unavailable(
        "xpu:", device_.index,
        ": Level Zero has no prefetch to the CPU: pages go there when the CPU touches them; "
        "advise(tensor, { preferredLocation: -1 }) keeps them there");
  if (device != device_.index)
    throw unavailable("xpu:", device_.index,
                      ": Level Zero prefetches to the stream's own device alone: for xpu:", device,
                      " prefetch on a stream of that device");
  device_.reach(*span.memory, nullptr);
  if (span.bytes > 0) queue_->prefetch(span);
}

bool XpuStream::do_query() { return queue_->idle(); }

Ref<Graph> XpuStream::do_end_capture(const Ref<Capture>& capture,
                                     const std::vector<Ref<CaptureMembership>>&) {
  return std::make_shared<XpuGraph>(device_, capture);
}

Ref<Stream> XpuDevice::create_stream(int priority) {
  return std::make_shared<XpuStream>(*this, priority);
}
Ref<Event> XpuDevice::create_event(bool timing) {
  return std::make_shared<XpuEvent>(*this, timing);
}

}  // namespace hotslot::level_zero
