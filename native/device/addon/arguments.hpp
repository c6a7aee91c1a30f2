// Converts arguments of device.node's functions to the core's objects. Also declares the functions
// with which each file of this folder adds its exports.
#pragma once
#include <initializer_list>
#include <utility>

#include "device/addon/environment.hpp"
#include "device/addon/napi.hpp"
#include "device/core/capture.hpp"

namespace hotslot {

inline HandleTable& handles() { return Core::instance().handles; }

// Returns the handles that belong to the calling thread's JavaScript environment.
inline EnvironmentHandles& own(Info info) {
  return static_cast<EnvironmentHandles&>(environment(info.Env()));
}

inline Pinned<Device> device(Info info, size_t i) {
  return {number(info, i), Kind::device, "device"};
}
inline Pinned<Stream> stream(Info info, size_t i) {
  return {number(info, i), Kind::stream, "stream"};
}
inline Pinned<Event> event(Info info, size_t i) { return {number(info, i), Kind::event, "event"}; }
inline Pinned<Memory> memory(double handle) { return {handle, Kind::memory, "tensor"}; }

// Returns the time for which a call may sleep, in ns. Argument `i` has this time in milliseconds.
// The returned time is at most 10 s, and 0 if the argument is not a positive number.
inline uint64_t patience_ns(Info info, size_t i) {
  const double ms = info[i].IsNumber() ? info[i].As<Napi::Number>().DoubleValue() : 0;
  return ms > 0 ? uint64_t(std::min(ms, 10'000.0) * 1e6) : 0;
}

inline Span span(double handle, uint64_t offset, uint64_t bytes) {
  auto held = memory(handle);
  if (offset > held->bytes || bytes > held->bytes - offset)
    throw range(bytes, " bytes at ", offset, " end beyond a memory of ", held->bytes);
  return {held.ref(), offset, bytes};
}

// The layout of a tensor in memory. `step` is the distance between rows in bytes. `run` is the
// number of contiguous bytes from the beginning of a row. `type` is the element type.
struct Rows {
  // Values of `step`. dense: the tensor is contiguous, so it fits any row length. none: the
  // distances between the tensor's rows differ.
  static constexpr int64_t dense = -1, none = -2;
  int64_t step = dense;
  uint64_t run = UINT64_MAX;
  const ElementType* type = nullptr;
};

// Throws unless every tensor of the launch has at least the bytes that the kernel touches with the
// launch's numbers. A tensor must also begin at a multiple of its element's bytes.
//
// With `rows`, which has an entry for each tensor, the element type and row distance of each tensor
// must also match the launch's numbers.
void check_launch(const Launch& call, const Rows* rows = nullptr);

// Each of these functions is in a file of its own.
void add_stream_functions(Napi::Env env, Napi::Object exports);
void add_graph_functions(Napi::Env env, Napi::Object exports);
void add_memory_functions(Napi::Env env, Napi::Object exports);
void add_shared_functions(Napi::Env env, Napi::Object exports);
void add_halo_functions(Napi::Env env, Napi::Object exports);
void add_kernel_functions(Napi::Env env, Napi::Object exports);

}  // namespace hotslot
