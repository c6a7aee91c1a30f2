// CUDA's and ROCm's devices, and their memory as the driver sees it.
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
  MemoryInfo memory_info() override;
  Ref<Stream> create_stream(int priority) override;
  Ref<Event> create_event(bool timing) override;
  Ref<Memory> scratch(size_t bytes) override;
  void trim() override;
  CacheCounts kept() override { return blocks_.counts(); }

  Driver& driver;
  DeviceId id = 0;
  Context context = nullptr;

  // The kernel's function; throws when this device cannot run our kernels, with the reason.
  Function function(const Kernel& kernel);
  // Everything a capture may need and must not load itself: kernels, BLAS. What cannot be loaded
  // says so when it is used.
  void prepare() override;
  unsigned max_blocks() const { return max_blocks_; }
  // Of CUDA's devices: 90 for 9.0.
  int capability() const { return capability_; }
  // On the device's own stream, which nothing waits for but new memory.
  void launch_on_own(Launch&& launch);

  // For destructors; see Unreturned. A device that is lost has told already, and took everything
  // with it; so has a driver that shut down.
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
  // Null when matrix products run on our own kernel.
  Blas* blas();
  // Whether an event that a graph records counts as done, from its launch until it is recorded,
  // because it was recorded before: no document says what a driver answers. Found out once, before
  // the first capture.
  void learn_graph_events();
  bool tells_graph_events_early() const { return early_events_.load(); }
  // What graphs are uploaded on; null before the first capture.
  Ref<RawStream> upload_stream();
  // Lets peers reach this device's memory, once.
  void reach(CudaDevice& peer);
  // Memory that nothing touches any more: kept for the next scratch() when `room` is that of a
  // block, else the driver's again.
  void put_back(Retired::Place place, DevicePtr at, size_t room);

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
  void free_when_idle(Retired::Place place, DevicePtr at, size_t bytes);
  // `make()` of what the driver gave, which goes back where there is no memory for what keeps it.
  template <class Make>
  Ref<Memory> keeping(DevicePtr at, size_t room, Make&& make);
  void zero(DevicePtr address, size_t bytes);
  std::string why_not_managed() const;
  uint8_t* allocate_staging(size_t room);
  // From the driver: `room` bytes, of which `bytes` were asked for; see reclaim().
  template <class... P, class... A>
  DevicePtr obtain(const Call<Status(DevicePtr*, size_t, P...)>& call, size_t bytes, size_t room,
                   A... arguments);

  unsigned max_blocks_ = 1;
  int capability_ = 0;
  bool watchdog_ = false;
  std::once_flag learnt_, filled_;
  std::atomic<uint64_t> waiting_bytes_{0};  // that go back to the driver when nothing runs
  std::atomic<bool> early_events_{false};
  std::string description_, no_managed_;
  Ref<Stream> own_;      // for zeroing new memory
  Ref<Stream> uploads_;  // guarded by own_lock_
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
    std::weak_ptr<CaptureMembership>
        membership;  // expired: the stream is closed, and no thread enqueues any more
  };
  // Of all the driver's devices.
  static std::vector<Live> live(Driver& driver);
  std::mutex streams_lock_;
  std::vector<Live> streams_;
  Blocks<DevicePtr> blocks_;
  Staging staging_;
};

// Memory as the driver sees it: kernels take `on_device`, copies `address`.
class CudaMemory : public Memory {
 public:
  CudaMemory(CudaDevice& device, uint8_t* address, size_t bytes, bool host, DevicePtr on_device,
             HostKind kind = HostKind::pageable, bool managed = false)
      : Memory(device, address, bytes, host, kind, managed), on_device(on_device) {}
  const DevicePtr on_device;
  CudaDevice& cuda() const { return static_cast<CudaDevice&>(device); }
};

// One line about a device, for lists.
std::string describe(const Driver& driver, DeviceId id);

// The family's objects for a driver that was found; `find` and `open` of cuda/find.cpp and
// hip/find.cpp end here.
Family::Found found_devices(Driver& driver);
Ref<Device> open_device(Driver& driver, int index);

}  // namespace hotslot::cuda
