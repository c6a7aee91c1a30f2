// Reads the notes of a view's rows, and writes the columns that depend only on notes.
#include <algorithm>

#include "rows/view.hpp"

namespace hotslot::rows {

void View::fetch_notes(const Row& row) const {
  const uint8_t* first = lanes_.notes + (row.lane * lanes_.per_lane + row.at) * sizeof(Note);
  __builtin_prefetch(first);
  const uint64_t notes = powers_.size() - 1;
  if (notes > 1) __builtin_prefetch(first + (notes - 1) * sizeof(Note));
}

// Reads a row's notes, sets its extent, and writes the columns of a window that depend only on
// notes. A writer may be overwriting the notes, so look() stays within bounds for any values in
// them.
void View::look(const Row& row, uint64_t i, Extent& extent, std::vector<Note>& notes) const {
  const bool window = rule_.edges != ViewRule::transitions;
  const auto note = [&](uint64_t place) {
    Note read;
    from_shared(reinterpret_cast<uint8_t*>(&read), lanes_.notes + index(row, place) * sizeof(Note),
                sizeof(Note));
    return read;
  };
  const Note own = note(row.place);
  extent.start = row.place - std::min<uint64_t>(own.step, row.place);
  extent.first = row.place;
  if (rule_.edges == ViewRule::anchor) {
    extent.first = std::max(extent.start, row.place - std::min<uint64_t>(rule_.burn_in, row.place));
    // Keeps `first` at or before the row's place, and in the snapshot. A note that is being
    // overwritten may have any values. The row may also have been drawn before the last
    // look_around().
    extent.first = std::min(row.place, std::max(extent.first, drawable_.seen(row.lane).from));
  }
  extent.before = rule_.edges == ViewRule::anchor
                      ? rule_.burn_in - static_cast<uint32_t>(row.place - extent.first)
                      : 0;
  const uint32_t most = window ? static_cast<uint32_t>(rule_.window()) - extent.before : rule_.n;
  extent.steps = 0;
  while (extent.steps < most) {
    const uint64_t place = extent.first + extent.steps;
    notes[extent.steps] = place == row.place ? own : note(place);
    const Note& read = notes[extent.steps++];
    if (read.terminated | read.truncated) break;
  }
  const uint64_t frames = rule_.frames - 1;
  extent.lowest = std::max(extent.start, extent.first - std::min(frames, extent.first));
  if (const uint64_t goal = goal_of(i)) extent.lowest = std::min(extent.lowest, goal);
  if (window) {
    write_window(notes.data(), extent, i);
  } else {
    sum_up(notes.data(), extent);
  }
}

// Computes reward, terminated and truncated of a transition from its notes.
void View::sum_up(const Note* notes, Extent& extent) const {
  extent.reward = notes[0].reward;
  for (uint32_t j = 1; j < extent.steps; ++j) extent.reward += powers_[j] * notes[j].reward;
  const Note& last = notes[extent.steps - 1];
  extent.terminated = last.terminated;
  extent.truncated = last.truncated;
}

// Writes the values that come from the notes for each step of a window, and zeros for padding.
void View::write_window(const Note* notes, const Extent& extent, uint64_t i) const {
  const uint64_t length = rule_.window();
  for (const Column& column : columns_) {
    const auto each = [&](auto value_of) {
      for (uint64_t s = 0; s < length; ++s) {
        const uint64_t r = s - extent.before;
        put(column, i, length, s,
            r < extent.steps ? value_of(notes[r], s) : decltype(value_of(notes[0], s)){});
      }
    };
    if (column.kind == Column::rewards)
      each([](const Note& note, uint64_t) { return note.reward; });
    if (column.kind == Column::terminated)
      each([](const Note& note, uint64_t) { return note.terminated; });
    if (column.kind == Column::truncated)
      each([](const Note& note, uint64_t) { return note.truncated; });
    if (column.kind == Column::mask) each([](const Note&, uint64_t) { return 1.0f; });
    if (column.kind == Column::learn)
      each([&](const Note&, uint64_t s) { return s < rule_.burn_in ? 0.0f : 1.0f; });
  }
}

// Writes a column with one value per row.
void View::write_column(const Column& column, const Block& block) const {
  const auto each = [&](auto value_of) {
    for (uint64_t i = block.from; i < block.to; ++i)
      put(column, i, 1, 0, value_of(i, block.extent(i)));
  };
  const bool window = rule_.edges != ViewRule::transitions;
  switch (column.kind) {
    case Column::rewards:
      if (!window) each([](uint64_t, const Extent& extent) { return extent.reward; });
      break;
    case Column::discounts:
      each([&](uint64_t, const Extent& extent) {
        return extent.terminated ? 0.0f : powers_[extent.steps];
      });
      break;
    case Column::terminated:
      if (!window) each([](uint64_t, const Extent& extent) { return extent.terminated; });
      break;
    case Column::truncated:
      if (!window) each([](uint64_t, const Extent& extent) { return extent.truncated; });
      break;
    case Column::steps:
      each([](uint64_t, const Extent& extent) { return static_cast<int32_t>(extent.steps); });
      break;
    case Column::ids:
      each([&](uint64_t i, const Extent&) {
        return static_cast<double>(rows_[i].place * lanes_.lanes + rows_[i].lane);
      });
      break;
    case Column::relabelled:
      each([&](uint64_t i, const Extent&) { return static_cast<uint8_t>(goal_of(i) != 0); });
      break;
    case Column::priorities:
      each([](uint64_t, const Extent&) { return PriorityTree::unwritten; });
      break;
    default:
      break;
  }
}

}  // namespace hotslot::rows
