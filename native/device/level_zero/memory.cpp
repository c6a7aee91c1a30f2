// Memory of Level Zero's devices: device memory, managed memory, and host memory for copies.
#include <algorithm>
#include <cstring>

#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {
namespace {

constexpr size_t page = 4096;

bool no_room(Status status) {
  return status == status::out_of_device_memory || status == status::out_of_host_memory ||
         status == status::unsupported_size;
}

[[noreturn]] void no_memory(size_t bytes, uint64_t free) {
  throw out_of_memory(family_name, ": ", bytes, " bytes were asked for, ", free,
                      " are free: use fewer or smaller slots");
}

[[noreturn]] void not_reached(int index, int owner, const char* call, bool strangers) {
  const std::string pair = sentence("xpu:", index, " does not reach the memory of xpu:", owner);
  if (strangers)
    throw argument(pair, ": the two belong to different drivers; copy through host memory");
  fail(call, status::unsupported_feature, pair + ": copy through host memory");
}

void free_memory(Driver& driver, void* at) {
  driver.take_back("zeMemFree", ze().zeMemFree, driver.context(), at);
}

// Device memory. After the work that touches it is done, a block of `room` bytes goes to the
// device's cache. If `room` is 0, the memory goes back to the driver.
class DeviceMemory final : public Memory {
 public:
  DeviceMemory(XpuDevice& device, void* at, size_t bytes, size_t room)
      : Memory(device, static_cast<uint8_t*>(at), bytes, false), room_(room) {
    device.used += room_ ? room_ : bytes;
  }
  ~DeviceMemory() override {
    auto& xpu = static_cast<XpuDevice&>(device);
    xpu.driver.retired.add(std::move(place_), [&xpu, at = address, bytes = bytes, room = room_] {
      if (room == 0 || !xpu.in_use || !xpu.blocks.keep(at, room)) free_memory(xpu.driver, at);
      xpu.used -= room ? room : bytes;
    });
  }

 private:
  const size_t room_;
  Retired::Reservation place_;
};

class ManagedMemory final : public Memory {
 public:
  ManagedMemory(XpuDevice& device, void* at, size_t bytes)
      : Memory(device, static_cast<uint8_t*>(at), bytes, false, HostKind::pageable, true) {
    device.used += bytes;
  }
  ~ManagedMemory() override {
    auto& xpu = static_cast<XpuDevice&>(device);
    xpu.driver.retired.add(
        std::move(place_), [&xpu, at = address, bytes = bytes, residents = std::move(residents_)] {
          // Intel's older drivers track residency by address and do not drop it when memory is
          // freed. So this evicts the memory first. Otherwise later memory at the same address
          // could count as resident.
          for (DeviceHandle resident : residents)
            ze().zeContextEvictMemory(xpu.driver.context(), resident, at, room(bytes));
          free_memory(xpu.driver, at);
          xpu.used -= bytes;
        });
  }
  // Makes the whole memory resident. It passes the first address, because drivers track residency
  // by address.
  Status make_resident(DeviceHandle on) {
    std::lock_guard guard(lock_);
    const Status got = ze().zeContextMakeMemoryResident(
        static_cast<XpuDevice&>(device).driver.context(), on, address, room(bytes));
    if (got == status::success) residents_.insert(on);
    return got;
  }
  static size_t room(size_t bytes) { return std::max<size_t>(bytes, 1); }

 private:
  std::mutex lock_;
  std::set<DeviceHandle> residents_;
  Retired::Reservation place_;
};

// Returns `make()`, an object that owns the driver's memory at `at`. If memory for the object runs
// out, frees the memory at `at`.
template <class Make>
auto keeping(Driver& driver, void* at, Make&& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    free_memory(driver, at);
    throw;
  }
}

}  // namespace

// ---- host memory --------------------------------------------------------------------------------

