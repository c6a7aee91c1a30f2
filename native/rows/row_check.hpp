// Checks rows and steps before a buffer accepts them (finite.hpp). add() rejects all rows of a
// call, or stores all of them.
#pragma once
#include <vector>

#include "rows/finite.hpp"
#include "rows/lanes.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {

class RowCheck {
 public:
  explicit RowCheck(std::vector<FieldKind> kinds);

  // Checks `count` rows in the form of add(). Returns false if a value is rejected, and writes the
  // location of the value to `value`.
  //
  // Sets `zero` of each field. It is null, or has a 1 for each row whose next observation add()
  // must store as 0. The array is valid until the next call of look().
  bool look(std::vector<Field>& fields, const uint8_t* mask, uint64_t count, RefusedValue& value);

 private:
  bool is_terminated(const std::vector<Field>& fields, uint64_t row) const;

  std::vector<FieldKind> kinds_;
  // Index of the field of each role from `terminated` on, or −1 if there is none.
  int ends_[4] = {-1, -1, -1, -1};
  std::vector<std::vector<uint8_t>> zeros_;
};

// Checks one step of each of `count` lanes. Returns false if a value is rejected, and describes the
// value in `value`.
//
// `value.row` is the lane. `value.field` is the field's index, plus the number of fields for a
// final observation. For the reward, `value.field` is twice the number of fields.
bool look_at_lanes(const StepsToAdd& steps, uint64_t count, RefusedValue& value);

}  // namespace hotslot::rows
