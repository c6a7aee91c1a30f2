// What every addon's face to JavaScript shares: arguments, and how a refusal is thrown. Errors go through a factory
// that the JavaScript side lends at link time, so that a refusal arrives as the right class with its code, and its
// stack is the caller's.
#pragma once
#include <napi.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "device/core/api.h"
#include "device/core/error.hpp"

namespace hotslot {

using Info = const Napi::CallbackInfo&;

// One per environment (thread) and addon; freed with it.
struct Environment {
  virtual ~Environment() = default;
  Napi::FunctionReference factory;
  const hotslot_api* api = nullptr;
};

inline Environment& environment(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

// ---- refusals -------------------------------------------------------------------------------------------------------

[[noreturn]] inline void throw_js(Napi::Env env, const hotslot_error& error) {
  const Napi::FunctionReference& factory = environment(env).factory;
  if (factory.IsEmpty()) throw Napi::Error::New(env, error.text);
  Napi::Object detail = Napi::Object::New(env);
  detail.Set("family", error.family);
  detail.Set("call", error.call);
  detail.Set("status", error.status);
  detail.Set("statusName", error.status_name);
  detail.Set("advice", error.advice);
  Napi::Value made = factory.Call({Napi::String::New(env, error.code), Napi::String::New(env, error.text), detail});
  throw Napi::Error(env, made);
}

[[noreturn]] inline void throw_js(Napi::Env env, const Error& error) { throw_js(env, view(error)); }

// Turns the core's last refusal into an exception when `result` is negative; gives it back otherwise.
inline int checked(Napi::Env env, int result) {
  if (result < 0) throw_js(env, *environment(env).api->last_error());
  return result;
}

// Exported functions run in here: an Error becomes a JavaScript one.
template <class F>
auto guard(Info info, F&& f) -> Napi::Value {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return info.Env().Undefined();
    } else {
      return Napi::Value::From(info.Env(), f());
    }
  } catch (const Error& error) {
    throw_js(info.Env(), error);
  } catch (const std::bad_alloc&) {
    throw_js(info.Env(), out_of_memory("out of memory"));
  } catch (const std::length_error&) {
    throw_js(info.Env(), out_of_memory("more was asked for than there can be"));
  }
}

// `link(factory, table?)`: called once per thread by src/addon.ts, right after the addon was loaded.
inline void link(Info info) {
  Environment& here = environment(info.Env());
  here.factory = Napi::Persistent(info[0].As<Napi::Function>());
  if (info.Length() < 2) return;
  const auto* table = info[1].As<Napi::External<hotslot_api>>().Data();
  if (table->version != HOTSLOT_API_VERSION || table->bytes != sizeof(hotslot_api))
    throw_js(
        info.Env(),
        wrong_addon("this addon and device.node are of different builds: build both again (npm run build:native)"));
  here.api = table;
}

// The environment that the addon has in this thread, and its `link`.
inline void make_linkable(Napi::Env env, Napi::Object exports, Environment* made = new Environment) {
  env.SetInstanceData<Environment>(made);
  exports.Set("link", Napi::Function::New(env, link, "link"));
}

// ---- arguments ------------------------------------------------------------------------------------------------------

inline double number(const Napi::Value& value) { return value.As<Napi::Number>().DoubleValue(); }
inline uint64_t whole(const Napi::Value& value) { return uint64_t(value.As<Napi::Number>().Int64Value()); }
inline double number(Info info, size_t i) { return number(info[i]); }
inline uint64_t whole(Info info, size_t i) { return whole(info[i]); }

// Bytes of a typed array over any kind of buffer. The buffer itself is never asked for: Node 20 has no way to name a
// SharedArrayBuffer.
struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
};
inline size_t element_bytes(napi_typedarray_type type) {
  switch (type) {
    case napi_int8_array:
    case napi_uint8_array:
    case napi_uint8_clamped_array:
      return 1;
    case napi_int16_array:
    case napi_uint16_array:
      return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array:
      return 4;
    default:
      return 8;
  }
}
// None of anything that is no typed array.
inline Bytes bytes_if_any(napi_env env, napi_value value) {
  napi_typedarray_type type;
  size_t length;
  void* data;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) return {};
  return {static_cast<uint8_t*>(data), length * element_bytes(type)};
}
inline Bytes bytes_of(const Napi::Value& value, const char* name) {
  if (!value.IsTypedArray()) throw_js(value.Env(), argument(name, " must be a typed array"));
  return bytes_if_any(value.Env(), value);
}

}  // namespace hotslot
