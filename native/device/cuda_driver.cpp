// What the driver says and when it is through: its refusals in words, streams and events of its own, and the marks that tell what may
// still be touched.
#include <algorithm>

#include "device/cuda.hpp"

namespace hotslot::cuda {
namespace {

struct Known {
  Status status;
  const char* name;
};
// One name per number on both families; other numbers carry the driver's own.
constexpr Known known[] = {
    {1, "INVALID_VALUE"}, {2, "OUT_OF_MEMORY"}, {3, "NOT_INITIALIZED"}, {4, "DEINITIALIZED"}, {100, "NO_DEVICE"}, {101, "INVALID_DEVICE"},
    {200, "INVALID_IMAGE"}, {201, "INVALID_CONTEXT"}, {209, "NO_BINARY_FOR_GPU"}, {222, "UNSUPPORTED_PTX_VERSION"}, {400, "INVALID_HANDLE"},
    {500, "NOT_FOUND"}, {600, "NOT_READY"}, {700, "ILLEGAL_ADDRESS"}, {702, "LAUNCH_TIMEOUT"}, {712, "HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "HOST_MEMORY_NOT_REGISTERED"}, {719, "LAUNCH_FAILED"}, {800, "NOT_PERMITTED"}, {801, "NOT_SUPPORTED"},
    {900, "STREAM_CAPTURE_UNSUPPORTED"}, {901, "STREAM_CAPTURE_INVALIDATED"}, {902, "STREAM_CAPTURE_MERGE"}, {903, "STREAM_CAPTURE_UNMATCHED"},
    {904, "STREAM_CAPTURE_UNJOINED"}, {905, "STREAM_CAPTURE_ISOLATION"}, {906, "STREAM_CAPTURE_IMPLICIT"}, {907, "CAPTURED_EVENT"},
    {908, "STREAM_CAPTURE_WRONG_THREAD"}, {910, "GRAPH_EXEC_UPDATE_FAILURE"}, {999, "UNKNOWN"}};

const char* advice_for(const Driver& driver, Status status) {
  if (loses_context(status)) return driver.context_lost;
  switch (status) {
    case status::out_of_memory:
      return "free what is not needed, or use smaller tensors and fewer slots";
    case status::unsupported_ptx_version:
      return "install a newer driver";
    case status::no_binary_for_gpu:
      return "build the kernels for this GPU where its compiler is: npm run build:kernels";
    case status::already_registered:
      return "register a range once, and close that registration before the next";
    case status::deinitialized:
      return "the process is ending: close devices before it does";
    default:
      return "look up the status in the driver's documentation; if Hotslot asked for something impossible, report it";
  }
}

// What the answer to a query says about work: only success, and the loss of everything, mean that none is left. Any other error
// is no answer.
bool nothing_left(Status status) {
  return status == status::success || loses_context(status) || status == status::deinitialized || status == status::invalid_context;
}

template <class... P, class Handle>
bool asked(const CudaDevice& device, const Call<Status(P...)>& query, Handle handle, std::atomic<Status>* fate = nullptr) {
  const Driver& driver = device.driver;
  if (!driver.may_poll()) return false;
  try {
    const Enter enter(driver, device.context);
    const Relaxed relaxed(driver);
    const Status got = query(handle);
    if (fate && nothing_left(got)) fate->store(got);
    return nothing_left(got);
  } catch (const Error& error) {
    return nothing_left(error.status);
  }
}

// A stream that is gone was idle; its events are not asked any more, because HIP would look at the stream.
class EventMark final : public Mark {
 public:
  EventMark(std::unique_ptr<RawEvent> event, RawStream& raw) : event_(std::move(event)), on_(raw.weak_from_this()), fate_(raw.fate) {}
  bool passed() override {
    const auto on = on_.lock();
    if (!on) return fate_->load(), true;
    return asked(event_->device, event_->device.driver.call.event_query, event_->handle);
  }

 private:
  const std::unique_ptr<RawEvent> event_;
  const std::weak_ptr<RawStream> on_;
  const Ref<std::atomic<Status>> fate_;
};

// Where no event could be had: passed when the stream is seen idle, however much later that is.
class StreamMark final : public Mark {
 public:
  explicit StreamMark(const RawStream& raw) : device_(raw.device), handle_(raw.handle) {}
  bool passed() override { return asked(device_, device_.driver.call.stream_query, handle_); }

 private:
  const CudaDevice& device_;
  const StreamHandle handle_;
};

}  // namespace

void Driver::refuse(const char* call_name, Status status, const std::string& detail) const {
  const char* name = nullptr;
  for (auto& each : known)
    if (each.status == status) name = each.name;
  if (!name) {
    constexpr char prefix[] = "CUDA_ERROR_";
    if (call.get_error_name(status, &name) != status::success || !name) name = "UNKNOWN";
    if (std::strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  }
  const char* text = nullptr;
  if (call.get_error_string(status, &text) != status::success || !text) text = "no description";
  throw Error(family, call_name, status, name,
              std::string(family) + ": " + call_name + " failed with " + name + " (" + std::to_string(status) + "): " + (detail.empty() ? text : detail),
              advice_for(*this, status));
}

// ---- marks -----------------------------------------------------------------------------------------------------------

std::shared_ptr<Mark> mark(RawStream& raw) {
  const Driver& driver = raw.device.driver;
  if (asked(raw.device, driver.call.stream_query, raw.handle, raw.fate.get())) return nullptr;
  try {
    const Enter enter(driver, raw.device.context);
    auto event = std::make_unique<RawEvent>(raw.device, false);
    driver.check(driver.call.event_record, event->handle, raw.handle);
    return std::make_shared<EventMark>(std::move(event), raw);
  } catch (const Error& error) {
    if (nothing_left(error.status)) return raw.fate->store(error.status), nullptr;
    raw.irreplaceable = true;
    return std::make_shared<StreamMark>(raw);
  }
}

Marks Driver::marks() {
  Marks marks;
  std::vector<CudaDevice::Live> all;  // last references go without a lock
  {
    std::lock_guard guard(lock);
    for (auto& device : devices) {
      std::lock_guard streams(device->streams_lock_);
      all.insert(all.end(), device->streams_.begin(), device->streams_.end());
    }
  }
  for (auto& [raw, weak] : all) {
    std::shared_ptr<Mark> behind;
    const Ref<Lane> lane = weak.lock();
    if (lane) {
      std::lock_guard guard(lane->lock);
      behind = lane->open() || raw->captive ? raw->before_capture : mark(*raw);
    } else {
      behind = raw->captive ? raw->before_capture : mark(*raw);
      if (!behind || (raw->captive && behind->passed())) {
        auto& device = raw->device;
        std::lock_guard guard(device.streams_lock_);
        auto& streams = device.streams_;
        streams.erase(std::remove_if(streams.begin(), streams.end(), [&](auto& each) { return each.raw == raw; }), streams.end());
      }
    }
    if (behind) marks.push_back(std::move(behind));
  }
  return marks;
}

bool Driver::has_closed_streams() {
  std::lock_guard guard(lock);
  for (auto& device : devices) {
    std::lock_guard streams(device->streams_lock_);
    for (auto& each : device->streams_)
      if (each.lane.expired()) return true;
  }
  return false;
}

RawStream::RawStream(CudaDevice& device, int priority) : device(device) {
  Driver& driver = device.driver;
  const Enter enter(driver, device.context);
  const Relaxed relaxed(driver);
  int least = 0, greatest = 0;
  driver.check(driver.call.stream_priority_range, &least, &greatest);
  driver.check(driver.call.stream_create, &handle, unsigned(stream_non_blocking), std::max(greatest, std::min(priority, least)));
}

RawStream::~RawStream() { destroy(); }

void RawStream::destroy() {
  if (destroyed_.exchange(true)) return;
  // A mark asks this very stream: it cannot go.
  if (irreplaceable)
    ReleaseFailures::instance().add(std::string(device.family) + ": a stream is kept for good, because the driver gave no event to mark its end");
  else device.give_back(device.driver.call.stream_destroy, handle);
}

RawEvent::RawEvent(CudaDevice& device, bool timing) : device(device) {
  const Enter enter(device.driver, device.context);
  device.driver.check(device.driver.call.event_create, &handle, unsigned(timing ? event_default : event_disable_timing));
}

RawEvent::~RawEvent() {
  device.give_back(device.driver.call.event_destroy, handle);
}

}  // namespace hotslot::cuda
