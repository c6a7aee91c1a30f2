// The CPU device: a full device on the CPU, and the readable specification of a device. Its memory
// is separate from the program's, as on a GPU. So if a program forgets a copy or a wait, it reads
// wrong bytes here too. Its captures throw the same errors as CUDA's, with CUDA's numbers.
#include "device/host/device.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>

#include "device/core/block_cache.hpp"
#include "device/host/executor.hpp"
#include "device/host/managed.hpp"
#include "device/host/stream.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot::host {
namespace {

// Returns the available memory in bytes, and stores the total. If /proc/meminfo cannot be read, it
// returns the free memory that sysinfo() reports.
uint64_t available_bytes(uint64_t* total) {
  uint64_t free = 0;
  struct sysinfo known;
  if (sysinfo(&known) == 0) {
    free = uint64_t(known.freeram) * known.mem_unit;
    if (total) *total = uint64_t(known.totalram) * known.mem_unit;
  }
  if (FILE* file = fopen("/proc/meminfo", "re")) {
    char line[128];
    unsigned long long kib;
    while (fgets(line, sizeof line, file)) {
      if (sscanf(line, "MemTotal: %llu", &kib) == 1 && total) *total = kib * 1024;
      if (sscanf(line, "MemAvailable: %llu", &kib) == 1) free = kib * 1024;
    }
    fclose(file);
  }
  return free;
}

// A block of memory of one device. The destructor adds it to the device's cache if it has one.
class OwnMemory final : public Memory {
 public:
  OwnMemory(Device& device, uint8_t* address, size_t bytes, size_t mapped, bool host,
            Blocks<uint8_t*>* blocks)
      : Memory(device, address, bytes, host), mapped_(mapped), blocks_(blocks) {}
  ~OwnMemory() override {
    if (!blocks_ || !device.in_use || !blocks_->keep(address, mapped_)) munmap(address, mapped_);
  }

 private:
  const size_t mapped_;
  Blocks<uint8_t*>* const blocks_;  // the device's cache; null: the destructor unmaps the block
};

}  // namespace

std::string describe() {
  const int cores = IdleCores::cores();
  return std::to_string(cores) + (cores == 1 ? " core" : " cores") + ", matrix products by " +
         gemm_provider();
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(int index) : Device(family_name, index) {}
  DeviceTraits traits() override {
    DeviceTraits traits;
    traits.description = describe();
    traits.rings = true;
    traits.submitter = "host_stream";
    traits.matrix_products = gemm_provider();
    return traits;
  }
  MemoryInfo memory_info() override {
    MemoryInfo info{};
    info.free = available_bytes(&info.total);
    return info;
  }
  Ref<Stream> create_stream(int priority) override {
    return std::make_shared<HostStream>(*this, executor_, priority);
  }
  Ref<Event> create_event(bool timing) override {
    return std::make_shared<HostEvent>(*this, timing);
  }
  Ref<Memory> scratch(size_t bytes) override { return reused(bytes, false); }
  void trim() override {
    for (auto& [room, at] : blocks_.take_all()) munmap(at, room);
  }
  CacheCounts kept() override { return blocks_.counts(); }
  bool guards() const override { return true; }
  bool help(uint64_t ns) override { return executor_.help(ns); }
  void revoke(const Ref<Memory>& memory, uint64_t ns) override { executor_.revoke(memory, ns); }
  void attend(Bell* bell) override { executor_.attend(bell); }
  void dismiss(Bell* bell) override { executor_.dismiss(bell); }

 protected:
  Ref<Memory> do_allocate(size_t bytes) override {
    return map(bytes, (std::max<size_t>(bytes, 1) + 4095) & ~size_t(4095), false, nullptr);
  }
  Ref<Memory> do_allocate_managed(size_t bytes) override {
    return ManagedMemory::reserve(*this, bytes);
  }
  Ref<Memory> do_allocate_host(size_t bytes) override { return reused(bytes, true); }
  Ref<Memory> do_register_host(void* address, size_t bytes, bool) override {
    return std::make_shared<Memory>(*this, static_cast<uint8_t*>(address), bytes, true);
  }
  void do_advise(const Span& span, Advice advice, int where) override {
    static_cast<ManagedMemory&>(*span.memory).advise(span.offset, span.bytes, advice, where);
  }
  Residency do_residency(const Span& span) override {
    return static_cast<ManagedMemory&>(*span.memory).residency(span.offset, span.bytes);
  }
  Ref<KernelModule> do_load_kernels(const ModuleRequest& request) override {
    return host::load_kernels(*this, request);
  }
  bool do_wait_event(Event& event, uint64_t ns) override {
    return executor_.wait([&event] { return event.query(); }, ns);
  }

 private:
  Ref<Memory> reused(size_t bytes, bool host) {
    const size_t room = blocks_.room_for(bytes);
    if (uint8_t* at = blocks_.take(room)) return owned(at, bytes, room, host, &blocks_);
    return map(bytes, room, host, &blocks_);
  }
  Ref<Memory> map(size_t bytes, size_t mapped, bool host, Blocks<uint8_t*>* blocks) {
    const bool large = bytes >= (16u << 20);  // only these are compared with the available memory
    if (large && bytes >= available_bytes(nullptr)) trim();
    const bool fits = !large || bytes < available_bytes(nullptr);
    void* address =
        fits ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
             : MAP_FAILED;
    if (address == MAP_FAILED)
      throw out_of_memory("host: ", bytes, " bytes were asked for, ", available_bytes(nullptr),
                          " are free: use fewer or smaller slots");
    if (bytes >= (4u << 20)) madvise(address, mapped, MADV_HUGEPAGE);
    return owned(static_cast<uint8_t*>(address), bytes, mapped, host, blocks);
  }
  Ref<Memory> owned(uint8_t* at, size_t bytes, size_t mapped, bool host, Blocks<uint8_t*>* blocks) {
    try {
      return std::make_shared<OwnMemory>(*this, at, bytes, mapped, host, blocks);
    } catch (...) {
      munmap(at, mapped);
      throw;
    }
  }
  Executor& executor_ = Executor::instance();
  Blocks<uint8_t*> blocks_;
};

Ref<Device> open(int index) { return std::make_shared<HostDevice>(index); }

}  // namespace hotslot::host
