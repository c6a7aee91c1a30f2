// CUDA's and ROCm's devices: memory, what is loaded on them, and what must be passed before anything is freed.
#include <algorithm>
#include <cstring>

#include "device/cublas.hpp"
#include "device/cuda.hpp"

namespace hotslot::cuda {
namespace {

// Staging memory kept for the next read or write; more is given back to the driver.
constexpr size_t most_staging_bytes = 64u << 20;
// Memory that runs out waits this long for what was let go but is still in use.
constexpr uint64_t reclaim_ns = 2'000'000'000;

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

// ---- memory ----------------------------------------------------------------------------------------------------------

namespace {

class DeviceMemory final : public CudaMemory {
 public:
  DeviceMemory(CudaDevice& device, DevicePtr at, size_t bytes) : CudaMemory(device, reinterpret_cast<uint8_t*>(at), bytes, false, at) {}
  ~DeviceMemory() override {
    cuda().driver.retired.add([&device = cuda(), at = on_device] { device.give_back(device.driver.call.mem_free, at); });
  }
};

class RegisteredMemory final : public CudaMemory {
 public:
  RegisteredMemory(CudaDevice& device, uint8_t* address, size_t bytes, DevicePtr at)
      : CudaMemory(device, address, bytes, true, at, HostKind::registered) {}
  // Not before release(): what still runs keeps the pages pinned, and pinned they stay.
  ~RegisteredMemory() override = default;

  bool release() override {
    if (released_) return true;
    Driver& driver = cuda().driver;
    if (!Retired::may_sweep()) return false;
    if (!marked_) marks_ = driver.marks();
    marked_ = true;
    if (!passed(marks_)) return false;
    released_ = true;
    cuda().give_back(driver.call.mem_host_unregister, static_cast<void*>(address));
    return true;
  }

 private:
  bool marked_ = false, released_ = false;
  Marks marks_;
};

class PageableMemory final : public CudaMemory {
 public:
  PageableMemory(CudaDevice& device, uint8_t* address, size_t bytes) : CudaMemory(device, address, bytes, true, DevicePtr(address)) {}
  bool release() override {
    if (!marked_ && !Retired::may_sweep()) return false;
    if (!marked_) marks_ = cuda().driver.marks();
    marked_ = true;
    return passed(marks_);
  }

 private:
  bool marked_ = false;
  Marks marks_;
};

}  // namespace

// Pinned memory of the driver's, in powers of two, used again and again.
class Staging final : public CudaMemory {
 public:
  static Ref<Memory> of(CudaDevice& device, size_t bytes) {
    const size_t room = room_for(bytes);
    {
      std::lock_guard guard(device.staging_lock_);
      if (auto found = device.staging_.find(room); found != device.staging_.end()) {
        uint8_t* at = found->second;
        device.staging_.erase(found);
        device.staging_bytes_ -= room;
        return std::make_shared<Staging>(device, at, bytes);
      }
    }
    void* at = nullptr;
    const Status got = device.driver.call.mem_host_alloc(&at, room, host_alloc_portable);
    if (got != status::success) device.driver.refuse(device.driver.call.mem_host_alloc.name, got);
    return std::make_shared<Staging>(device, static_cast<uint8_t*>(at), bytes);
  }
  Staging(CudaDevice& device, uint8_t* at, size_t bytes) : CudaMemory(device, at, bytes, true, DevicePtr(at), HostKind::registered) {}
  ~Staging() override {
    cuda().driver.retired.add([&device = cuda(), at = address, room = room_for(bytes)] {
      {
        std::lock_guard guard(device.staging_lock_);
        if (device.staging_bytes_ + room <= most_staging_bytes) {
          device.staging_.emplace(room, at);
          device.staging_bytes_ += room;
          return;
        }
      }
      device.give_back(device.driver.call.mem_free_host, static_cast<void*>(at));
    });
  }

