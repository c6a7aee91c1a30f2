// CUDA's parts, and ROCm's, which is the same machinery over another table of calls (hip.cpp). Capture rules are ours
// (capture.hpp) and come before the driver's; memory that is let go is freed once no stream can touch it (retired.hpp).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "device/blocks.hpp"
#include "device/capture.hpp"
#include "device/cuda_abi.hpp"
#include "device/family.hpp"
#include "device/gpu.hpp"
#include "device/library.hpp"
#include "device/release.hpp"
#include "kernels/images.hpp"

namespace hotslot::cuda {

class CudaDevice;
class Blas;

// Nothing on the device survives these.
constexpr bool loses_context(Status status) {
  switch (status) {
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 226:  // contained error
    case status::illegal_address:
    case status::launch_timeout:
    case 709:  // somebody reset the primary context
    case 710:  // assertion in a kernel
      return true;
    default:
      return status >= 714 && status <= 719;
  }
}

// An opened driver with its devices: NVIDIA's, or AMD's through the same table. One per process, never closed.
struct Driver {
  const char* family;
  const char* submitter;
  const char* context_lost;  // advice for an error that nothing on this device survives
  Table call;
  Library library;
  int version = 0;
  // What to load kernels from: the first that the driver takes.
  std::vector<KernelImage> images;
  // False: asking for events fails while any thread captures, so nobody asks then.
  bool polls_in_capture = true;
  // False: a capture that the driver refuses to end is still open.
  bool ends_broken_captures = true;
  std::string version_text;

  std::atomic<int> open_captures{0};
  std::vector<Ref<CudaDevice>> devices;  // opened ones, for good; guarded by `lock`
  std::mutex lock;
  Retired retired{[this] { return marks(); }};

  [[noreturn]] void refuse(const char* call_name, Status status, const std::string& detail = "") const;
  template <class... P, class... A>
  void check(const Call<Status(P...)>& entry, A... arguments) const {
    if (const Status status = entry(arguments...); status != status::success) refuse(entry.name, status);
  }
  bool may_poll() const { return polls_in_capture || open_captures.load() == 0; }
  // A mark behind everything that streams of this family have been given so far. Lets go of closed streams that are idle.
  Marks marks();
  // Gives back what was let go and is idle now, closed streams too.
  void sweep() {
    if (Retired::may_sweep() && has_closed_streams()) marks();
    retired.sweep();
  }
  bool has_closed_streams();

  // Managed memory: `where` is a device's index, or on_cpu. Each in whichever form this driver has it.
  void prefetch(DevicePtr at, size_t bytes, int where, StreamHandle stream) const;
  void advise(DevicePtr at, size_t bytes, MemoryAdvice advice, int where) const;
  DeviceId id_of(int where) const;
};

// Makes the device's context current for a scope. Another library's context is put back; a thread without one keeps ours.
class Enter {
 public:
  Enter(const Driver& driver, Context context) : driver_(driver) {
    if (driver.call.context_get_current(&before_) == status::success && before_ == context) return;
    driver.check(driver.call.context_set_current, context);
    changed_ = before_ != nullptr;
  }
  ~Enter() {
    if (changed_) driver_.call.context_set_current(before_);
  }
  Enter(const Enter&) = delete;

 private:
  const Driver& driver_;
  Context before_ = nullptr;
  bool changed_ = false;
};

// While another library captures in CUDA's global mode, a thread in any other than relaxed mode may neither ask nor allocate,
// and would break that capture by trying. Our own rules come first, so relaxing is safe; the thread's mode is put back.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) : driver_(driver), changed_(driver.call.exchange_capture_mode(&mode_) == status::success) {}
  ~Relaxed() {
    if (changed_) driver_.call.exchange_capture_mode(&mode_);
  }
  Relaxed(const Relaxed&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_ = capture_relaxed;
  const bool changed_;
};

// The driver's stream. It outlives our stream object until it is idle, or a capture that holds it is over.
class RawStream : public std::enable_shared_from_this<RawStream> {
 public:
  RawStream(CudaDevice& device, int priority);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  // Before its end, when its capture can only go with it; nothing reaches the driver through it any more.
  void destroy();
  CudaDevice& device;
  StreamHandle handle = nullptr;
  // Behind what it had been given when its capture began; guarded by its lane's lock.
  std::shared_ptr<Mark> before_capture;
  // A mark asks the stream itself; guarded likewise.
  bool irreplaceable = false;
  // How its work ended, as last seen. It outlives the stream, for who finds it gone; and orders what its work wrote before that.
  const Ref<std::atomic<Status>> fate = std::make_shared<std::atomic<Status>>(status::success);
  // The driver would not end its capture: what is enqueued would vanish in there.
  std::atomic<bool> captive{false};

 private:
  std::atomic<bool> destroyed_{false};
};

class RawEvent {
 public:
  RawEvent(CudaDevice& device, bool timing);
  ~RawEvent();
  RawEvent(const RawEvent&) = delete;
  CudaDevice& device;
  EventHandle handle = nullptr;
};

class CudaDevice final : public GpuDevice {
 public:
  CudaDevice(Driver& driver, int index);
  DeviceTraits traits() override;
  MemoryInfo memory_info() override;
  Ref<Stream> create_stream(int priority) override;
  Ref<Event> create_event(bool timing) override;
  Ref<Memory> allocate(size_t bytes) override;
  Ref<Memory> scratch(size_t bytes) override;
  Ref<Memory> allocate_managed(size_t bytes) override;
  void advise(const Span& span, Advice advice, int where) override;
  Residency residency(const Span& span) override;
  void trim() override;
  CacheCounts kept() override { return blocks_.counts(); }
  Ref<Memory> allocate_host(size_t bytes) override;
  Ref<Memory> register_host(void* address, size_t bytes, bool pin) override;

