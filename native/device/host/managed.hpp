// The CPU device's managed memory: reserved address space. Each page is allocated and moved
// separately, and has an owner, which is a CPU device or the CPU.
#pragma once
#include "device/host/device.hpp"

namespace hotslot::host {

class ManagedMemory final : public Memory {
 public:
  static Ref<Memory> reserve(Device& device, size_t bytes);
  ManagedMemory(Device& device, uint8_t* address, size_t bytes, size_t pages);
  ~ManagedMemory() override;
  // Allocates the pages of the range on their new owner's memory node. Returns null, or the reason
  // why it failed.
  const char* move(size_t offset, size_t bytes, int owner);
  void advise(size_t offset, size_t bytes, Advice advice, int where);
  Residency residency(size_t offset, size_t bytes) const;

 private:
  struct Page {
    std::atomic<int8_t> owner{nowhere}, preferred{nowhere};
    std::atomic<uint8_t> accessed_by{0};  // a bit for each of host:0 to host:7
  };
  const size_t pages_;
  const std::unique_ptr<Page[]> page_;
};

}  // namespace hotslot::host
