// A view's rule and columns as JavaScript hands them over: rows of numbers (src/trajectories/columns.ts).
#pragma once
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

// Whether every field that is read lies within a place.
inline bool fit_place(const std::vector<Column>& columns, const Lanes& lanes) {
  for (const Column& column : columns) {
    if (column.kind > Column::achieved) continue;
    const uint64_t goal = column.goal == 0 ? 0 : column.goal - 1;
    if (column.offset + uint64_t{column.bytes} > lanes.place_bytes || goal + column.bytes > lanes.place_bytes)
      return false;
  }
  return true;
}

}  // namespace hotslot::rows