// Imports host memory, so that the device can use it. A range inside an earlier import shares that
// import. Whole pages are imported by the standard's call, and any other range by Intel's call. If
// the driver supports neither for this range, imports nothing and returns pageable.
HostKind Driver::import(uint8_t* address, size_t bytes) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(address);
  if (after != imports_.begin())
    if (auto known = std::prev(after); address + bytes <= known->first + known->second.bytes) {
      known->second.users++;
      return HostKind::imported;
    }
  const bool pages = imports_pages && uintptr_t(address) % page == 0 && bytes % page == 0;
  if (!pages && !imports_any) return HostKind::pageable;
  if (pages) {
    MemmapDesc map{Type::external_memmap_sysmem_desc, nullptr, address, bytes};
    HostMemDesc desc{Type::host_mem_alloc_desc, &map, 0};
    void* at = nullptr;
    HOTSLOT_ZE(zeMemAllocHost, context(), &desc, bytes, page, &at);
    if (at != address) {
      free_memory(*this, at);
      fail("zeMemAllocHost", status::unsupported_feature, "the driver mapped the memory elsewhere");
    }
  } else {
    HOTSLOT_ZE_NEWER(*this, zexDriverImportExternalPointer, own, address, bytes);
  }
  try {
    imports_[address] = {bytes, 1, pages};
  } catch (const std::bad_alloc&) {
    give_import(address, pages);
    throw;
  }
  keep_from_children(address, bytes, true);
  return HostKind::imported;
}

bool Driver::imported_pages(const uint8_t* address) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(const_cast<uint8_t*>(address));
  return after != imports_.begin() && std::prev(after)->second.pages;
}

void Driver::give_import(uint8_t* address, bool pages) {
  if (pages)
    free_memory(*this, address);
  else
    take_back("zexDriverReleaseImportedPointer", newer.zexDriverReleaseImportedPointer, own,
              static_cast<void*>(address));
}

void Driver::release_import(uint8_t* address) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(address);
  if (after == imports_.begin()) return;
  const auto known = std::prev(after);
  if (--known->second.users > 0) return;
  give_import(known->first, known->second.pages);
  keep_from_children(known->first, known->second.bytes, false);
  imports_.erase(known);
}

uint8_t* Driver::allocate_staging(size_t room) {
  HostMemDesc desc{Type::host_mem_alloc_desc, nullptr, 0};
  void* at = nullptr;
  const Status got = ze().zeMemAllocHost(context(), &desc, room, page, &at);
  if (no_room(got))
    throw out_of_memory(family_name, ": the driver has no ", room,
                        " bytes of host memory left: read and write less at a time");
  must("zeMemAllocHost", got);
  return static_cast<uint8_t*>(at);
}

// ---- memory -------------------------------------------------------------------------------------

template <class F>
void XpuDevice::obtain(const char* call, size_t bytes, F&& allocate) {
  Status got = status::success;
  const auto tried = [&] {
    got = allocate();
    return !no_room(got);
  };
  if (!reclaim(driver.retired, tried, [&] { trim(); })) no_memory(bytes, free_bytes());
  must(call, got);
}

// Allocates `room` bytes from the driver. The error text names `bytes`, the size that the caller
// requested.
void* XpuDevice::device_memory(size_t bytes, size_t room) {
  if (room > total_) no_memory(bytes, free_bytes());
  RelaxedLimitsDesc relaxed{Type::relaxed_allocation_limits_desc, nullptr, relaxed_max_size};
  DeviceMemDesc desc{Type::device_mem_alloc_desc,
                     room > properties.max_allocation ? &relaxed : nullptr, 0, 0};
  void* at = nullptr;
  obtain("zeMemAllocDevice", bytes,
         [&] { return ze().zeMemAllocDevice(driver.context(), &desc, room, page, handle, &at); });
  return at;
}

