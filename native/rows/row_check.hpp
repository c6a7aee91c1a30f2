// The look at rows and steps before a buffer takes them (finite.hpp): the whole add() is refused,
// or all of it is stored.
#pragma once
#include <vector>

#include "rows/finite.hpp"
#include "rows/lanes.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {

class RowCheck {
 public:
  explicit RowCheck(std::vector<FieldKind> kinds);

  // Of `count` rows as add() takes them. Sets `zero` of the fields that store a next observation as
  // 0, valid until the next look. False where `value` says which value is refused.
  bool look(std::vector<Field>& fields, const uint8_t* mask, uint64_t count, RefusedValue& value);

 private:
  bool is_terminated(const std::vector<Field>& fields, uint64_t row) const;

  std::vector<FieldKind> kinds_;
  // Of each role from `terminated` on, its field, or −1.
  int ends_[4] = {-1, -1, -1, -1};
  std::vector<std::vector<uint8_t>> zeros_;
};

// Of a step of each of `count` lanes. False where `value` is refused: `row` is the lane, `field` a
// field's number; that and the count of fields for a final observation; twice the count for the
// reward.
bool look_at_lanes(const StepsToAdd& steps, uint64_t count, RefusedValue& value);

}  // namespace hotslot::rows
