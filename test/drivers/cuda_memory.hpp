// Implements CUDA's calls on top of the CPU device, for both vendors, and more strictly than a
// GPU. Every function runs under the driver's lock. It throws `Refusal`, or the CPU device's
// `Error`, if it rejects the call. This file has the current device of the thread, the calls that a
// capture bars, and memory.
#pragma once
#include <time.h>

#include <algorithm>

#include "cuda_waits.hpp"

namespace hotslot::software::op {

using namespace hotslot::cuda;

// ---- the calling thread and its device ----------------------------------------------------------

inline Device& device_at(int index) {
  demand(index >= 0 && size_t(index) < driver().devices.size(), status::invalid_device);
  return *driver().devices[size_t(index)];
}

// Calls `f`. If the stream has failed, throws its status under the vendor's number.
template <class F>
auto asking(const Ref<Fault>& fault, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.status != status::launch_failed || !fault) throw;
    seen(fault->clock);  // whoever gets the error knows that the stream has stopped
    throw Refusal{fault->status.load()};
  }
}

// Throws if a kernel has failed on the device and failing kernels make their context unusable.
inline void refuse_poisoned(Device& device) {
  if (!driver().card.kernels_lose_contexts) return;
  for (auto& weak : device.streams) {
    const Ref<Stream> stream = weak.lock();
    if (device.poisoned || !stream || stream->capturing()) continue;
    try {
      stream->host->query();
    } catch (const Error&) {
      device.poisoned = stream->fault->status.load();
    }
  }
  demand(!device.poisoned, device.poisoned);
}

inline Device& current() {
#ifdef HOTSLOT_SOFTWARE_HIP
  demand(!driver().devices.empty(), status::invalid_device);
  Device* device = thread_state().current ? thread_state().current : driver().devices[0].get();
#else
  Device* device = thread_state().current;
  demand(device && device->retained > 0, status::invalid_context);
#endif
  refuse_poisoned(*device);
  return *device;
}

inline Device& device_of(Context context) {
  for (auto& device : driver().devices)
    if (reinterpret_cast<Context>(device.get()) == context && device->retained > 0) return *device;
  throw Refusal{status::invalid_context};
}

inline const Ref<Stream>& stream_of(StreamHandle handle) {
  current();
  if (!handle)
    desk().complaints.say("a call on stream 0, which other work of the process would wait for");
  keep_until("a copy of pageable memory on the same stream", [handle] {
    const uint64_t held_by = driver().streams.get(handle)->held_by;
    return held_by == 0 || held_by == thread_state().id;
  });
  const Ref<Stream>& stream = driver().streams.get(handle);
  refuse_poisoned(stream->owner);
  return stream;
}

inline Event& event_of(EventHandle handle) {
  current();
  Event& event = *driver().events.get(handle);
  refuse_poisoned(event.owner);
  return event;
}

// ---- captures: who is barred --------------------------------------------------------------------

// Breaks the capture. On the CPU device, a query of a capturing stream does that.
inline void invalidate(Capture& capture) {
  try {
    capture.origin->host->query();
  } catch (const Error&) {}
}

// Runs before every call that a capture may forbid. Throws if this thread captures, or if any
// thread captures in global mode.
inline void unsafe(bool ignores_mode = false) {
  const ThreadState& thread = thread_state();
  bool barred = false;
  for (auto& capture : driver().captures) {
    const bool own = capture->thread == thread_state().id;
    const bool bars =
        own ? capture->mode != capture_relaxed && thread.mode != capture_relaxed
            : capture->mode == capture_global && (thread.mode == capture_global || ignores_mode);
    if (!bars) continue;
    barred = true;
    invalidate(*capture);
  }
  demand(!barred, status::capture_unsupported);
}

inline void close_capture(const Ref<Capture>& capture) {
  auto& open = driver().captures;
  capture->ended = true;
  open.erase(std::remove(open.begin(), open.end(), capture), open.end());
  capture->origin.reset();
}

// ---- memory -------------------------------------------------------------------------------------

inline Ref<Range> range_around(uintptr_t at) {
  auto above = driver().ranges.upper_bound(at);
  if (above == driver().ranges.begin()) return nullptr;
  const Ref<Range>& below = std::prev(above)->second;
  return at < below->end() ? below : nullptr;
}

// Returns the first known range that shares a byte with [at, at + bytes), or null.
inline Ref<Range> range_within(uintptr_t at, size_t bytes) {
  if (Ref<Range> around = range_around(at)) return around;
  auto above = driver().ranges.lower_bound(at);
  return above != driver().ranges.end() && above->first - at < bytes ? above->second : nullptr;
}

inline bool foreign(const Range& range, const Device& device) {
  return range.kind == Range::registered && !(range.flags & host_register_portable) &&
         &range.owner != &device;
}

