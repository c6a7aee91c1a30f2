// The driver's streams and events, and the marks that show that no work touches memory any more.
#include "device/cuda/raw.hpp"

#include <algorithm>
#include <stdexcept>

#include "device/cuda/device.hpp"

namespace hotslot::cuda {
namespace {

// Returns whether a query's status means that no work is left. Only success and the loss of the
// context mean this. Other errors say nothing about the work.
bool nothing_left(Status status) {
  return status == status::success || loses_context(status) || status == status::deinitialized ||
         status == status::invalid_context;
}

template <class... P, class Handle>
bool asked(const CudaDevice& device, const Call<Status(P...)>& query, Handle handle,
           std::atomic<Status>* final_status = nullptr) {
  const Driver& driver = device.driver;
  if (!driver.may_poll()) return false;
  try {
    const Enter enter(driver, device.context);
    const RelaxedCaptureMode relaxed(driver);
    const Status got = query(handle);
    if (final_status && nothing_left(got)) final_status->store(got);
    return nothing_left(got);
  } catch (const Error& error) {
    return nothing_left(error.status);
  }
}

// A mark that is an event. If the event's stream was destroyed, the stream was idle, so the mark
// has passed. The event is not queried in this case, because HIP would access the destroyed stream.
class EventMark final : public Mark {
 public:
  EventMark(std::unique_ptr<RawEvent> event, RawStream& raw)
      : event_(std::move(event)), on_(raw.weak_from_this()), final_status_(raw.final_status) {}
  bool passed() override {
    const auto on = on_.lock();
    if (!on) {
      final_status_->load();  // makes the writes of the stream's work visible
      return true;
    }
    return asked(event_->device, event_->device.driver.call.event_query, event_->handle);
  }

 private:
  const std::unique_ptr<RawEvent> event_;
  const std::weak_ptr<RawStream> on_;
  const Ref<std::atomic<Status>> final_status_;
};

// A mark without an event. It has passed when a query finds the stream idle, which may be long
// after the marked work.
class StreamMark final : public Mark {
 public:
  explicit StreamMark(const RawStream& raw) : device_(raw.device), handle_(raw.handle) {}
  bool passed() override { return asked(device_, device_.driver.call.stream_query, handle_); }

 private:
  const CudaDevice& device_;
  const StreamHandle handle_;
};

}  // namespace

std::shared_ptr<Mark> mark(RawStream& raw) {
  const Driver& driver = raw.device.driver;
  if (asked(raw.device, driver.call.stream_query, raw.handle, raw.final_status.get()))
    return nullptr;
  try {
    const Enter enter(driver, raw.device.context);
    auto event = std::make_unique<RawEvent>(raw.device, false);
    driver.check(driver.call.event_record, event->handle, raw.handle);
    return std::make_shared<EventMark>(std::move(event), raw);
  } catch (const Error& error) {
    if (nothing_left(error.status)) {
      raw.final_status->store(error.status);
      return nullptr;
    }
    raw.irreplaceable = true;
    return std::make_shared<StreamMark>(raw);
  }
}

// Returns copies of the references. If a copy is the last reference to a stream, the caller
// releases it without holding these locks.
std::vector<CudaDevice::Live> CudaDevice::live(Driver& driver) {
  std::vector<Live> all;
  std::lock_guard guard(driver.lock);
  for (auto& device : driver.devices) {
    std::lock_guard streams(device->streams_lock_);
    all.insert(all.end(), device->streams_.begin(), device->streams_.end());
  }
  return all;
}

bool Driver::idle() {
  for (auto& [raw, weak] : CudaDevice::live(*this)) {
    const Ref<CaptureMembership> membership = weak.lock();
    std::unique_lock<decltype(membership->lock)> guard;
    if (membership) guard = std::unique_lock(membership->lock);
    // The driver cannot query a stream that captures. So this queries the stream's mark from before
    // the capture instead.
    const bool captures = raw->capture_stuck || (membership && membership->open());
    if (captures ? raw->before_capture && !raw->before_capture->passed()
                 : !asked(raw->device, call.stream_query, raw->handle))
      return false;
  }
  return true;
}

Marks Driver::marks() {
  Marks marks;
  const std::vector<CudaDevice::Live> all = CudaDevice::live(*this);
  for (auto& [raw, weak] : all) {
    std::shared_ptr<Mark> behind;
    const Ref<CaptureMembership> membership = weak.lock();
    if (membership) {
      std::lock_guard guard(membership->lock);
      behind = membership->open() || raw->capture_stuck ? raw->before_capture : mark(*raw);
    } else {
      behind = raw->capture_stuck ? raw->before_capture : mark(*raw);
      if (!behind || (raw->capture_stuck && behind->passed())) {
        auto& device = raw->device;
        std::lock_guard guard(device.streams_lock_);
        auto& streams = device.streams_;
        streams.erase(std::remove_if(streams.begin(), streams.end(),
                                     [&](auto& each) { return each.raw == raw; }),
                      streams.end());
      }
    }
    if (behind) marks.push_back(std::move(behind));
  }
  return marks;
}

RawStream::RawStream(CudaDevice& device, int priority) : device(device) {
  Driver& driver = device.driver;
  const Enter enter(driver, device.context);
  const RelaxedCaptureMode relaxed(driver);
  int least = 0, greatest = 0;
  driver.check(driver.call.stream_priority_range, &least, &greatest);
  driver.check(driver.call.stream_create, &handle, unsigned(stream_non_blocking),
               std::max(greatest, std::min(priority, least)));
}

RawStream::~RawStream() { destroy(); }

void RawStream::destroy() {
  if (destroyed_.exchange(true)) return;
  // If it is irreplaceable, a mark queries this stream, so the stream must not be destroyed.
  if (irreplaceable)
    release([this] {
      throw std::runtime_error(
          std::string(device.family) +
          ": a stream is kept for good, because the driver gave no event to mark its end");
    });
  else
    device.give_back(device.driver.call.stream_destroy, handle);
}

RawEvent::RawEvent(CudaDevice& device, bool timing) : device(device) {
  const Enter enter(device.driver, device.context);
  device.driver.check(device.driver.call.event_create, &handle,
                      unsigned(timing ? event_default : event_disable_timing));
}

RawEvent::~RawEvent() { device.give_back(device.driver.call.event_destroy, handle); }

}  // namespace hotslot::cuda
