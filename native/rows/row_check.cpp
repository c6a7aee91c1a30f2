// Finds the rows and lanes that have a non-finite value, and decides whether the value is rejected
// or stored as 0.
#include "rows/row_check.hpp"

namespace hotslot::rows {
namespace {

const uint8_t* row_of_field(const Field& field, const uint8_t* mask, uint64_t row) {
  const bool instead = mask != nullptr && mask[row] != 0 && field.instead != nullptr;
  return instead ? field.instead + row * field.bytes : field.from + row * field.stride;
}

bool are_finite(const Field& field, const FieldKind& kind, const uint8_t* mask, uint64_t count) {
  if (field.stride == field.bytes && (mask == nullptr || field.instead == nullptr))
    return all_finite(field.from, count * field.bytes, kind.floats);
  for (uint64_t row = 0; row < count; ++row)
    if (!all_finite(row_of_field(field, mask, row), field.bytes, kind.floats)) return false;
  return true;
}

}  // namespace

RowCheck::RowCheck(std::vector<FieldKind> kinds) : kinds_(std::move(kinds)), zeros_(kinds_.size()) {
  for (size_t f = 0; f < kinds_.size(); ++f)
    if (kinds_[f].role >= Role::terminated)
      ends_[int(kinds_[f].role) - int(Role::terminated)] = int(f);
}

// Returns whether a row terminated, by the fields from which learners decide this. These are
// `discounts` if the rows have it, else `terminated`, else `dones` without `truncated`.
bool RowCheck::is_terminated(const std::vector<Field>& fields, uint64_t row) const {
  const auto set = [&](Role role) {
    const int f = ends_[int(role) - int(Role::terminated)];
    return f >= 0 && is_set(fields[f].from + row * fields[f].stride, kinds_[f]);
  };
  if (ends_[int(Role::discounts) - int(Role::terminated)] >= 0) return !set(Role::discounts);
  if (ends_[0] >= 0) return set(Role::terminated);
  return set(Role::dones) && !set(Role::truncated);
}

bool RowCheck::look(std::vector<Field>& fields, const uint8_t* mask, uint64_t count,
                    RefusedValue& value) {
  for (size_t f = 0; f < fields.size(); ++f) {
    Field& field = fields[f];
    const FieldKind& kind = kinds_[f];
    field.zero = nullptr;
    if (!kind.is_checked() || are_finite(field, kind, mask, count)) continue;
    std::vector<uint8_t>& zero = zeros_[f];
    zero.assign(count, 0);
    for (uint64_t row = 0; row < count; ++row) {
      const uint8_t* at = row_of_field(field, mask, row);
      if (all_finite(at, field.bytes, kind.floats)) continue;
      if (kind.role != Role::next || !is_terminated(fields, row)) {
        value = {row, f, first_non_finite(at, field.bytes, kind)};
        return false;
      }
      zero[row] = 1;
    }
    field.zero = zero.data();
  }
  return true;
}

bool look_at_lanes(const StepsToAdd& steps, uint64_t count, RefusedValue& value) {
  const auto refused = [&](uint64_t lane, size_t field, const uint8_t* from, uint64_t bytes,
                           const FieldKind& kind) {
    value = {lane, field, first_non_finite(from, bytes, kind)};
    return false;
  };
  for (size_t f = 0; f < steps.field_count; ++f) {
    const StepField& field = steps.fields[f];
    if (!field.kind.is_checked()) continue;
    if (!all_finite(field.from, count * field.bytes, field.kind.floats))
      for (uint64_t lane = 0; lane < count; ++lane) {
        const uint8_t* value = field.from + lane * field.bytes;
        if (steps.takes(lane) && !field.is_finite(value))
          return refused(lane, f, value, field.bytes, field.kind);
      }
    if (field.last == nullptr) continue;
    for (uint64_t lane = 0; lane < count; ++lane) {
      const uint8_t* value = field.last + lane * field.bytes;
      const bool is_read = steps.takes(lane) && steps.ends(lane) && steps.terminated[lane] == 0;
      if (is_read && !field.is_finite(value))
        return refused(lane, steps.field_count + f, value, field.bytes, field.kind);
    }
  }
  const auto* rewards = reinterpret_cast<const uint8_t*>(steps.rewards);
  constexpr FieldKind reward{4, FloatKind::float32, Role::value};
  if (all_finite(rewards, count * 4, FloatKind::float32)) return true;
  for (uint64_t lane = 0; lane < count; ++lane)
    if (steps.takes(lane) && !all_finite(rewards + lane * 4, 4, FloatKind::float32))
      return refused(lane, 2 * steps.field_count, rewards + lane * 4, 4, reward);
  return true;
}

}  // namespace hotslot::rows