// Returns the range that contains one side of a copy, or null for pageable memory. Throws if the
// copy is only partly in a range.
inline Ref<Range> locate(uintptr_t at, size_t bytes, const Device& device) {
  demand(at != 0 && bytes <= UINTPTR_MAX - at, status::invalid_value);
  Ref<Range> range = range_within(at, bytes);
  if (!range || foreign(*range, device)) return nullptr;
  demand(range->begin <= at && bytes <= range->end() - at, status::invalid_value);
  return range;
}

inline bool done(Flight& flight) {
  try {
    return flight.done->query();
  } catch (const Error&) {
    return true;  // the stream failed and has stopped
  }
}

// Returns whether unfinished work refers to the range.
inline bool in_use(Range& range) {
  for (auto& stream : range.users())
    if (!idle(*stream)) return true;
  driver().flights.remove_if(done);
  for (auto& flight : driver().flights)
    for (auto& touched : flight.contents->ranges)
      if (touched.get() == &range) return true;
  return false;
}

inline void forget(const Ref<Range>& range, const char* call) {
  if (in_use(*range))
    desk().complaints.say(std::string(call) + " of memory that queued work still uses");
  if (Detector::on()) detector().gone(range->begin, range->bytes, call);
  if (driver().frees_wait) drain(range->owner);
  range->live.store(false);
  driver().ranges.erase(range->begin);
}

inline uint64_t capacity(Device& device) {
  return driver().memory ? driver().memory : device.host->memory_info().total;
}

inline Status mem_get_info(size_t* free, size_t* total) {
  Device& device = current();
  demand(free && total, status::invalid_value);
  *total = capacity(device);
  // Device memory is taken in pieces of 2 MiB if the device has a multiple of that.
  constexpr uint64_t piece = 2 << 20;
  const uint64_t memory = driver().memory,
                 taken = memory % piece ? device.used : (device.used + piece - 1) / piece * piece;
  *free = memory ? memory - std::min(memory, taken) : device.host->memory_info().free;
  return 0;
}

// Allocates managed memory within larger blocks, one after another. Neighbors share pages, and
// advice about a page applies to all of them. A new block belongs to no device, and `reached_by`
// has the devices that may access it.
inline uintptr_t packed(Device& device, size_t bytes, Ref<Memory>& memory) {
  constexpr size_t piece = 2 << 20;
  const size_t grain = driver().card.managed_grain;
  Packing& packing = device.packing;
  const size_t room = (bytes + grain - 1) / grain * grain;
  if (!packing.memory || packing.memory->bytes - packing.used < room) {
    packing = {device.host->allocate_managed(std::max(room, piece)), 0};
    device.host->advise({packing.memory, 0, packing.memory->bytes}, Advice::preferred_location,
                        nowhere);
  }
  memory = packing.memory;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory->address) + packing.used;
  packing.used += room;
  return begin;
}

inline Ref<Range> own_memory(Device& device, Range::Kind kind, size_t bytes, unsigned flags,
                             bool managed = false) {
  unsafe();
  demand(bytes > 0, status::invalid_value);
  if (kind == Range::device)
    demand(!driver().memory || bytes <= driver().memory - device.used, status::out_of_memory);
  hotslot::Device& host = *device.host;
  Ref<Memory> memory;
  uintptr_t begin = 0;
  if (managed)
    begin = packed(device, bytes, memory);
  else
    memory = kind == Range::device ? host.allocate(bytes) : host.allocate_host(bytes);
  if (!managed) begin = reinterpret_cast<uintptr_t>(memory->address);
  auto range = std::make_shared<Range>(kind, device, begin, bytes, flags, std::move(memory));
  driver().ranges[begin] = range;
  if (kind == Range::device) device.used += bytes;
  return range;
}

inline Status mem_alloc(DevicePtr* out, size_t bytes) {
  Device& device = current();
  demand(out, status::invalid_value);
  if (driver().allocations_wait) drain(device);
  *out = own_memory(device, Range::device, bytes, 0)->begin;
  return 0;
}

inline Status mem_free(DevicePtr at) {
  current();
  unsafe();
  if (at == 0) return 0;
  const Ref<Range> range = range_around(at);
  demand(range && range->kind == Range::device && range->begin == at, status::invalid_value);
  refuse_poisoned(range->owner);
  forget(range, "a free");
  range->owner.used -= range->bytes;
  return 0;
}

inline Status mem_host_alloc(void** out, size_t bytes, unsigned flags) {
  Device& device = current();
  demand(out && flags <= 7, status::invalid_value);
  if (driver().allocations_wait) drain(device);
  pass(driver().card.host_alloc_us_per_mib * (bytes >> 20), "the pinning of host memory");
  *out = reinterpret_cast<void*>(own_memory(device, Range::host, bytes, flags)->begin);
  return 0;
}

inline Status mem_free_host(void* at) {
  current();
  unsafe();
  const Ref<Range> range = range_around(uintptr_t(at));
  demand(range && range->kind == Range::host && range->begin == uintptr_t(at),
         status::invalid_value);
  forget(range, "a free of host memory");
  return 0;
}

