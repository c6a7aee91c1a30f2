// Helpers that all addons share: arguments, functions, classes and errors. When JavaScript links an
// addon, it passes a function that creates errors. So an error has the right class, its code and
// the caller's stack.
#pragma once
#include <napi.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <variant>
#include <vector>

#include "device/core/api.h"
#include "device/core/error.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot {

using Info = const Napi::CallbackInfo&;

// An addon's data for one JavaScript environment (one thread). It is freed with the environment.
struct Environment {
  virtual ~Environment() = default;
  Napi::FunctionReference factory;
  const hotslot_api* api = nullptr;
};

inline Environment& environment(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

// ---- refusals -----------------------------------------------------------------------------------

[[noreturn]] inline void throw_js(Napi::Env env, const hotslot_error& error) {
  const Environment* const here = env.GetInstanceData<Environment>();
  if (!here || here->factory.IsEmpty()) throw Napi::Error::New(env, error.text);
  Napi::Object detail = Napi::Object::New(env);
  detail.Set("family", error.family);
  detail.Set("call", error.call);
  detail.Set("status", error.status);
  detail.Set("statusName", error.status_name);
  detail.Set("advice", error.advice);
  Napi::Value made = here->factory.Call(
      {Napi::String::New(env, error.code), Napi::String::New(env, error.text), detail});
  throw Napi::Error(env, made);
}

[[noreturn]] inline void throw_js(Napi::Env env, const Error& error) { throw_js(env, view(error)); }

// Throws the thread's last error of the core if `result` is negative. Otherwise returns `result`.
inline int checked(Napi::Env env, int result) {
  if (result < 0) throw_js(env, *environment(env).api->last_error());
  return result;
}

// Runs the body `f` of a function that JavaScript called, and turns each C++ exception into a
// JavaScript error. `what` is the name of the function.
template <class F>
napi_value enter(napi_env env, const char* what, F&& f) noexcept {
  try {
    try {
      return f();
    } catch (const Error& error) {
      throw_js(env, error);
    } catch (const std::bad_alloc&) {
      throw_js(env, out_of_memory("out of memory in ", what));
    } catch (const std::length_error&) {
      throw_js(env, out_of_memory("more was asked for than there can be, in ", what));
    } catch (const std::system_error& error) {
      throw_js(env, unavailable("the system refused ", what, ": ", error.what()));
    }
  } catch (const Napi::Error& error) {
    error.ThrowAsJavaScriptException();
  } catch (...) {
    // Memory is too short even for the error text.
    napi_throw_error(env, "ERR_HOTSLOT_MEMORY", "out of memory");
  }
  return nullptr;
}

// ---- functions and classes ----------------------------------------------------------------------

// A function that an addon exports. `call` may return any of the listed types. An Exported must
// have static storage, because the JavaScript function refers to it.
struct Exported {
  const char* name;
  std::variant<Napi::Value (*)(Info), void (*)(Info), double (*)(Info), bool (*)(Info),
               std::string (*)(Info)>
      call;
};

// Returns the result of `call` as a JavaScript value.
template <class F>
napi_value value_of(napi_env env, F&& call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return nullptr;
  } else {
    return Napi::Value::From(env, call());
  }
}

inline void check(napi_env env, napi_status status) {
  if (status != napi_ok) throw Napi::Error::New(env);
}

inline napi_value call_exported(napi_env env, napi_callback_info raw) {
  void* data = nullptr;
  if (napi_get_cb_info(env, raw, nullptr, nullptr, nullptr, &data) != napi_ok) return nullptr;
  const auto& called = *static_cast<const Exported*>(data);
  return enter(env, called.name, [&]() -> napi_value {
    const Napi::CallbackInfo info(env, raw);
    return std::visit([&](auto* call) { return value_of(env, [&] { return call(info); }); },
                      called.call);
  });
}

inline void add_function(Napi::Env env, Napi::Object exports, const Exported& exported) {
  napi_value made = nullptr;
  check(env, napi_create_function(env, exported.name, NAPI_AUTO_LENGTH, call_exported,
                                  const_cast<Exported*>(&exported), &made));
  check(env, napi_set_named_property(env, exports, exported.name, made));
}
template <size_t N>
void add_functions(Napi::Env env, Napi::Object exports, const Exported (&all)[N]) {
  for (const Exported& each : all) add_function(env, exports, each);
}