 private:
  static size_t room_for(size_t bytes) {
    size_t room = 4096;
    if (bytes > most_staging_bytes) return (bytes + room - 1) / room * room;  // never kept
    while (room < bytes) room *= 2;
    return room;
  }
};

// ---- the device ------------------------------------------------------------------------------------------------------

CudaDevice::CudaDevice(Driver& driver, int index) : GpuDevice(driver.family, index, driver.retired), driver(driver) {
  driver.check(driver.call.device_get, &id, index);
  // Waiting threads sleep. Not possible once somebody else uses the context; then its ways are theirs.
  unsigned flags = 0;
  int active = 0;
  if (driver.call.primary_context_get_state(id, &flags, &active) == status::success && !active)
    driver.call.primary_context_set_flags(id, sched_blocking_sync);
  // Retained for the life of the process: the last release would reset what others share.
  driver.check(driver.call.primary_context_retain, &context, id);
  int processors = 1;
  if (driver.call.device_get_attribute(&processors, attribute_multiprocessor_count, id) == status::success && processors > 0)
    most_blocks_ = unsigned(processors) * 8;
  description_ = describe(driver, id);
  own_ = create_stream(0);
}

DeviceTraits CudaDevice::traits() {
  DeviceTraits traits;
  traits.description = description_;
  traits.submitter = driver.submitter;
  traits.graph_events = bool(driver.call.event_record_with_flags);
  std::lock_guard guard(load_lock_);
  traits.matrix_products = products_.c_str();
  return traits;
}

MemoryInfo CudaDevice::memory_info() {
  driver.sweep();
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  size_t free = 0, total = 0;
  driver.check(driver.call.mem_get_info, &free, &total);
  return {total, free};
}

Ref<Memory> CudaDevice::allocate(size_t bytes) {
  forbid_in_capture(family, "memAlloc");
  driver.sweep();
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  DevicePtr at = 0;
  Status got = driver.call.mem_alloc(&at, std::max<size_t>(bytes, 1));
  if (got == status::out_of_memory) {
    driver.retired.drain(reclaim_ns);
    got = driver.call.mem_alloc(&at, std::max<size_t>(bytes, 1));
  }
  if (got == status::out_of_memory) {
    size_t free = 0, total = 0;
    driver.call.mem_get_info(&free, &total);
    throw Error("ERR_HOTSLOT_MEMORY", std::string(family) + ": " + std::to_string(bytes) + " bytes were asked for, " + std::to_string(free) +
                                          " are free: use fewer or smaller slots");
  }
  if (got != status::success) driver.refuse(driver.call.mem_alloc.name, got);
  auto memory = std::make_shared<DeviceMemory>(*this, at, bytes);
  // Zeroed before anybody can use it, on whatever stream.
  std::lock_guard guard(own_lock_);
  const StreamHandle own = static_cast<CudaStream&>(*own_).handle();
  driver.check(driver.call.memset_d8_async, at, static_cast<unsigned char>(0), std::max<size_t>(bytes, 1), own);
  driver.check(driver.call.stream_synchronize, own);
  return memory;
}

Ref<Memory> CudaDevice::scratch(size_t bytes) {
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  DevicePtr at = 0;
  driver.check(driver.call.mem_alloc, &at, bytes);
  return std::make_shared<DeviceMemory>(*this, at, bytes);
}

Ref<Memory> CudaDevice::allocate_host(size_t bytes) {
  forbid_in_capture(family, "memAllocHost");
  driver.sweep();
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  return Staging::of(*this, bytes);
}

Ref<Memory> CudaDevice::register_host(void* address, size_t bytes, bool pin) {
  forbid_in_capture(family, "memHostRegister");
  auto* at = static_cast<uint8_t*>(address);
  if (!pin || bytes == 0) return std::make_shared<PageableMemory>(*this, at, bytes);
  driver.sweep();
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  driver.check(driver.call.mem_host_register, address, bytes, unsigned(host_register_portable | host_register_devicemap));
  DevicePtr on_device = 0;
  if (const Status got = driver.call.mem_host_get_device_pointer(&on_device, address, 0u); got != status::success) {
    driver.call.mem_host_unregister(address);
    driver.refuse(driver.call.mem_host_get_device_pointer.name, got);
  }
  return std::make_shared<RegisteredMemory>(*this, at, bytes, on_device);
}

void CudaDevice::reach(CudaDevice& peer) {
  std::lock_guard guard(load_lock_);
  if (peers_.count(peer.id)) return;
  int can = 0;
  driver.check(driver.call.device_can_access_peer, &can, id, peer.id);
  peers_.insert(peer.id);
  if (!can) return;  // copies go through the host
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  const Status got = driver.call.context_enable_peer_access(peer.context, 0u);
  if (got == status::success || got == status::peer_access_already_enabled) return;
  peers_.erase(peer.id);
  driver.refuse(driver.call.context_enable_peer_access.name, got);
}

// ---- what is loaded --------------------------------------------------------------------------------------------------

// Under load_lock_: the first image the driver takes, and every function of it.
void CudaDevice::load() {
  if (loaded_) return;
  loaded_ = true;
  const Enter enter(driver, context);
  const Relaxed relaxed(driver);
  Module module = nullptr;
  for (auto& image : driver.images) {
    const Status got = driver.call.module_load_data(&module, image.data);
    if (got == status::success) break;
    module = nullptr;
    try {
      driver.refuse(driver.call.module_load_data.name, got);
    } catch (const Error& error) {
      not_loaded_ = error.what() + std::string("; ") + error.advice;
    }
  }
  if (!module) {
    if (not_loaded_.empty())
      not_loaded_ = std::string("this build carries no kernels for ") + driver.family + "; build them where the compiler is: npm run build:kernels";
    return;
  }
  not_loaded_.clear();
  for (auto& kernel : all_kernels()) {
    Function function = nullptr;
    if (driver.call.module_get_function(&function, module, kernel.name) != status::success) continue;
    // Loaded now: a capture must not be the first to need it.
    if (driver.call.func_load) driver.call.func_load(function);
    functions_[kernel.name] = function;
  }
}

Function CudaDevice::function(const Kernel& kernel) {
  std::lock_guard guard(load_lock_);
  load();
  if (!not_loaded_.empty()) throw Error("ERR_HOTSLOT_UNAVAILABLE", std::string(family) + ": kernel '" + kernel.name + "' cannot run: " + not_loaded_);
  const auto found = functions_.find(kernel.name);
  if (found == functions_.end()) throw Error("ERR_HOTSLOT_UNAVAILABLE", std::string(family) + ": the loaded kernels have no '" + kernel.name + "'");
  return found->second;
}

Blas* CudaDevice::blas() {
  std::lock_guard guard(load_lock_);
  if (!blas_tried_) {
    blas_tried_ = true;
    std::string why;
    blas_ = Blas::open(*this, why);
    products_ = blas_ ? blas_->provider() : "Hotslot's own kernel" + (why.empty() ? "" : " (" + why + ")");
  }
  return blas_.get();
}

void CudaDevice::prepare() {
  blas();
  std::lock_guard guard(load_lock_);
  load();
}

// ---- the family ------------------------------------------------------------------------------------------------------

std::string describe(const Driver& driver, DeviceId id) {
  char name[256] = "";
  driver.call.device_get_name(name, sizeof name - 1, id);
  return std::string(name) + ", " + driver.version_text;
}

Family::Found found_devices(Driver& driver) {
  Family::Found found;
  int count = 0;
  const Status got = driver.call.device_get_count(&count);
  if (got != status::success || count == 0) {
    found.reason = driver.library.name + " opened, but it reports no device" + (got == status::success ? "" : " (status " + std::to_string(got) + ")");
    return found;
  }
  for (int i = 0; i < count; ++i) {
    DeviceId id = 0;
    if (const Status refused = driver.call.device_get(&id, i); refused != status::success) {
      found.reason = driver.library.name + " opened, but does not give its device " + std::to_string(i) + " (status " + std::to_string(refused) + ")";
      break;
    }
    found.devices.push_back(describe(driver, id));
    found.software |= found.devices.back().rfind("Hotslot software driver", 0) == 0;
  }
  return found;
}

Ref<Device> open_device(Driver& driver, int index) {
  auto device = std::make_shared<CudaDevice>(driver, index);
  std::lock_guard guard(driver.lock);
  driver.devices.push_back(device);
  return device;
}

}  // namespace hotslot::cuda
