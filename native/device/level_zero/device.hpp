// Level Zero's devices.
#pragma once
#include <map>
#include <mutex>

#include "device/core/block_cache.hpp"
#include "device/core/capture.hpp"
#include "device/core/family.hpp"
#include "device/gpu/device.hpp"
#include "device/level_zero/driver.hpp"

namespace hotslot::level_zero {

// A driver's kernel object, which stores the arguments of its next launch. A thread that launches
// it holds the lock from the first argument until the launch is appended.
struct LoadedKernel {
  std::mutex lock;
  KernelHandle handle = nullptr;
  uint32_t group = 0;
};
// Threads of a group, if the kernel and the device allow this number.
constexpr uint32_t group_size = 256;

class XpuDevice final : public GpuDevice {
 public:
  XpuDevice(Driver& driver, DeviceHandle handle, int index);
  DeviceTraits traits() override;
  MemoryInfo memory_info() override;
  Ref<Stream> create_stream(int priority) override;
  Ref<Event> create_event(bool timing) override;
  Ref<Memory> scratch(size_t bytes) override;
  bool reaches(Device& other) override;
  bool orders(Device& other) override;
  // Captured work becomes one list of the driver, and a list belongs to one device.
  bool joins(Device& other) override { return &other == this; }
  void trim() override;
  CacheCounts kept() override { return blocks.counts(); }

  Driver& driver;
  const DeviceHandle handle;
  DeviceProperties properties{};
  // - in_order: whether lists can run their work in order
  // - counters: whether in-order lists can signal counter-based events
  // - timing: whether events can record the device's clock
  // - graphs: whether the driver can record graphs
  bool in_order = false, counters = false, timing = false, graphs = false;
  bool kernels_reach(const Memory& memory) const;
  bool reaches_pageable = false;  // whether kernels reach all memory of the process
  // - shares: whether the device reaches its own managed memory
  // - shares_all: whether it also reaches managed memory of the driver's other devices
  bool shares = false, shares_all = false;
  struct Group {
    uint32_t ordinal = 0, queues = 1;
    size_t max_fill_pattern = 0;
  };
  Group compute, copies;  // `copies`: engines that only copy, if `has_copies`
  bool has_copies = false;

  ListHandle immediate_list(const Group& group, int priority, bool ordered);
  uint32_t next_index(const Group& group) { return next_index_.fetch_add(1) % group.queues; }
  // Appends one captured or enqueued operation to a list. The operation waits for the `count`
  // events in `waits`. After the operation is done, it signals `signal`, if that is not null.
  void append(ListHandle list, const Work& work, EventHandle signal, uint32_t count,
              EventHandle* waits);
  // Throws with the reason if the kernel cannot be launched.
  void prepare(const Kernel& kernel) { loaded(kernel); }
  // Builds a module from SPIR-V. Throws the driver's error with its build log. The caller frees the
  // module.
  ModuleHandle build_module(const void* image, size_t bytes);
  std::unique_ptr<LoadedKernel> load_kernel(ModuleHandle module, const std::string& name);
  // Throws if this device does not reach the memory. If `kernel` is not null, also throws for host
  // memory that kernels cannot use (see kernels_reach).
  void reach(const Memory& memory, const Kernel* kernel);
  // Allocates host memory of the driver. Allowed inside a capture.
  Ref<Memory> staging(size_t bytes);

  std::mutex record_lock;            // guards the list below
  ListHandle record_list = nullptr;  // records graphs, and never runs work
  std::atomic<uint64_t> used{
      0};  // bytes of device and managed memory in use; memory in `blocks` counts as free
  Blocks<void*> blocks;  // cached memory, which no enqueued work touches

 protected:
  Ref<Memory> do_allocate(size_t bytes) override;
  Ref<Memory> do_allocate_managed(size_t bytes) override;
  Ref<Memory> do_allocate_host(size_t bytes) override;
  Ref<Memory> do_register_host(void* address, size_t bytes, bool pin) override;
  void do_advise(const Span& span, Advice advice, int where) override;
  // Returns `nowhere` for all locations, because the driver does not report residency.
  Residency do_residency(const Span&) override { return {}; }
  Ref<KernelModule> do_load_kernels(const ModuleRequest& request) override;

 private:
  void probe();
  void find_groups();
  LoadedKernel& loaded(const Kernel& kernel);
  // The arguments of a launch, and the memory that determines its grid.
  struct Arguments {
    std::vector<const void*> pointers;
    std::vector<int64_t> wholes;
    std::vector<float> reals;
    Reach output;
  };
  void launch(ListHandle list, const Kernel& kernel, const Arguments& arguments, EventHandle signal,
              uint32_t count, EventHandle* waits);
  uint64_t free_bytes() const;
  // Calls `allocate`, which allocates memory for `bytes` requested bytes, and retries as reclaim()
  // does. Throws MEMORY if memory has run out, and the driver's error after any other failure.
  template <class F>
  void obtain(const char* call, size_t bytes, F&& allocate);
  void* device_memory(size_t bytes, size_t room);
  template <class F>
  void on_own(F&& use);
  void zero(void* address, size_t bytes);
  bool take_advice(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  bool can_access(XpuDevice& peer);

  std::atomic<uint32_t> next_index_{0};
  uint64_t total_ = 0;
  uint32_t largest_group_ = 256, max_groups_ = 1024;
  std::mutex load_lock_;
  ModuleHandle module_ = nullptr;
  std::map<std::string, std::unique_ptr<LoadedKernel>> kernels_;
  std::map<const Device*, bool> peers_;
  std::mutex own_lock_;
  Ref<Queue> own_;  // zeroes new memory and passes on advice; replaced after it failed
};

MemoryAccessProperties access_of(DeviceHandle device);
constexpr const char* no_managed = "this device has no memory that it shares with the CPU";

// Returns the devices of all drivers, in the order in which the loader lists them.
const Family::Found& found();
Ref<Device> open(int index);

}  // namespace hotslot::level_zero
