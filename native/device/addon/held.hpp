// Handles of addons that have no classes: what a handle points at, and how functions get at it and at memory.
#pragma once
#include <napi.h>

#include <memory>
#include <utility>

#include "device/addon/napi.hpp"

namespace hotslot {

inline Bytes require_bytes(Info info, size_t at, uint64_t least) {
  const Bytes bytes = bytes_if_any(info.Env(), info[at]);
  if (bytes.size < least || (bytes.data == nullptr && least > 0))
    throw_js(info.Env(), range("native call: argument ", at, " has ", bytes.size, " bytes, needs ", least));
  return bytes;
}

inline uint32_t u32(Info info, size_t at) { return info[at].As<Napi::Number>().Uint32Value(); }

// With the view that keeps its memory alive.
template <typename T>
struct Held {
  T value;
  Napi::Reference<Napi::Value> view;
};

template <typename T>
Napi::Value hold(Info info, size_t view_at, T value) {
  auto held = std::make_unique<Held<T>>(Held<T>{std::move(value), Napi::Reference<Napi::Value>::New(info[view_at], 1)});
  const auto gone = [](napi_env, void* data, void*) { delete static_cast<Held<T>*>(data); };
  napi_value made = nullptr;
  check(info.Env(), napi_create_external(info.Env(), held.get(), gone, nullptr, &made));
  held.release();
  return {info.Env(), made};
}

template <typename T>
T& held(Info info, size_t at) {
  if (!info[at].IsExternal()) throw_js(info.Env(), argument("native call: argument ", at, " is no handle"));
  return info[at].As<Napi::External<Held<T>>>().Data()->value;
}

}  // namespace hotslot
