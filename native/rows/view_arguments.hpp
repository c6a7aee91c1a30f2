// Converts a view's rule and columns from the arrays of numbers that JavaScript passes
// (src/store/views/columns.ts).
#pragma once
#include <algorithm>
#include <vector>

#include "rows/view.hpp"

namespace hotslot::rows {

constexpr size_t rule_numbers = 8, column_numbers = 8;

inline ViewRule rule_of(const double* n) {
  ViewRule rule;
  rule.edges = static_cast<ViewRule::Edges>(n[0]);
  rule.n = static_cast<uint32_t>(n[1]);
  rule.gamma = n[2];
  rule.length = static_cast<uint32_t>(n[3]);
  rule.burn_in = static_cast<uint32_t>(n[4]);
  rule.frames = static_cast<uint32_t>(n[5]);
  rule.relabel = static_cast<ViewRule::Relabel>(n[6]);
  rule.ratio = n[7];
  return rule;
}

inline std::vector<Column> columns_of(const double* numbers, size_t count) {
  std::vector<Column> columns;
  for (const double* n = numbers; n < numbers + count * column_numbers; n += column_numbers) {
    Column column;
    column.kind = static_cast<Column::Kind>(n[0]);
    column.offset = static_cast<uint32_t>(n[1]);
    column.bytes = static_cast<uint32_t>(n[2]);
    column.frames = static_cast<uint32_t>(n[3]);
    column.zero = n[4] != 0;
    column.observation = n[5] != 0;
    column.goal = static_cast<uint32_t>(n[6]);
    column.at = static_cast<uint64_t>(n[7]);
    columns.push_back(column);
  }
  return columns;
}

// Returns whether n is an integer in [least, most].
inline bool is_count(double n, double least, double most) {
  return n >= least && n <= most && n == double(uint64_t(n));
}

// Returns whether these lanes can have a view with this rule. Checks the numbers before they are
// narrowed. A rule that needs more places than a lane has is invalid (checkFits() in
// src/store/views/views.ts throws the error text).
inline bool sound_rule(const double* n, const Lanes& lanes) {
  const auto most = double(lanes.per_lane);
  if (!is_count(n[0], 0, 3) || !is_count(n[6], 0, 3) || !(n[2] >= 0 && n[2] <= 1) || !(n[7] >= 0))
    return false;
  if (!is_count(n[1], 1, most) || !is_count(n[3], 1, most) || !is_count(n[4], 0, most) ||
      !is_count(n[5], 1, most))
    return false;
  return std::max(n[1], n[3] + n[4]) + n[5] <= most;
}

// Returns whether the columns are valid. Every field that is read must lie within a place.
inline bool sound_columns(const double* numbers, size_t count, double frames, const Lanes& lanes) {
  constexpr double word = 4294967295, exact = 9007199254740992;
  for (const double* n = numbers; n < numbers + count * column_numbers; n += column_numbers) {
    if (!is_count(n[0], 0, Column::goals) || !is_count(n[7], 0, exact)) return false;
    if (!is_count(n[1], 0, word) || !is_count(n[2], 0, word) || !is_count(n[3], 0, word) ||
        !is_count(n[6], 0, word))
      return false;
    if (n[0] > Column::achieved) continue;
    if (n[2] < 1 || n[3] < 1 || n[3] > frames || n[1] + n[2] > lanes.place_bytes) return false;
    if (n[6] != 0 && n[6] - 1 + n[2] > lanes.place_bytes) return false;
  }
  return true;
}

}  // namespace hotslot::rows
