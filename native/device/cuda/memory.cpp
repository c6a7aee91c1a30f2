// Memory of CUDA's and ROCm's devices: device memory, managed memory, and host memory for copies.
#include <algorithm>

#include "device/cuda/stream.hpp"

namespace hotslot::cuda {
namespace {

class DeviceMemory final : public CudaMemory {
 public:
  // `whole` is the start of the driver's allocation, if that differs from `at`.
  DeviceMemory(CudaDevice& device, DevicePtr at, size_t bytes, size_t room = 0,
               bool managed = false, DevicePtr whole = 0)
      : CudaMemory(device, reinterpret_cast<uint8_t*>(at), bytes, false, at, HostKind::pageable,
                   managed),
        room_(room),
        whole_(whole ? whole : at) {}
  ~DeviceMemory() override {
    cuda().driver.retired.add(std::move(place_), [&device = cuda(), whole = whole_,
                                                  room = room_](Retired::Reservation next) {
      device.put_back(std::move(next), whole, room);
    });
  }

 private:
  const size_t room_;  // size of a cached block, or 0
  const DevicePtr whole_;
  Retired::Reservation place_;
};

// Bytes of managed memory are rounded up to a multiple of this number, which is whole pages on
// every system. Prefetches and advice apply to whole pages, so they then affect no other memory.
constexpr size_t managed_grain = 64 << 10;

}  // namespace

template <class... P, class... A>
DevicePtr CudaDevice::obtain(const Call<Status(DevicePtr*, size_t, P...)>& call, size_t bytes,
                             size_t room, A... arguments) {
  driver.sweep();
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  DevicePtr at = 0;
  Status got = status::success;
  const auto allocate = [&] {
    got = call(&at, room, arguments...);
    return got != status::out_of_memory;
  };
  if (!reclaim(driver.retired, allocate, [&] { trim(); })) {
    size_t free = 0, total = 0;
    driver.call.mem_get_info(&free, &total);
    throw out_of_memory(family, ": ", bytes, " bytes were asked for, ", free,
                        " are free: use fewer or smaller slots");
  }
  if (got != status::success) driver.refuse(call.name, got);
  return at;
}

// Zeroes new memory, and returns after the fill is done. So no stream can touch the memory before.
void CudaDevice::zero(DevicePtr at, size_t bytes) {
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  std::lock_guard guard(own_lock_);
  const StreamHandle own = static_cast<CudaStream&>(*own_).handle();
  driver.check(driver.call.memset_d8_async, at, static_cast<unsigned char>(0), bytes, own);
  // Spins first, because a thread that waits in the driver sleeps, and waking it takes longer than
  // most fills.
  constexpr uint64_t spin_ns = 50'000;
  for (const uint64_t deadline = now_ns() + spin_ns; driver.may_poll() && now_ns() < deadline;)
    if (driver.call.stream_query(own) == status::success) return;
  driver.check(driver.call.stream_synchronize, own);
}

Ref<Memory> CudaDevice::do_allocate(size_t bytes) {
  auto memory = scratch(bytes);
  zero(static_cast<DeviceMemory&>(*memory).on_device, std::max<size_t>(bytes, 1));
  return memory;
}

Ref<Memory> CudaDevice::scratch(size_t bytes) {
  driver.sweep();
  const size_t room = blocks_.room_for(bytes);
  DevicePtr at = blocks_.take(room);
  if (at == 0) at = obtain(driver.call.mem_alloc, bytes, room);
  return keeping(at, room, [&] { return std::make_shared<DeviceMemory>(*this, at, bytes, room); });
}

template <class Make>
Ref<Memory> CudaDevice::keeping(DevicePtr at, size_t room, Make&& make) {
  try {
    return make();
  } catch (...) {
    put_back(Retired::Reservation::if_any(), at, room);
    throw;
  }
}

void CudaDevice::put_back(Retired::Reservation place, DevicePtr at, size_t room) {
  if (room == 0 || !in_use || !blocks_.keep(at, room)) free_when_idle(std::move(place), at, room);
}

// Frees memory when no work runs. Until then the memory counts as free. An allocation that would
// otherwise fail frees it first (see reclaim()).
void CudaDevice::free_when_idle(Retired::Reservation place, DevicePtr at, size_t bytes) {
  waiting_bytes_.fetch_add(bytes);
  driver.retired.when_idle(std::move(place), bytes, [this, at, bytes] {
    give_back(driver.call.mem_free, at);
    waiting_bytes_.fetch_sub(bytes);
  });
}

void CudaDevice::trim() {
  if (!Retired::may_sweep()) return;
  driver.sweep();
  for (auto& [room, at] : blocks_.take_all())
    free_when_idle(Retired::Reservation::if_any(), at, room);
  driver.tidy();
}

// ---- managed memory -----------------------------------------------------------------------------

std::string CudaDevice::why_not_managed() const {
  const Table& call = driver.call;
  std::string missing;
  const auto need = [&](bool there, const char* name) {
    if (!there) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  need(bool(call.mem_alloc_managed), call.mem_alloc_managed.name);
  need(call.mem_prefetch || call.mem_prefetch_v1, call.mem_prefetch_v1.name);
  need(call.mem_advise || call.mem_advise_v1, call.mem_advise_v1.name);
  need(bool(call.mem_range_get_attribute), call.mem_range_get_attribute.name);
  if (!missing.empty()) return "this driver lacks " + missing;
  const auto has = [&](Attribute attribute) {
    int value = 0;
    return call.device_get_attribute(&value, attribute, id) == status::success && value != 0;
  };
  if (!has(attribute_managed_memory)) return "this device has no managed memory";
  if (!has(attribute_concurrent_managed_access))
    return "this device and the CPU cannot use managed memory at the same time";
  return "";
}

DeviceId Driver::id_of(int where) const {
  if (where == on_cpu) return device_cpu;
  DeviceId id = 0;
  check(call.device_get, &id, where);
  return id;
}

namespace {

Location location_of(DeviceId id) {
  return id == device_cpu ? Location{location_host, 0} : Location{location_device, id};
}

}  // namespace

void Driver::prefetch(DevicePtr at, size_t bytes, int where, StreamHandle stream) const {
  const DeviceId id = id_of(where);
  if (call.mem_prefetch)
    check(call.mem_prefetch, at, bytes, location_of(id), 0u, stream);
  else
    check(call.mem_prefetch_v1, at, bytes, id, stream);
}

void Driver::advise(DevicePtr at, size_t bytes, MemoryAdvice advice, int where) const {
  const DeviceId id = id_of(where);
  if (call.mem_advise)
    check(call.mem_advise, at, bytes, advice, location_of(id));
  else
    check(call.mem_advise_v1, at, bytes, advice, id);
}

Ref<Memory> CudaDevice::do_allocate_managed(size_t bytes) {
  if (!no_managed_.empty())
    throw unavailable(family, ": managed memory cannot be had: ", no_managed_);
  const size_t room =
      (std::max<size_t>(bytes, 1) + managed_grain - 1) / managed_grain * managed_grain;
  const auto ask = [&](size_t more) {
    return obtain(driver.call.mem_alloc_managed, bytes, room + more, unsigned(mem_attach_global));
  };
  DevicePtr whole = ask(0), at = whole;
  if (whole % managed_grain != 0) {
    // The allocation may share a page with other memory, and advice for this page would apply to
    // both. So this allocates more, and uses only whole pages of it.
    free_when_idle(Retired::Reservation::if_any(), whole, 0);
    whole = ask(managed_grain);
    at = (whole + managed_grain - 1) / managed_grain * managed_grain;
  }
  auto memory = keeping(
      whole, 0, [&] { return std::make_shared<DeviceMemory>(*this, at, bytes, 0, true, whole); });
  zero(at, room);
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  for (const MemoryAdvice advice : {advise_preferred_location, advise_accessed_by})
    driver.advise(at, room, advice, index);
  return memory;
}

void CudaDevice::do_advise(const Span& span, Advice advice, int where) {
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  driver.advise(
      static_cast<CudaMemory&>(*span.memory).on_device + span.offset, span.bytes,
      advice == Advice::preferred_location ? advise_preferred_location : advise_accessed_by, where);
}

Residency CudaDevice::do_residency(const Span& span) {
  Residency found;
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  int count = 0;
  driver.check(driver.call.device_get_count, &count);
  std::map<DeviceId, int> indices{{device_cpu, on_cpu}, {device_invalid, nowhere}};
  for (int i = 0; i < count; ++i) indices[driver.id_of(i)] = i;
  const auto where = [&](DeviceId id) {
    const auto known = indices.find(id);
    return known == indices.end() ? nowhere : known->second;
  };
  const DevicePtr at = static_cast<CudaMemory&>(*span.memory).on_device + span.offset;
  const auto ask = [&](RangeAttribute attribute, void* out, size_t bytes) {
    driver.check(driver.call.mem_range_get_attribute, out, bytes, attribute, at, span.bytes);
  };
  DeviceId location = device_invalid, preferred = device_invalid;
  ask(range_last_prefetch_location, &location, sizeof location);
  ask(range_preferred_location, &preferred, sizeof preferred);
  found.location = where(location), found.preferred = where(preferred);
  std::vector<DeviceId> by(size_t(count) + 1, device_invalid);  // the CPU may be in it
  ask(range_accessed_by, by.data(), by.size() * sizeof by[0]);
  for (const DeviceId id : by)
    if (where(id) >= 0) found.accessed_by.push_back(where(id));
  std::sort(found.accessed_by.begin(), found.accessed_by.end());
  return found;
}

Ref<Memory> CudaDevice::do_allocate_host(size_t bytes) {
  driver.sweep();
  using Lent = StagingMemory<CudaMemory>;
  return Lent::lend(staging_, bytes, [&](size_t room, uint8_t* at) {
    return std::make_shared<Lent>(staging_, room, *this, at, bytes, true, DevicePtr(at),
                                  HostKind::registered);
  });
}

uint8_t* CudaDevice::allocate_staging(size_t room) {
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  void* at = nullptr;
  Status got = status::success;
  const auto allocate = [&] {
    got = driver.call.mem_host_alloc(&at, room, unsigned(host_alloc_portable));
    return got != status::out_of_memory;
  };
  reclaim(driver.retired, allocate, [&] { staging_.trim(); });
  if (got != status::success) driver.refuse(driver.call.mem_host_alloc.name, got);
  return static_cast<uint8_t*>(at);
}

Ref<Memory> CudaDevice::do_register_host(void* address, size_t bytes, bool pin) {
  auto* at = static_cast<uint8_t*>(address);
  const auto lent = [&](std::function<void()> let_go, DevicePtr on_device, HostKind kind) {
    return std::make_shared<LentMemory<CudaMemory>>(driver.retired, std::move(let_go), *this, at,
                                                    bytes, true, on_device, kind);
  };
  if (!pin || bytes == 0) return lent(nullptr, DevicePtr(at), HostKind::pageable);
  driver.sweep();
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  const auto& pin_pages = driver.call.mem_host_register;
  const unsigned flags = host_register_portable | host_register_devicemap;
  if (const Status got = pin_pages(address, bytes, flags); got != status::success)
    driver.refuse(pin_pages.name, got);
  DevicePtr on_device = 0;
  if (const Status got = driver.call.mem_host_get_device_pointer(&on_device, address, 0u);
      got != status::success) {
    driver.call.mem_host_unregister(address);
    driver.refuse(driver.call.mem_host_get_device_pointer.name, got);
  }
  keep_from_children(address, bytes, true);
  const auto unpin = [this, address, bytes] {
    give_back(driver.call.mem_host_unregister, address);
    keep_from_children(address, bytes, false);
  };
  try {
    return lent(unpin, on_device, HostKind::registered);
  } catch (const std::bad_alloc&) {
    unpin();
    throw;
  }
}

void CudaDevice::reach(CudaDevice& peer) {
  std::lock_guard guard(load_lock_);
  if (peers_.count(peer.id)) return;
  int can = 0;
  driver.check(driver.call.device_can_access_peer, &can, id, peer.id);
  peers_.insert(peer.id);
  if (!can) return;  // the driver copies through host memory
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  const Status got = driver.call.context_enable_peer_access(peer.context, 0u);
  if (got == status::success || got == status::peer_access_already_enabled) return;
  peers_.erase(peer.id);
  driver.refuse(driver.call.context_enable_peer_access.name, got);
}

}  // namespace hotslot::cuda