  Driver& driver;
  DeviceId id = 0;
  Context context = nullptr;

  // The kernel's function; throws when this device cannot run our kernels, with the reason.
  Function function(const Kernel& kernel);
  // Everything a capture may need and must not load itself: kernels, BLAS. What cannot be loaded says so when it is used.
  void prepare();
  unsigned most_blocks() const { return most_blocks_; }

  // For destructors: a call that gives something back, whose failure is told later. A device that is lost has told already,
  // and took everything with it; so has a driver that shut down.
  template <class... P, class... A>
  void give_back(const Call<Status(P...)>& entry, A... arguments) const {
    release([&] {
      try {
        const Enter enter(driver, context);
        const Relaxed relaxed(driver);
        driver.check(entry, arguments...);
      } catch (const Error& error) {
        if (error.status != status::deinitialized && !loses_context(error.status)) throw;
      }
    });
  }
  // Null when matrix products run on our own kernel.
  Blas* blas();
  // Lets peers reach this device's memory, once.
  void reach(CudaDevice& peer);
  // Memory that nothing touches any more: kept for the next scratch() when `room` is that of a block, else the driver's again.
  void put_back(DevicePtr at, size_t room);

 private:
  friend struct hotslot::cuda::Driver;
  friend class RawStream;
  friend class CudaStream;
  void load();
  void zero(DevicePtr address, size_t bytes);
  std::string why_not_managed() const;
  // From the driver: `room` bytes for who asked for `bytes`. When there is none left, once more with what was let go or kept.
  template <class... P, class... A>
  DevicePtr obtain(const Call<Status(DevicePtr*, size_t, P...)>& call, size_t bytes, size_t room, A... arguments);

  unsigned most_blocks_ = 1;
  std::string description_, no_managed_;
  Ref<Stream> own_;  // for zeroing new memory
  std::mutex own_lock_;
  std::mutex load_lock_;
  bool loaded_ = false;
  std::string not_loaded_;  // why there are no kernels
  std::map<std::string, Function> functions_;
  bool blas_tried_ = false;
  std::unique_ptr<Blas> blas_;
  std::string products_ = "Hotslot's own kernel";
  std::set<int> peers_;
  // Streams alive, and closed ones whose work may still run; guarded by streams_lock_.
  struct Live {
    Ref<RawStream> raw;
    std::weak_ptr<Lane> lane;  // expired: nobody enqueues any more
  };
  std::mutex streams_lock_;
  std::vector<Live> streams_;
  Blocks<DevicePtr> blocks_;
  // Pinned staging memory that waits to be used again, by size.
  std::mutex staging_lock_;
  std::multimap<size_t, uint8_t*> staging_;
  size_t staging_bytes_ = 0;
  friend class Staging;
};

// Memory as the driver sees it: kernels take `on_device`, copies `address`.
class CudaMemory : public Memory {
 public:
  CudaMemory(CudaDevice& device, uint8_t* address, size_t bytes, bool host, DevicePtr on_device, HostKind kind = HostKind::pageable,
             bool managed = false)
      : Memory(device, address, bytes, host, kind, managed), on_device(on_device) {}
  const DevicePtr on_device;
  CudaDevice& cuda() const { return static_cast<CudaDevice&>(device); }
};

// A mark behind what the stream has been given; null when nothing of it runs any more. Under its lane's lock, or when nobody
// else knows the stream.
std::shared_ptr<Mark> mark(RawStream& raw);

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaDevice& device, bool timing) : Event(device.family, timing), raw_(device, timing) {}
  ~CudaEvent() override = default;
  bool query() override;
  double elapsed_ms(Event& start) override;

 private:
  friend class CudaStream;
  friend class CudaExec;
  CaptureMark mark_;
  // Recorded outside captures, or by a replay, and where: a stream that is gone was idle. Whether that was seen done.
  // Guarded by the mark's lock.
  bool recorded_ = false, done_ = false;
  std::weak_ptr<RawStream> on_;
  Ref<std::atomic<Status>> fate_;
  RawEvent raw_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, int priority);
  ~CudaStream() override;
  void record(const Ref<Event>& event, bool external) override;
  void wait(const Ref<Event>& event, bool order_only) override;
  void copy(const Span& to, const Span& from) override;
  void fill(const Span& to, const void* pattern, size_t pattern_bytes) override;
  void launch(Launch&& launch) override;
  void replay(const Ref<Exec>& exec) override;
  void prefetch(const Span& span, int device) override;
  bool query() override;
  void begin_capture() override;
  Ref<Graph> end_capture() override;
  bool capturing() override;
  StreamHandle handle() const { return raw_->handle; }

 private:
  template <class F>
  void issue(Work&& work, const char* call, F&& driver_call);
  template <class F>
  void in_driver(const Busy& busy, F&& driver_call);
  // Under the lane's lock.
  void refuse_captive(const char* call) const;
  void require_reachable(const Span& span, const char* call) const;
  void forget_capture();
  Ref<Memory> workspace();
  void run(const Kernel& kernel, const KernelArgs& args, const std::vector<DevicePtr>& pointers);

  CudaDevice& device_;
  Driver& driver_;
  Ref<RawStream> raw_;
  Ref<Lane> lane_;
  std::mutex workspace_lock_;
  Ref<Memory> workspace_, captured_workspace_;
  std::weak_ptr<Capture> workspace_of_;
};

// One line about a device, for lists.
std::string describe(const Driver& driver, DeviceId id);

// The family's objects for a driver that was found; `find` and `open` of cuda.cpp and hip.cpp end here.
Family::Found found_devices(Driver& driver);
Ref<Device> open_device(Driver& driver, int index);

}  // namespace hotslot::cuda
