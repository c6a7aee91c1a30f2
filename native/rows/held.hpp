// What handles of rows.node point at, and how its functions get at their arguments.
#pragma once
#include <napi.h>

#include "device/addon/napi.hpp"
#include "rows/finite.hpp"

namespace hotslot::rows {

inline Bytes require_bytes(Info info, size_t at, uint64_t least) {
  const Bytes bytes = bytes_if_any(info.Env(), info[at]);
  if (bytes.size < least || (bytes.data == nullptr && least > 0))
    throw_js(info.Env(), range("rows addon: argument ", at, " has ", bytes.size, " bytes, needs ", least));
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
  if (!info[at].IsExternal()) throw_js(info.Env(), argument("rows addon: argument ", at, " is no handle"));
  return info[at].As<Napi::External<Held<T>>>().Data()->value;
}

// Element `at` of a JavaScript array, as bytes.
inline Bytes element(napi_env env, napi_value array, size_t at) {
  napi_value view;
  if (napi_get_element(env, array, static_cast<uint32_t>(at), &view) != napi_ok) return {};
  return bytes_if_any(env, view);
}

// From a table's [bytes of an element, kind of floats, role].
inline FieldKind kind_of(napi_env env, const uint32_t* table) {
  const FieldKind kind{uint8_t(table[0]), FloatKind(table[1]), Role(table[2])};
  constexpr uint8_t items[] = {0, 2, 2, 4, 8};
  const bool known = table[0] >= 1 && table[0] <= 8 && table[1] <= 4 && table[2] <= uint32_t(Role::discounts);
  if (!known || (table[1] > 0 && table[0] != items[table[1]])) throw_js(env, range("rows addon: no such field"));
  return kind;
}

// Functions of limiters and mailboxes.
void export_cores(Napi::Env env, Napi::Object exports);
void export_words(Napi::Env env, Napi::Object exports);
// Of trajectories.
void export_lanes(Napi::Env env, Napi::Object exports);
void export_views(Napi::Env env, Napi::Object exports);
// Of what is kept on a disk.
void export_kept(Napi::Env env, Napi::Object exports);
// Of child processes.
void export_child(Napi::Env env, Napi::Object exports);

}  // namespace hotslot::rows
