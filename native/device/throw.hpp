// How every addon throws: through a factory that the JavaScript side lends at link time, so that a refusal arrives as the
// right class with its code, and its stack is the caller's.
#pragma once
#include <napi.h>

#include "device/api.h"

namespace hotslot {

// One per environment (thread); freed with it.
struct Instance {
  virtual ~Instance() = default;
  Napi::FunctionReference factory;
  const hotslot_api* api = nullptr;
};

inline Instance& instance(Napi::Env env) { return *env.GetInstanceData<Instance>(); }

[[noreturn]] inline void throw_js(Napi::Env env, const hotslot_error& error) {
  Instance& here = instance(env);
  if (here.factory.IsEmpty()) throw Napi::Error::New(env, error.text);
  Napi::Object detail = Napi::Object::New(env);
  detail.Set("family", error.family);
  detail.Set("call", error.call);
  detail.Set("status", error.status);
  detail.Set("statusName", error.status_name);
  detail.Set("advice", error.advice);
  Napi::Value made = here.factory.Call({Napi::String::New(env, error.code), Napi::String::New(env, error.text), detail});
  throw Napi::Error(env, made);
}

[[noreturn]] inline void throw_js(Napi::Env env, const char* code, const char* text) {
  throw_js(env, hotslot_error{code, text, "", "", "", "", 0});
}

// Turns the core's last refusal into an exception when `result` is negative; gives it back otherwise.
inline int checked(Napi::Env env, int result) {
  if (result < 0) throw_js(env, *instance(env).api->last_error());
  return result;
}

// `link(factory, table?)`: called once per thread by src/addon.ts, right after the addon was loaded.
inline void link(const Napi::CallbackInfo& info) {
  Instance& here = instance(info.Env());
  here.factory = Napi::Persistent(info[0].As<Napi::Function>());
  if (info.Length() < 2) return;
  const auto* table = info[1].As<Napi::External<hotslot_api>>().Data();
  if (table->version != HOTSLOT_API_VERSION || table->bytes != sizeof(hotslot_api))
    throw_js(info.Env(), "ERR_HOTSLOT_ADDON", "this addon and device.node are of different builds: build both again (npm run build:native)");
  here.api = table;
}

// Bytes of a typed array (over any kind of buffer), or an exception naming the argument.
struct Bytes {
  uint8_t* data;
  size_t size;
};
inline size_t element_bytes(napi_typedarray_type type) {
  switch (type) {
    case napi_int8_array:
    case napi_uint8_array:
    case napi_uint8_clamped_array: return 1;
    case napi_int16_array:
    case napi_uint16_array: return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array: return 4;
    default: return 8;
  }
}
inline Bytes bytes_of(const Napi::Value& value, const char* name) {
  napi_typedarray_type type;
  size_t length;
  void* data;
  if (napi_get_typedarray_info(value.Env(), value, &type, &length, &data, nullptr, nullptr) != napi_ok)
    throw_js(value.Env(), "ERR_HOTSLOT_ARGUMENT", (std::string(name) + " must be a typed array").c_str());
  return {static_cast<uint8_t*>(data), length * element_bytes(type)};
}

}  // namespace hotslot
