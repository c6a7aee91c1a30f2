// The CPU device's managed memory. A page takes memory only after a prefetch or its first use. If
// the machine has several memory nodes (NUMA), host:n uses node n modulo their number, and a
// prefetch moves pages to that node. The system chooses the node of pages that belong to the CPU.
#include "device/host/managed.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace hotslot::host {
namespace {

constexpr size_t page_bytes = 4096;
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
constexpr int policy_default = 0, policy_preferred = 1, move_pages = 2;

// Returns the number of memory nodes, counted from 0 to the last one online.
int node_count() {
  static const int count = [] {
    int first = 0, last = 0;
    if (FILE* file = fopen("/sys/devices/system/node/online", "re")) {
      if (fscanf(file, "%d-%d", &first, &last) < 2) last = first;
      fclose(file);
    }
    return last + 1;
  }();
  return count;
}

// Requests that the system puts pages on the device's memory node. Errors are ignored (ENOSYS,
// EPERM), because the system then puts the pages on any node, which is also correct.
void bind(uint8_t* at, size_t bytes, int device) {
  if (node_count() == 1) return;
  constexpr size_t max_nodes = 1024, word_bits = 8 * sizeof(unsigned long);
  unsigned long mask[max_nodes / word_bits]{};
  if (device >= 0) {
    const size_t node = size_t(device % node_count());
    mask[node / word_bits] = 1ul << node % word_bits;
  }
  syscall(SYS_mbind, at, bytes, device >= 0 ? policy_preferred : policy_default,
          device >= 0 ? mask : nullptr, device >= 0 ? max_nodes : 0, device >= 0 ? move_pages : 0);
}

const char* populate(uint8_t* at, size_t bytes) {
  while (madvise(at, bytes, populate_write) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return "managed pages found no memory";
    // Older systems lack MADV_POPULATE_WRITE. On these systems, a write that changes no bit touches
    // each page. The write is atomic, so other threads may write to the page at the same time.
    for (size_t i = 0; i < bytes; i += page_bytes) __atomic_fetch_or(at + i, 0, __ATOMIC_RELAXED);
    break;
  }
  return nullptr;
}

}  // namespace

Ref<Memory> ManagedMemory::reserve(Device& device, size_t bytes) {
  const size_t pages = std::max<size_t>((bytes + page_bytes - 1) / page_bytes, 1);
  const MemoryInfo machine = device.memory_info();
  void* at = bytes <= machine.total ? mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                    : MAP_FAILED;
  if (at == MAP_FAILED)
    throw out_of_memory("host: ", bytes,
                        " bytes of managed memory were asked for, the machine has ", machine.total,
                        ": split the tensors, or use fewer");
  try {
    return std::make_shared<ManagedMemory>(device, static_cast<uint8_t*>(at), bytes, pages);
  } catch (...) {
    munmap(at, pages * page_bytes);
    throw;
  }
}

ManagedMemory::ManagedMemory(Device& device, uint8_t* address, size_t bytes, size_t pages)
    : Memory(device, address, bytes, false, HostKind::pageable, true),
      pages_(pages),
      page_(std::make_unique<Page[]>(pages)) {
  advise(0, bytes, Advice::preferred_location, device.index);
  advise(0, bytes, Advice::accessed_by, device.index);
}

ManagedMemory::~ManagedMemory() { munmap(address, pages_ * page_bytes); }

const char* ManagedMemory::move(size_t offset, size_t bytes, int owner) {
  if (bytes == 0) return nullptr;
  const size_t first = offset / page_bytes, end = (offset + bytes + page_bytes - 1) / page_bytes;
  uint8_t* const at = address + first * page_bytes;
  bind(at, (end - first) * page_bytes, owner);
  if (const char* why = populate(at, (end - first) * page_bytes)) return why;
  for (size_t i = first; i < end; ++i)
    page_[i].owner.store(int8_t(owner), std::memory_order_relaxed);
  return nullptr;
}

void ManagedMemory::advise(size_t offset, size_t bytes, Advice advice, int where) {
  if (bytes == 0) return;
  const size_t first = offset / page_bytes, end = (offset + bytes + page_bytes - 1) / page_bytes;
  for (size_t i = first; i < end; ++i) {
    if (advice == Advice::preferred_location)
      page_[i].preferred.store(int8_t(where), std::memory_order_relaxed);
    else
      page_[i].accessed_by.fetch_or(uint8_t(1 << where), std::memory_order_relaxed);
  }
}

Residency ManagedMemory::residency(size_t offset, size_t bytes) const {
  Residency all;
  if (bytes == 0) return all;
  const size_t first = offset / page_bytes, end = (offset + bytes + page_bytes - 1) / page_bytes;
  uint8_t by = 0xff;
  all.location = page_[first].owner.load(std::memory_order_relaxed);
  all.preferred = page_[first].preferred.load(std::memory_order_relaxed);
  for (size_t i = first; i < end; ++i) {
    if (page_[i].owner.load(std::memory_order_relaxed) != all.location) all.location = nowhere;
    if (page_[i].preferred.load(std::memory_order_relaxed) != all.preferred)
      all.preferred = nowhere;
    by &= page_[i].accessed_by.load(std::memory_order_relaxed);
  }
  for (int i = 0; i < devices; ++i)
    if (by >> i & 1) all.accessed_by.push_back(i);
  return all;
}

}  // namespace hotslot::host
