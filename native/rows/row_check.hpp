// The check of rows and steps before a buffer accepts them (finite.hpp): the whole add() is
// rejected, or all of it is stored.
#pragma once
#include <vector>

#include "rows/finite.hpp"
#include "rows/lanes.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {

class RowCheck {
 public:
  explicit RowCheck(std::vector<FieldKind> kinds);

  // Checks `count` rows in the form of add(). Sets `zero` of the fields that store a next
  // observation as 0, valid until the next look. Returns false if a value is rejected, and
  // describes it in `value`.
  bool look(std::vector<Field>& fields, const uint8_t* mask, uint64_t count, RefusedValue& value);

 private:
  bool is_terminated(const std::vector<Field>& fields, uint64_t row) const;

  std::vector<FieldKind> kinds_;
  // The field of each role from `terminated` on, or −1.
  int ends_[4] = {-1, -1, -1, -1};
  std::vector<std::vector<uint8_t>> zeros_;
};

// Checks a step of each of `count` lanes. Returns false if a value is rejected, and describes it in
// `value`. `row` is the lane. `field` is a field's number, plus the count of fields for a final
// observation, or twice the count for the reward.
bool look_at_lanes(const StepsToAdd& steps, uint64_t count, RefusedValue& value);

}  // namespace hotslot::rows
