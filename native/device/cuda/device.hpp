// CUDA's and ROCm's devices, and their memory, which the driver's addresses identify.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "device/core/block_cache.hpp"
#include "device/core/family.hpp"
#include "device/cuda/driver.hpp"
#include "device/gpu/device.hpp"
#include "device/gpu/memory.hpp"

namespace hotslot::cuda {

class Blas;
class RawStream;

class CudaDevice final : public GpuDevice {
 public:
  CudaDevice(Driver& driver, int index);
  DeviceTraits traits() override;
  std::string why_not_tf32() override;
  MemoryInfo memory_info() override;
  Ref<Stream> create_stream(int priority) override;
  Ref<Event> create_event(bool timing) override;
  Ref<Memory> scratch(size_t bytes) override;
  void trim() override;
  CacheCounts kept() override { return blocks_.counts(); }

  Driver& driver;
  DeviceId id = 0;
  Context context = nullptr;

  // Returns the kernel's function. Throws with the reason if this device cannot run Hotslot's
  // kernels.
  Function function(const Kernel& kernel);
  // Loads everything that a capture may need but must not load: kernels and BLAS. If loading fails,
  // the first use throws the error.
  void prepare() override;
  unsigned max_blocks() const { return max_blocks_; }
  // Returns the compute capability of a CUDA device, times ten: 90 for 9.0.
  int capability() const { return capability_; }
  // Launches on the device's own stream, with this precision of products. This work delays no
  // stream of a program. It delays only allocations, because they zero new memory on the same
  // stream.
  void launch_on_own(Launch&& launch, Products as);

  // Frees a driver's object and does not throw, because destructors call it. See Unreturned.
  //
  // Ignores the errors of a lost device and of a driver that has shut down. These errors were
  // reported before, and the object is freed with the device or the driver.
  template <class... P, class... A>
  void give_back(const Call<Status(P...)>& entry, A... arguments) {
    driver.unreturned.give_back([this, &entry, arguments...] {
      try {
        const Enter enter(driver, context);
        const RelaxedCaptureMode relaxed(driver);
        driver.check(entry, arguments...);
      } catch (const Error& error) {
        if (error.status != status::deinitialized && !loses_context(error.status)) throw;
      }
    });
  }
  // Returns null if matrix products run on Hotslot's own kernel.
  Blas* blas();
  // Measures, once before the first capture, whether the driver reports events of graphs too early.
  // Suppose that an event was recorded, and then a graph is launched that records it again. Until
  // the graph reaches this record, a query may still report the event as done. No document
  // specifies what the query reports.
  void learn_graph_events();
  bool tells_graph_events_early() const { return early_events_.load(); }
  // Returns the stream on which graphs are uploaded to the device. Returns null before the first
  // prepare(), and if the driver cannot upload graphs.
  Ref<RawStream> upload_stream();
  // Lets this device access the memory of `peer`, if the devices support that. Does nothing if an
  // earlier call has done so.
  void reach(CudaDevice& peer);
  // Takes back memory that no work touches. `room` is the size of its cache block in bytes, or 0 if
  // it is no block. If the cache has space for the block, caches it for the next scratch().
  // Otherwise frees the memory when no work runs.
  void put_back(Retired::Reservation place, DevicePtr at, size_t room);

 protected:
  Ref<Memory> do_allocate(size_t bytes) override;
  Ref<Memory> do_allocate_managed(size_t bytes) override;
  Ref<Memory> do_allocate_host(size_t bytes) override;
  Ref<Memory> do_register_host(void* address, size_t bytes, bool pin) override;
  void do_advise(const Span& span, Advice advice, int where) override;
  Residency do_residency(const Span& span) override;
  Ref<KernelModule> do_load_kernels(const ModuleRequest& request) override;
  std::string do_compile(const ModuleRequest& request) override;

 private:
  friend struct hotslot::cuda::Driver;
  friend class RawStream;
  friend class CudaStream;
  void load();
  void fill_once();
  void free_when_idle(Retired::Reservation place, DevicePtr at, size_t bytes);
  // Returns `make()`, an object that owns the driver's memory at `at`. If make() throws, frees the
  // memory.
  template <class Make>
  Ref<Memory> keeping(DevicePtr at, size_t room, Make&& make);
  void zero(DevicePtr address, size_t bytes);
  std::string why_not_managed() const;
  uint8_t* allocate_staging(size_t room);
  // Allocates `room` bytes from the driver with `call`. If memory runs out, retries as reclaim()
  // does. The error text names `bytes`, the size that the caller requested.
  template <class... P, class... A>
  DevicePtr obtain(const Call<Status(DevicePtr*, size_t, P...)>& call, size_t bytes, size_t room,
                   A... arguments);

  unsigned max_blocks_ = 1;
  int capability_ = 0;
  bool watchdog_ = false;
  std::once_flag learnt_, filled_;
  std::atomic<uint64_t> waiting_bytes_{0};  // bytes to return to the driver when no work runs
  std::atomic<bool> early_events_{false};
  std::string description_, no_managed_;
  Ref<Stream> own_;      // the stream that zeroes new memory
  Ref<Stream> uploads_;  // guarded by own_lock_
  std::mutex own_lock_;
  std::mutex load_lock_;
  bool loaded_ = false;
  std::string not_loaded_;  // why the kernels could not be loaded
  std::map<std::string, Function> functions_;
  bool blas_tried_ = false;
  std::unique_ptr<Blas> blas_;
  std::string products_ = "Hotslot's own kernel";
  std::set<int> peers_;
  // Open streams, and closed streams whose work may still run. streams_lock_ guards them.
  struct Live {
    Ref<RawStream> raw;
    std::weak_ptr<CaptureMembership>
        membership;  // expired after the stream was closed: no thread enqueues work
  };
  // Returns the streams of all devices of the driver.
  static std::vector<Live> live(Driver& driver);
  std::mutex streams_lock_;
  std::vector<Live> streams_;
  Blocks<DevicePtr> blocks_;
  Staging staging_;
};

// Memory with the driver's addresses. Kernels use `on_device`, and copies use `address`.
class CudaMemory : public Memory {
 public:
  CudaMemory(CudaDevice& device, uint8_t* address, size_t bytes, bool host, DevicePtr on_device,
             HostKind kind = HostKind::pageable, bool managed = false)
      : Memory(device, address, bytes, host, kind, managed), on_device(on_device) {}
  const DevicePtr on_device;
  CudaDevice& cuda() const { return static_cast<CudaDevice&>(device); }
};

// Returns a one-line description of a device, for lists.
std::string describe(const Driver& driver, DeviceId id);

// found_devices() returns the devices of an opened driver, and open_device() opens one of them.
// cuda/find.cpp and hip/find.cpp call these functions.
Family::Found found_devices(Driver& driver);
Ref<Device> open_device(Driver& driver, int index);

}  // namespace hotslot::cuda
