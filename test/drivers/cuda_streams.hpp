// Calls on streams and events, copies, fills and prefetches.
#pragma once
#include "cuda_memory.hpp"

namespace hotslot::software::op {

// ---- streams and events -------------------------------------------------------------------------

#ifdef HOTSLOT_SOFTWARE_HIP
constexpr int least_priority = 1, greatest_priority = -1;
#else
constexpr int least_priority = 0, greatest_priority = -5;
#endif

inline Status stream_priority_range(int* least, int* greatest) {
  current();
  if (least) *least = least_priority;
  if (greatest) *greatest = greatest_priority;
  return 0;
}

inline Status stream_create(StreamHandle* out, unsigned flags, int priority) {
  Device& device = current();
  demand(out && flags <= stream_non_blocking, status::invalid_value);
  const int clamped = std::max(greatest_priority, std::min(least_priority, priority));
  auto stream = std::make_shared<Stream>(
      Stream{device, device.host->create_stream(clamped), clamped, nullptr});
  auto& known = device.streams;
  known.erase(std::remove_if(known.begin(), known.end(), [](auto& weak) { return weak.expired(); }),
              known.end());
  stream->queue = next_queue(device);
  static uint64_t numbers = 0;
  stream->number = ++numbers;
  known.push_back(stream);
  *out = driver().streams.add(std::move(stream));
  return 0;
}

inline Status stream_destroy(StreamHandle handle) {
  stream_of(handle);
  const Ref<Stream> stream = driver().streams.take(handle);
  Capture* capture = stream->capturing();
  if (!capture || capture->origin != stream) return 0;
  // Destroying the stream ends its capture, and the streams that joined the capture leave it.
  try {
    driver().relay.run([&] { stream->host->end_capture(); });
  } catch (const Error&) {}
  close_capture(stream->capture);
  return 0;
}

inline Status stream_query(StreamHandle handle) {
  const Ref<Stream> stream = stream_of(handle);
  unsafe();
  const auto ask = [&] { return asking(stream->fault, [&] { return stream->host->query(); }); };
  return looks(stream->clock(), ask) ? 0 : status::not_ready;
}

// Blocks until all work of the stream is done. With `why`, the call also blocks other threads'
// calls on the stream meanwhile.
inline void drain(const Ref<Stream>& stream, const char* why = nullptr) {
  if (why) {
    stream->held_by = thread_state().id;
    keep_until(why, [&] { return idle(*stream); });
    stream->held_by = 0;
    asking(stream->fault, [&] { stream->host->query(); });
    return;
  }
  const Ref<hotslot::Device> device = stream->owner.host;
  const Ref<hotslot::Event> event = device->create_event(false);
  asking(stream->fault, [&] {
    stream->host->record(event, false);
    const Unlocked others;
    while (!device->wait_event(*event, 1'000'000'000)) continue;
  });
}

inline Status stream_synchronize(StreamHandle handle) {
  const Ref<Stream> stream = stream_of(handle);
  unsafe();
  if (stream->capturing()) return stream->host->query(), status::capture_unsupported;
  looks(Clock(stream->clock()), [&] { return drain(stream), true; });
  return 0;
}

inline Status event_create(EventHandle* out, unsigned flags) {
  Device& device = current();
  // Events that are shared with other processes must not have timing.
  demand(out && flags <= 7 && ((flags & 4) == 0 || flags & event_disable_timing),
         status::invalid_value);
  const bool timing = (flags & event_disable_timing) == 0;
  *out = driver().events.add(std::make_shared<Event>(
      Event{device, device.host->create_event(timing), timing, false, false, nullptr, nullptr}));
  return 0;
}

inline Status event_destroy(EventHandle handle) {
  event_of(handle);
  driver().events.take(handle);
  return 0;
}

inline Status event_record_with_flags(EventHandle handle, StreamHandle on, unsigned flags) {
  const Ref<Stream> stream = stream_of(on);
  Event& event = event_of(handle);
  demand(flags <= event_record_external, status::invalid_value);
  demand(&event.owner == &stream->owner, status::invalid_handle);
  Capture* capture = stream->capturing();
  if (flags == event_record_external) {
    demand(capture, status::invalid_value);
    asking(stream->fault, [&] { stream->host->record(event.host, true); });
    Contents::Node node{'e', 0};
    node.event = driver().events.get(handle);
    add_node(*stream, std::move(node), {});
    event.capture.reset();
    event.recorded = event.in_graph = true;
    return 0;
  }
  take_place(stream, Engine::compute);
  asking(stream->fault, [&] { stream->host->record(event.host, false); });
  event.in_graph = false;
  event.capture = stream->capture;
  event.last_nodes = stream->last_nodes;
  if (!capture) event.clock = stream->clock();
  event.recorded = capture == nullptr;
  event.fault = stream->fault;
  return 0;
}

inline Status event_record(EventHandle event, StreamHandle stream) {
  return event_record_with_flags(event, stream, 0);
}

inline Status event_query(EventHandle handle) {
  Event& event = event_of(handle);
  // Until ROCm 7.2.1, captures of other threads barred hipEventQuery regardless of the thread's own
  // mode.
#ifdef HOTSLOT_SOFTWARE_HIP
  unsafe(HOTSLOT_SOFTWARE_HIP < 7);
#else
  unsafe();
#endif
  const bool done =
      looks(event.clock, [&] { return asking(event.fault, [&] { return event.host->query(); }); });
  return done || (event.in_graph && driver().late_graph_events) ? 0 : status::not_ready;
}

inline Status event_synchronize(EventHandle handle) {
  event_of(handle);
  const Ref<Event> event = driver().events.get(handle);
  unsafe();
  const auto wait = [&] {
    if (event->host->query()) return true;
    const Unlocked others;
    while (!event->owner.host->wait_event(*event->host, 1'000'000'000)) continue;
    return true;
  };
  looks(Clock(event->clock), [&] { return asking(event->fault, wait); });
  return 0;
}

inline Status event_elapsed_time(float* out, EventHandle from, EventHandle to) {
  Event &start = event_of(from), &end = event_of(to);
  unsafe();
  demand(out, status::invalid_value);
  demand(start.timing && end.timing && &start.owner == &end.owner, status::invalid_handle);
  demand((start.recorded || start.capture) && (end.recorded || end.capture),
         status::invalid_handle);
  *out = float(asking(end.fault, [&] { return end.host->elapsed_ms(*start.host); }));
  seen(start.clock), seen(end.clock);
  return 0;
}

inline Status stream_wait_event(StreamHandle on, EventHandle handle, unsigned flags) {
  const Ref<Stream> stream = stream_of(on);
  Event& event = event_of(handle);
  demand(flags <= 1, status::invalid_value);
  demand(flags == 0, status::not_supported);  // a wait that becomes a node of a graph
  if (event.in_graph && driver().late_graph_events) return 0;
  const bool joins = event.capture && !event.capture->ended && !stream->capturing();
  if (joins)
    mark_before(*stream);
  else
    take_place(stream, Engine::compute);
  asking(stream->fault, [&] { stream->host->wait(event.host); });
  if (joins) stream->capture = event.capture, stream->last_nodes = event.last_nodes;
  if (!stream->capturing())
    stream->clock().join(event.clock);
  else if (!joins)
    stream->last_nodes.insert(stream->last_nodes.end(), event.last_nodes.begin(),
                              event.last_nodes.end());
  return 0;
}

// ---- copies and fills ---------------------------------------------------------------------------

inline Ref<Memory> view(const Ref<Stream>& stream, uintptr_t at, size_t bytes,
                        const Ref<Range>& range) {
  return std::make_shared<View>(*stream->owner.host, range ? range->seen(at) : at, bytes, range,
                                stream->capturing() ? nullptr : stream);
}

inline int memory_kind(const Ref<Range>& range) {
  return range ? range->kind == Range::device ? 2 : 1 : 0;
}

// Enqueues a copy, which reads and writes pinned memory when it runs. The caller may reuse pageable
// memory after the call. The call therefore reads pageable memory at once, and a copy to pageable
// memory is done when the call returns. A graph's copy reads and writes pageable memory at each
// replay.
inline Status copy(const Ref<Stream>& stream, uintptr_t to, const Ref<Range>& to_range,
                   uintptr_t from, const Ref<Range>& from_range, size_t bytes) {
  if (bytes == 0) return 0;
  const bool capturing = stream->capturing();
  take_place(stream, Engine::copy);
  driver().pageable_copies += !capturing && (!from_range || !to_range);
  // A larger copy goes through the driver's staging memory, after all earlier work of the stream.
  if (!from_range && !capturing && bytes > driver().card.snapshot_bytes)
    drain(stream, "a copy out of pageable memory");
  const Span target{view(stream, to, bytes, to_range), 0, bytes};
  const Span source{
      from_range || capturing
          ? view(stream, from, bytes, from_range)
          : std::make_shared<Snapshot>(*stream->owner.host, reinterpret_cast<void*>(from), bytes),
      0, bytes};
  asking(stream->fault, [&] { stream->host->copy(target, source); });
  Contents::Node node{'m', memory_kind(to_range) * 3 + memory_kind(from_range), "a copy"};
  // The detector ignores pageable memory, because no driver tracks that memory.
  if (to_range) node.touches.push_back({to, bytes, true});
  if (from_range) node.touches.push_back({from, bytes, false});
  add_node(*stream, std::move(node), {to_range, from_range});
  if (!to_range && !capturing)
    looks(Clock(stream->clock()),
          [&] { return drain(stream, "a copy into pageable memory"), true; });
  return 0;
}

// Returns the range of device memory, or of host memory at its device address. Throws if the
// address is unknown.
inline Ref<Range> on_device(DevicePtr at, size_t bytes, Device& device) {
  Ref<Range> range = locate(at, bytes, device);
  demand(range != nullptr, status::invalid_value);
  return range;
}

inline void same_device(const Range& range, const Stream& stream) {
  demand(range.kind != Range::device || range.managed() || &range.owner == &stream.owner,
         status::invalid_handle);
}

// Bytes of all requested copies between host and device, including those in captures.
inline std::atomic<uint64_t> bytes_to_device{0}, bytes_to_host{0};

inline Status memcpy_htod_async(DevicePtr to, const void* from, size_t bytes, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  if (bytes == 0) return 0;
  const Ref<Range> target = on_device(to, bytes, stream->owner),
                   source = locate(uintptr_t(from), bytes, stream->owner);
  demand(!source || source->kind != Range::device, status::invalid_value);
  same_device(*target, *stream);
  bytes_to_device += bytes;
  return copy(stream, to, target, uintptr_t(from), source, bytes);
}

inline Status memcpy_dtoh_async(void* to, DevicePtr from, size_t bytes, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  if (bytes == 0) return 0;
  const Ref<Range> target = locate(uintptr_t(to), bytes, stream->owner),
                   source = on_device(from, bytes, stream->owner);
  demand(!target || target->kind != Range::device, status::invalid_value);
  same_device(*source, *stream);
  bytes_to_host += bytes;
  return copy(stream, uintptr_t(to), target, from, source, bytes);
}

inline Status memcpy_dtod_async(DevicePtr to, DevicePtr from, size_t bytes, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  if (bytes == 0) return 0;
  const Ref<Range> target = on_device(to, bytes, stream->owner),
                   source = on_device(from, bytes, stream->owner);
  same_device(*target, *stream);
  same_device(*source, *stream);
  return copy(stream, to, target, from, source, bytes);
}

inline Status memcpy_async(DevicePtr to, DevicePtr from, size_t bytes, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  if (bytes == 0) return 0;
  return copy(stream, to, locate(to, bytes, stream->owner), from,
              locate(from, bytes, stream->owner), bytes);
}

inline Status copy_between(Device& to_device, DevicePtr to, Device& from_device, DevicePtr from,
                           size_t bytes, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  demand(&stream->owner == &to_device || &stream->owner == &from_device, status::invalid_handle);
  if (bytes == 0) return 0;
  const Ref<Range> target = on_device(to, bytes, to_device),
                   source = on_device(from, bytes, from_device);
  demand(&target->owner == &to_device && &source->owner == &from_device, status::invalid_value);
  return copy(stream, to, target, from, source, bytes);
}

inline Status memcpy_peer_async(DevicePtr to, Context to_context, DevicePtr from,
                                Context from_context, size_t bytes, StreamHandle on) {
  return copy_between(device_of(to_context), to, device_of(from_context), from, bytes, on);
}

inline Status fill(DevicePtr to, const void* pattern, size_t width, size_t count, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  demand(to % width == 0 && count <= SIZE_MAX / width, status::invalid_value);
  if (count == 0) return 0;
  if (Device& device = stream->owner;
      driver().fills_load && device.loaded.insert("fill " + std::to_string(width)).second)
    load(device, "a kernel that fills");
  take_place(stream, Engine::compute);
  const size_t bytes = count * width;
  const Ref<Range> target = on_device(to, bytes, stream->owner);
  same_device(*target, *stream);
  asking(stream->fault, [&] {
    stream->host->fill({view(stream, to, bytes, target), 0, bytes}, pattern, width);
  });
  add_node(*stream, {'s', memory_kind(target), "a fill", {{to, bytes, true}}}, {target});
  return 0;
}
inline Status memset_d8_async(DevicePtr to, unsigned char value, size_t count, StreamHandle on) {
  return fill(to, &value, 1, count, on);
}
inline Status memset_d16_async(DevicePtr to, unsigned short value, size_t count, StreamHandle on) {
  return fill(to, &value, 2, count, on);
}
inline Status memset_d32_async(DevicePtr to, unsigned value, size_t count, StreamHandle on) {
  return fill(to, &value, 4, count, on);
}

inline Status prefetch_to(DevicePtr at, size_t bytes, int where, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  demand(driver().concurrent, status::invalid_device);
  const Ref<Range> range = managed_range(at, bytes);
  // The CPU device moves the whole memory. The view only counts this work as a use of the range.
  const Ref<Memory> used = view(stream, at, bytes, range);
  take_place(stream, Engine::copy);
  // If the stream is idle, the pages move before the call returns.
  const bool at_once = driver().prefetches_wait && !stream->capturing() && idle(*stream);
  asking(stream->fault, [&] {
    stream->host->prefetch({Ref<Memory>(used, range->memory.get()), range->offset(at), bytes},
                           where);
  });
  if (at_once) keep_until("the move of pages", [&] { return idle(*stream); });
  return 0;
}
inline Status mem_prefetch_v1(DevicePtr at, size_t bytes, DeviceId to, StreamHandle on) {
  return prefetch_to(at, bytes, place_of(to), on);
}
inline Status mem_prefetch(DevicePtr at, size_t bytes, Location to, unsigned flags,
                           StreamHandle on) {
  demand(flags == 0, status::invalid_value);
  return prefetch_to(at, bytes, place_of(to), on);
}

}  // namespace hotslot::software::op
