// What the pages of the core's face to JavaScript share: arguments, pins, refusals.
#pragma once
#include <napi.h>

#include <cstring>

#include "device/capture.hpp"
#include "device/lender.hpp"
#include "device/throw.hpp"

namespace hotslot {

using Info = const Napi::CallbackInfo&;

inline HandleTable& handles() { return Core::instance().handles; }

// Every exported function runs in here: a core's Error becomes a JavaScript one.
template <class F>
auto guard(Info info, F&& f) -> Napi::Value {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return info.Env().Undefined();
    } else {
      return Napi::Value::From(info.Env(), f());
    }
  } catch (const Error& e) {
    throw_js(info.Env(), hotslot_error{e.code, e.what(), e.family, e.call, e.status_name, e.advice, e.status});
  } catch (const std::bad_alloc&) {
    throw_js(info.Env(), "ERR_HOTSLOT_MEMORY", "out of memory");
  }
}

inline double number(Info info, size_t i) { return info[i].As<Napi::Number>().DoubleValue(); }
inline uint64_t whole(Info info, size_t i) { return uint64_t(info[i].As<Napi::Number>().Int64Value()); }

inline Pinned<Device> device(Info info, size_t i) { return {number(info, i), Kind::device, "device"}; }
inline Pinned<Stream> stream(Info info, size_t i) { return {number(info, i), Kind::stream, "stream"}; }
inline Pinned<Event> event(Info info, size_t i) { return {number(info, i), Kind::event, "event"}; }
inline Pinned<Memory> memory(double handle) { return {handle, Kind::memory, "tensor"}; }

inline Span span(double handle, uint64_t offset, uint64_t bytes) {
  auto held = memory(handle);
  if (offset > held->bytes || bytes > held->bytes - offset)
    throw Error("ERR_HOTSLOT_RANGE", std::to_string(bytes) + " bytes at " + std::to_string(offset) + " end beyond a memory of " + std::to_string(held->bytes));
  return {held.ref(), offset, bytes};
}

inline Lender& lender(Napi::Env env) { return static_cast<Lender&>(instance(env)); }

// Throws unless every tensor of the launch is as large as its numbers ask for, and begins where an element may.
void check_launch(const Launch& call);

// The parts of binding_memory.cpp and binding_halo.cpp.
void add_memory_functions(Napi::Env env, Napi::Object exports);
void add_halo_functions(Napi::Env env, Napi::Object exports);

}  // namespace hotslot