inline Status mem_host_register(void* at, size_t bytes, unsigned flags) {
  Device& device = current();
  unsafe();
  demand(at && bytes > 0 && bytes <= UINTPTR_MAX - uintptr_t(at) && flags <= 15,
         status::invalid_value);
  demand(!driver().refuse_register, status::not_supported);
  if (const Ref<Range> other = range_within(uintptr_t(at), bytes))
    throw Refusal{other->kind == Range::device ? status::invalid_value
                                               : status::already_registered};
  driver().ranges[uintptr_t(at)] =
      std::make_shared<Range>(Range::registered, device, uintptr_t(at), bytes, flags, nullptr);
  return 0;
}

inline Status mem_host_unregister(void* at) {
  current();
  unsafe();
  const Ref<Range> range = range_around(uintptr_t(at));
  demand(range && range->kind == Range::registered, status::not_registered);
  demand(range->begin == uintptr_t(at), status::invalid_value);
  forget(range, "an unregistration");
  return 0;
}

inline Status mem_host_get_device_pointer(DevicePtr* out, void* at, unsigned flags) {
  Device& device = current();
  const Ref<Range> range = range_around(uintptr_t(at));
  demand(out && flags == 0 && range && range->kind != Range::device && !foreign(*range, device),
         status::invalid_value);
  demand(range->kind == Range::host || range->flags & host_register_devicemap,
         status::invalid_value);
  *out = uintptr_t(at);
  return 0;
}

// ---- managed memory -----------------------------------------------------------------------------

inline Status mem_alloc_managed(DevicePtr* out, size_t bytes, unsigned flags) {
  Device& device = current();
  demand(out && (flags == mem_attach_global || flags == 2), status::invalid_value);
  demand(flags == mem_attach_global && driver().managed, status::not_supported);
  *out = own_memory(device, Range::device, bytes, flags, true)->begin;
  return 0;
}

inline Ref<Range> managed_range(DevicePtr at, size_t bytes) {
  demand(bytes > 0, status::invalid_value);
  Ref<Range> range = range_around(at);
  demand(range && range->managed() && bytes <= range->end() - at, status::invalid_value);
  refuse_poisoned(range->owner);
  return range;
}

// Returns the CPU, or a device that may use the pages at any time.
inline int place_of(DeviceId id) {
  if (id == device_cpu) return on_cpu;
  device_at(id);
  demand(driver().concurrent, status::invalid_device);
  return id;
}
inline int place_of(Location location) {
  demand(location.type == location_device || location.type == location_host, status::invalid_value);
  if (location.type == location_device) demand(location.id >= 0, status::invalid_device);
  return location.type == location_host ? on_cpu : place_of(location.id);
}

inline Status advise_at(DevicePtr at, size_t bytes, MemoryAdvice advice, int where) {
  current();
  unsafe();
  demand(advice >= 1 && advice <= 6, status::invalid_value);
  const Ref<Range> range = managed_range(at, bytes);
  demand(advice == advise_preferred_location || (advice == advise_accessed_by && where != on_cpu),
         status::not_supported);
  const bool by = advice == advise_accessed_by;
  if (by) range->reached_by |= 1u << where;
  range->owner.host->advise({range->memory, range->offset(at), bytes},
                            by ? Advice::accessed_by : Advice::preferred_location, where);
  return 0;
}
inline Status mem_advise_v1(DevicePtr at, size_t bytes, MemoryAdvice advice, DeviceId to) {
  return advise_at(at, bytes, advice, place_of(to));
}
inline Status mem_advise(DevicePtr at, size_t bytes, MemoryAdvice advice, Location to) {
  return advise_at(at, bytes, advice, place_of(to));
}

inline Status mem_range_get_attribute(void* out, size_t size, RangeAttribute attribute,
                                      DevicePtr at, size_t bytes) {
  current();
  unsafe();
  const Ref<Range> range = managed_range(at, bytes);
  Residency found = range->owner.host->residency({range->memory, range->offset(at), bytes});
  auto& by = found.accessed_by;
  by.erase(
      std::remove_if(by.begin(), by.end(), [&](int id) { return !(range->reached_by >> id & 1); }),
      by.end());
  const bool list = attribute == range_accessed_by;
  demand(list || attribute == range_preferred_location || attribute == range_last_prefetch_location,
         status::invalid_value);
  demand(out && (list ? size > 0 && size % 4 == 0 : size == 4), status::invalid_value);
  auto* to = static_cast<int*>(out);
  static_assert(on_cpu == device_cpu && nowhere == device_invalid);
  if (!list)
    return *to = attribute == range_preferred_location ? found.preferred : found.location, 0;
  for (size_t i = 0; i < size / 4; ++i) to[i] = i < by.size() ? by[i] : device_invalid;
  return 0;
}

}  // namespace hotslot::software::op