Ref<Memory> XpuDevice::do_allocate(size_t bytes) {
  driver.retired.sweep();
  const size_t room = std::max<size_t>(bytes, 1);
  void* const at = device_memory(bytes, room);
  auto memory =
      keeping(driver, at, [&] { return std::make_shared<DeviceMemory>(*this, at, bytes, 0); });
  zero(at, room);
  return memory;
}

Ref<Memory> XpuDevice::scratch(size_t bytes) {
  driver.retired.sweep();
  const size_t room = blocks.room_for(bytes);
  void* at = blocks.take(room);
  if (!at) at = device_memory(bytes, room);
  return keeping(driver, at,
                 [&] { return std::make_shared<DeviceMemory>(*this, at, bytes, room); });
}

void XpuDevice::trim() {
  driver.retired.sweep();
  for (auto& [room, at] : blocks.take_all()) free_memory(driver, at);
}

template <class F>
void XpuDevice::on_own(F&& use) {
  std::lock_guard guard(own_lock_);
  try {
    if (!own_) own_ = Queue::open(*this, 0);
    use(*own_);
  } catch (const Error&) {
    if (own_ && own_->failed()) own_.reset();
    throw;
  }
}

// Zeroes new memory, and returns after the fill is done. So no stream can touch the memory before.
void XpuDevice::zero(void* address, size_t bytes) {
  Work work;
  work.type = Work::fill;
  // This object only describes the range. The caller owns the memory.
  work.to =
      Span{std::make_shared<Memory>(*this, static_cast<uint8_t*>(address), bytes, false), 0, bytes};
  on_own([&](Queue& queue) {
    queue.issue(work, "zeCommandListAppendMemoryFill");
    while (!queue.idle()) {
      const timespec nap{0, 10'000};
      nanosleep(&nap, nullptr);
    }
  });
}

// ---- managed memory -----------------------------------------------------------------------------

Ref<Memory> XpuDevice::do_allocate_managed(size_t bytes) {
  if (!shares) throw unavailable("xpu:", index, ": ", no_managed);
  driver.retired.sweep();
  const size_t room = ManagedMemory::room(bytes);
  RelaxedLimitsDesc relaxed{Type::relaxed_allocation_limits_desc, nullptr, relaxed_max_size};
  DeviceMemDesc desc{Type::device_mem_alloc_desc,
                     room > properties.max_allocation ? &relaxed : nullptr, 0, 0};
  HostMemDesc host{Type::host_mem_alloc_desc, nullptr, 0};
  void* at = nullptr;
  obtain("zeMemAllocShared", bytes, [&] {
    return ze().zeMemAllocShared(driver.context(), &desc, &host, room, page, handle, &at);
  });
  auto memory =
      keeping(driver, at, [&] { return std::make_shared<ManagedMemory>(*this, at, bytes); });
  // Advice and residency are hints. The driver may still move pages, for example if they do not
  // fit.
  take_advice(at, room, MemoryAdvice::prefer_device, handle);
  const Status got = memory->make_resident(handle);
  if (!unsupported(got) && !no_room(got)) must("zeContextMakeMemoryResident", got);
  zero(at, room);
  return memory;
}

// Passes advice to the driver. Returns false if the driver does not support the advice.
bool XpuDevice::take_advice(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about) {
  try {
    on_own([&](Queue& queue) { queue.advise(at, bytes, advice, about); });
    return true;
  } catch (const Error& error) {
    if (!unsupported(Status(error.status))) throw;
    return false;
  }
}

void XpuDevice::do_advise(const Span& span, Advice advice, int where) {
  if (where == on_cpu) {
    if (take_advice(span.address(), span.bytes, MemoryAdvice::prefer_system, handle)) return;
    throw unavailable("xpu:", index,
                      ": this driver takes no advice to keep managed memory with the CPU: leave "
                      "the preferred location to it");
  }
  const auto [others, other] = device_at(where);
  if (other != handle) {
    if (others != &driver) not_reached(where, index, "", true);
    if (!(access_of(other).shared_all & access_read_write))
      not_reached(where, index, "zeDeviceGetMemoryAccessProperties", false);
  }
  if (advice == Advice::preferred_location) {
    if (take_advice(span.address(), span.bytes, MemoryAdvice::prefer_device, other)) return;
    throw unavailable(
        "xpu:", index,
        ": this driver takes no advice where managed memory belongs: leave that to it");
  }
  must("zeContextMakeMemoryResident",
       static_cast<ManagedMemory&>(*span.memory).make_resident(other));
}

// ---- host memory of a device --------------------------------------------------------------------

Ref<Memory> XpuDevice::do_allocate_host(size_t bytes) {
  driver.retired.sweep();
  return staging(bytes);
}

Ref<Memory> XpuDevice::staging(size_t bytes) {
  using Lent = StagingMemory<Memory>;
  return Lent::lend(driver.staging, bytes, [&](size_t room, uint8_t* at) {
    return std::make_shared<Lent>(driver.staging, room, *this, at, bytes, true,
                                  HostKind::registered);
  });
}

Ref<Memory> XpuDevice::do_register_host(void* address, size_t bytes, bool pin) {
  driver.retired.sweep();
  auto* at = static_cast<uint8_t*>(address);
  const HostKind kind = pin && bytes > 0 ? driver.import(at, bytes) : HostKind::pageable;
  std::function<void()> let_go;
  if (kind == HostKind::imported) let_go = [this, at] { driver.release_import(at); };
  try {
    return std::make_shared<LentMemory<Memory>>(driver.retired, std::move(let_go), *this, at, bytes,
                                                true, kind);
  } catch (const std::bad_alloc&) {
    if (kind == HostKind::imported) driver.release_import(at);
    throw;
  }
}

// Returns whether kernels can use the memory. Memory that Intel's call imported works only in
// copies. A kernel would get an address that is invalid on the device.
bool XpuDevice::kernels_reach(const Memory& memory) const {
  if (!memory.host || reaches_pageable || memory.host_kind == HostKind::registered) return true;
  return memory.host_kind == HostKind::imported && driver.imported_pages(memory.address);
}

void XpuDevice::reach(const Memory& memory, const Kernel* kernel) {
  if (&memory.device == this || memory.host) {
    if (kernel && !kernels_reach(memory))
      throw argument("kernel '", kernel->name, "' cannot reach host memory that xpu:", index,
                     " has not imported as whole pages: copy it to the device first");
    return;
  }
  auto& peer = static_cast<XpuDevice&>(memory.device);
  if (&peer.driver != &driver) not_reached(index, peer.index, "", true);
  if (memory.managed) {
    if (!shares_all) not_reached(index, peer.index, "zeDeviceGetMemoryAccessProperties", false);
  } else if (!can_access(peer)) {
    not_reached(index, peer.index, "zeDeviceCanAccessPeer", false);
  }
}

// Returns whether this device can access the memory of `peer`, which belongs to the same driver.
bool XpuDevice::can_access(XpuDevice& peer) {
  std::lock_guard guard(load_lock_);
  auto known = peers_.find(&peer);
  if (known == peers_.end()) {
    uint8_t can = 0;
    HOTSLOT_ZE(zeDeviceCanAccessPeer, handle, peer.handle, &can);
    known = peers_.emplace(&peer, can != 0).first;
  }
  return known->second;
}

// orders() requires that both devices belong to the same driver. reaches() also requires access in
// both directions, because a copy may be on a stream of either device. A failed query counts as no
// access.
bool XpuDevice::orders(Device& other) {
  return other.family == family && &static_cast<XpuDevice&>(other).driver == &driver;
}

bool XpuDevice::reaches(Device& other) {
  if (&other == this) return true;
  if (other.family != family) return false;
  auto& peer = static_cast<XpuDevice&>(other);
  try {
    return &peer.driver == &driver && can_access(peer) && peer.can_access(*this);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace hotslot::level_zero