// Adds an object for the functions of one subject as exports[subject].
inline Napi::Object add_group(Napi::Env env, Napi::Object exports, const char* subject) {
  Napi::Object group = Napi::Object::New(env);
  exports.Set(subject, group);
  return group;
}

// Returns a JavaScript object of named values: numbers, text and flags.
template <class... V>
Napi::Object object(Napi::Env env, const std::pair<const char*, V>&... values) {
  Napi::Object made = Napi::Object::New(env);
  (made.Set(values.first, values.second), ...);
  return made;
}

// A number that JavaScript reads when it loads the addon. add_numbers() exports the numbers as
// exports[subject].
struct NamedNumber {
  const char* name;
  double value;
  template <class T>
  constexpr NamedNumber(const char* name, T value) : name(name), value(double(value)) {}
};
inline void add_numbers(Napi::Env env, Napi::Object exports, const char* subject,
                        std::initializer_list<NamedNumber> all) {
  Napi::Object numbers = add_group(env, exports, subject);
  for (const NamedNumber& each : all) numbers.Set(each.name, each.value);
}

// A method of a JavaScript class whose instances own a T. `new` passes its arguments to T's
// constructor.
struct Method {
  const char* name;
  napi_callback call;
};

template <class T>
napi_value construct(napi_env env, napi_callback_info raw) {
  return enter(env, T::name, [&]() -> napi_value {
    const Napi::CallbackInfo info(env, raw);
    auto made = std::make_unique<T>(info);
    const auto gone = [](napi_env, void* object, void*) { delete static_cast<T*>(object); };
    check(env, napi_wrap(env, info.This(), made.get(), gone, nullptr, nullptr));
    made.release();
    return info.This();
  });
}

// Returns the T that belongs to a JavaScript object. Throws if the object was closed.
template <class T>
T& object_of(napi_env env, const Napi::Value& self) {
  void* object = nullptr;
  const napi_status status = napi_unwrap(env, self, &object);
  if (status == napi_invalid_arg) throw_js(env, closed(T::called));
  check(env, status);
  return *static_cast<T*>(object);
}

// Implements the method `close`, which deletes the T at once. Without it, a finalizer would delete
// the T in the thread's event loop, which an actor's thread does not run. Later calls of `close` do
// nothing.
template <class T>
napi_value close_object(napi_env env, napi_callback_info raw) {
  return enter(env, "close", [&]() -> napi_value {
    const Napi::CallbackInfo info(env, raw);
    void* object = nullptr;
    const napi_status status = napi_remove_wrap(env, info.This(), &object);
    if (status == napi_invalid_arg) return nullptr;
    check(env, status);
    delete static_cast<T*>(object);
    return nullptr;
  });
}

template <class T, auto M>
napi_value call_method(napi_env env, napi_callback_info raw) {
  void* data = nullptr;
  if (napi_get_cb_info(env, raw, nullptr, nullptr, nullptr, &data) != napi_ok) return nullptr;
  return enter(env, static_cast<const char*>(data), [&]() -> napi_value {
    const Napi::CallbackInfo info(env, raw);
    T& object = object_of<T>(env, info.This());
    return value_of(env, [&] { return (object.*M)(info); });
  });
}

// Exports the class T as exports[T::name].
template <class T>
void add_class(Napi::Env env, Napi::Object exports, std::initializer_list<Method> methods) {
  std::vector<napi_property_descriptor> all;
  for (auto& [name, call] : methods)
    all.push_back({name, nullptr, call, nullptr, nullptr, nullptr, napi_default_method,
                   const_cast<char*>(name)});
  napi_value made = nullptr;
  check(env, napi_define_class(env, T::name, NAPI_AUTO_LENGTH, construct<T>, nullptr, all.size(),
                               all.data(), &made));
  check(env, napi_set_named_property(env, exports, T::name, made));
}

// Defines the addon's entry point, which calls `init(env, exports)`.
#define HOTSLOT_ADDON(init)                                                     \
  NAPI_MODULE_INIT() {                                                          \
    return ::hotslot::enter(env, "the addon's beginning", [&]() -> napi_value { \
      init(Napi::Env(env), Napi::Object(env, exports));                         \
      return exports;                                                           \
    });                                                                         \
  }

// Returns the table of functions that the addon `lender` passed to JavaScript, and JavaScript
// passed here as argument `i`. Throws if the two addons are of different builds.
template <class Table>
const Table* lent(Info info, size_t i, uint32_t version, const char* lender) {
  const auto* table = info[i].IsExternal() ? info[i].As<Napi::External<Table>>().Data() : nullptr;
  if (table == nullptr || table->version != version || table->bytes != sizeof(Table))
    throw_js(info.Env(),
             wrong_addon("this addon and ", lender,
                         " are of different builds: build both again (npm run build:native)"));
  return table;
}

