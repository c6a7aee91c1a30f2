// Arguments of device.node's functions as the objects of the core that they name, and what its
// files export.
#pragma once
#include <initializer_list>
#include <utility>

#include "device/addon/environment.hpp"
#include "device/addon/napi.hpp"
#include "device/core/capture.hpp"

namespace hotslot {

inline HandleTable& handles() { return Core::instance().handles; }

// What the calling thread's JavaScript made.
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

// How long a call may sleep, out of milliseconds; 0 for what is no time.
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

// How a tensor lies in memory: bytes from row to row, bytes that lie together, as a row does, and
// what they are.
struct Rows {
  // dense: rows may be counted in it as one likes; none: its elements are no rows at one distance.
  static constexpr int64_t dense = -1, none = -2;
  int64_t step = dense;
  uint64_t run = UINT64_MAX;
  const ElementType* type = nullptr;
};

// Throws unless every tensor of the launch is as large as its numbers ask for, begins where an
// element may, and has its rows and elements as the numbers say, as far as that is told.
void check_launch(const Launch& call, const Rows* rows = nullptr);

// One per file.
void add_stream_functions(Napi::Env env, Napi::Object exports);
void add_graph_functions(Napi::Env env, Napi::Object exports);
void add_memory_functions(Napi::Env env, Napi::Object exports);
void add_shared_functions(Napi::Env env, Napi::Object exports);
void add_halo_functions(Napi::Env env, Napi::Object exports);
void add_kernel_functions(Napi::Env env, Napi::Object exports);

}  // namespace hotslot
