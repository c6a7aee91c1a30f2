// Helpers for the bindings of rows.node, which convert the arguments that describe fields. Also
// declares the functions with which the binding files add their exports.
#pragma once
#include <napi.h>

#include "device/addon/napi.hpp"
#include "rows/finite.hpp"

namespace hotslot::rows {

// Returns the bytes of the typed array at index `at` of a JavaScript array. Returns empty bytes if
// the element is not a typed array.
inline Bytes element(napi_env env, napi_value array, size_t at) {
  napi_value view;
  if (napi_get_element(env, array, static_cast<uint32_t>(at), &view) != napi_ok) return {};
  return bytes_if_any(env, view);
}

// Number of float64 values that store a LaneState: one each for `from`, `to` and `steps`, and two
// for the 16 bytes of `last`.
constexpr size_t lane_numbers = 5;

// Converts three values of a table, [bytes of an element, kind of floats, role], to a FieldKind.
// Throws a RangeError for unknown values.
inline FieldKind kind_of(const uint32_t* table) {
  const FieldKind kind{uint8_t(table[0]), FloatKind(table[1]), Role(table[2])};
  constexpr uint8_t items[] = {0, 2, 2, 4, 8};
  const bool known =
      table[0] >= 1 && table[0] <= 8 && table[1] <= 4 && table[2] <= uint32_t(Role::discounts);
  if (!known || (table[1] > 0 && table[0] != items[table[1]]))
    throw range("rows addon: no such field");
  return kind;
}

// Exports the functions of limiters and mailboxes.
void export_words(Napi::Env env, Napi::Object exports);
// Export the functions of trajectories.
void export_lanes(Napi::Env env, Napi::Object exports);
void export_views(Napi::Env env, Napi::Object exports);
// Exports the offsets in the shared memory of buffers, limiters, mailboxes and trajectories.
void export_layouts(Napi::Env env, Napi::Object exports);
// Exports the functions of checkpoints.
void export_kept(Napi::Env env, Napi::Object exports);

}  // namespace hotslot::rows