// link(factory, cores?, core?): stores the function that creates errors, and the tables of other
// addons. system.node lends `cores`, and device.node lends `core`. JavaScript (src/base/addon.ts)
// calls it once per thread, right after it loads the addon.
inline void link(Info info) {
  Environment& here = environment(info.Env());
  here.factory = Napi::Persistent(info[0].As<Napi::Function>());
  if (info.Length() > 1) IdleCores::use(lent<CoresTable>(info, 1, cores_version, "system.node"));
  if (info.Length() > 2) here.api = lent<hotslot_api>(info, 2, HOTSLOT_API_VERSION, "device.node");
}

// Creates the addon's environment of this thread, and exports `link`.
template <class Made = Environment>
void make_linkable(Napi::Env env, Napi::Object exports) {
  std::unique_ptr<Environment> made = std::make_unique<Made>();
  env.SetInstanceData<Environment>(made.get());
  made.release();
  static constexpr Exported linked{"link", link};
  add_function(env, exports, linked);
}

// ---- arguments ----------------------------------------------------------------------------------

inline double number(const Napi::Value& value) { return value.As<Napi::Number>().DoubleValue(); }
inline uint64_t whole(const Napi::Value& value) {
  return uint64_t(value.As<Napi::Number>().Int64Value());
}
inline double number(Info info, size_t i) { return number(info[i]); }
inline uint64_t whole(Info info, size_t i) { return whole(info[i]); }

// The bytes of a typed array over any kind of buffer. They are empty if element_bytes() does not
// know the element type, which a newer Node may have added.
//
// The code never requests the array's buffer object, because Node-API of Node 20 does not know
// SharedArrayBuffer.
struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
};
inline size_t element_bytes(int type) {
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
    case napi_float64_array:
    case napi_bigint64_array:
    case napi_biguint64_array:
      return 8;
    default:
      return 0;
  }
}
// Returns the bytes of a typed array, or empty bytes for any other value.
inline Bytes bytes_if_any(napi_env env, napi_value value) {
  auto type = napi_typedarray_type(-1);
  size_t length;
  void* data;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok)
    return {};
  const size_t bytes = element_bytes(int(type));
  if (bytes == 0) return {};
  return {static_cast<uint8_t*>(data), length * bytes};
}
inline Bytes bytes_of(const Napi::Value& value, const char* name) {
  if (!value.IsTypedArray()) throw_js(value.Env(), argument(name, " must be a typed array"));
  return bytes_if_any(value.Env(), value);
}

inline Bytes require_bytes(Info info, size_t at, uint64_t least) {
  const Bytes bytes = bytes_if_any(info.Env(), info[at]);
  if (bytes.size < least || (bytes.data == nullptr && least > 0))
    throw range("native call: argument ", at, " has ", bytes.size, " bytes, needs ", least);
  return bytes;
}

inline uint32_t u32(Info info, size_t at) { return info[at].As<Napi::Number>().Uint32Value(); }

// Writes results to the float64 array that JavaScript passed as argument `at`.
inline void give(Info info, size_t at, std::initializer_list<double> results) {
  std::copy(results.begin(), results.end(),
            reinterpret_cast<double*>(require_bytes(info, at, 8 * results.size()).data));
}

// ---- handles of addons that have no classes -----------------------------------------------------

// A value, and the view that keeps the value's memory alive.
template <typename T>
struct Held {
  T value;
  Napi::Reference<Napi::Value> view;
};

template <typename T>
Napi::Value hold(Info info, size_t view_at, T value) {
  auto held = std::make_unique<Held<T>>(
      Held<T>{std::move(value), Napi::Reference<Napi::Value>::New(info[view_at], 1)});
  const auto gone = [](napi_env, void* data, void*) { delete static_cast<Held<T>*>(data); };
  napi_value made = nullptr;
  check(info.Env(), napi_create_external(info.Env(), held.get(), gone, nullptr, &made));
  held.release();
  return {info.Env(), made};
}

template <typename T>
T& held(Info info, size_t at) {
  if (!info[at].IsExternal()) throw argument("native call: argument ", at, " is not a handle");
  return info[at].As<Napi::External<Held<T>>>().Data()->value;
}

}  // namespace hotslot
