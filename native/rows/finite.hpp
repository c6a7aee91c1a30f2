// Numbers that must be finite. A NaN in a loss makes every weight NaN, so rows are checked before
// they are accepted. A field's role decides whether a non-finite value is rejected, stored as 0, or
// kept.
//
// One exception: the next observation of a row that terminated. Learners never bootstrap from it,
// and environments give NaN there. It is stored as 0, because 0 · NaN is NaN.
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

// Whether all values in these `bytes` are finite.
bool all_finite(const uint8_t* values, uint64_t bytes, FloatKind kind);
// Returns the number of the first element that is not finite. Call it only if there is one.
uint64_t first_non_finite(const uint8_t* values, uint64_t bytes, const FieldKind& kind);

// Whether a flag or a discount is other than 0. −0 counts as 0.
inline bool is_set(const uint8_t* value, const FieldKind& kind) {
  uint64_t bits = 0;
  std::memcpy(&bits, value, kind.item);  // little endian, as everything here
  if (kind.floats != FloatKind::none) bits &= ~(uint64_t{1} << (kind.item * 8 - 1));
  return bits != 0;
}

// A value that was rejected.
struct RefusedValue {
  uint64_t row, field, element;
};

}  // namespace hotslot::rows
