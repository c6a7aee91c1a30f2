// Checks that values are finite. A NaN in a loss makes every weight NaN, so a buffer checks rows
// before it accepts them. A field's role decides whether a non-finite value is rejected, stored as
// 0, or kept.
//
// If a row terminated and its next observation is not finite, the buffer stores zeros instead. Some
// environments return NaN there. Learners multiply the value of this observation by 0. If NaN were
// stored, it would still reach the loss, because 0 · NaN is NaN.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hotslot::rows {

enum class FloatKind : uint8_t { none, float16, bfloat16, float32, float64 };

// The role of a field in its row, numbered as in src/store/rows/field-roles.ts.
enum class Role : uint8_t { own, value, next, terminated, dones, truncated, discounts };

struct FieldKind {
  uint8_t item = 1;  // bytes of an element
  FloatKind floats = FloatKind::none;
  Role role = Role::own;

  bool is_checked() const { return role != Role::own && floats != FloatKind::none; }
};

// Returns whether all values in the `bytes` bytes at `values` are finite.
bool all_finite(const uint8_t* values, uint64_t bytes, FloatKind kind);
// Returns the index of the first element that is not finite. Call it only if there is one.
uint64_t first_non_finite(const uint8_t* values, uint64_t bytes, const FieldKind& kind);

// Returns whether a flag or a discount is not 0. −0 counts as 0.
inline bool is_set(const uint8_t* value, const FieldKind& kind) {
  uint64_t bits = 0;
  std::memcpy(&bits, value, kind.item);  // assumes little-endian memory
  if (kind.floats != FloatKind::none) bits &= ~(uint64_t{1} << (kind.item * 8 - 1));
  return bits != 0;
}

// The location of a value that was rejected.
struct RefusedValue {
  uint64_t row, field, element;
};

}  // namespace hotslot::rows
