// The rows of a view's batches: what their notes say, and their bytes.
#include <algorithm>

#include "rows/view.hpp"

namespace hotslot::rows {
namespace {

// Bytes of a batch that are made between two looks at the clock and at what writers have begun.
constexpr uint64_t block_bytes = uint64_t{1} << 19;
// Notes to fetch ahead of their use.
constexpr uint64_t notes_ahead = 24;

}  // namespace

// False where rows were overtaken: block.lost says which.
bool View::make_rows(Block& block, uint64_t from, uint64_t to, bool stream) const {
  block.from = from, block.to = to;
  for (uint64_t i = from; i < std::min(from + notes_ahead, to); ++i) fetch_notes(rows_[i]);
  for (uint64_t i = from; i < to; ++i) {
    if (i + notes_ahead < to) fetch_notes(rows_[i + notes_ahead]);
    look(rows_[i], i, block.extents[i - from], block.notes);
  }
  const Column* listed = nullptr;
  for (const Column& column : columns_) {
    if (column.kind > Column::achieved) {
      write_column(column, block);
      continue;
    }
    if (listed == nullptr || places_by(column) != places_by(*listed)) list_places(column, block);
    listed = &column;
    copy_column(column, block, stream);
  }
  if (stream) finish_streaming();
  for (const Column& column : columns_)
    if (column.kind <= Column::achieved) mend_column(column, block);
  // L4: something in a row may be newer than its id.
  block.lost.clear();
  for (uint64_t i = from; i < to; ++i)
    if (lowest_kept(lanes_, rows_[i].lane) > block.extent(i).lowest) block.lost.push_back(i);
  return block.lost.empty();
}

void View::fetch_notes(const Row& row) const {
  const uint8_t* first = lanes_.notes + (row.lane * lanes_.per_lane + row.at) * sizeof(Note);
  __builtin_prefetch(first);
  const uint64_t notes = powers_.size() - 1;
  if (notes > 1) __builtin_prefetch(first + (notes - 1) * sizeof(Note));
}

// Reads the notes of a row, and writes what follows from them alone. Bounded whatever it reads: a writer may be at it.
void View::look(const Row& row, uint64_t i, Extent& extent, std::vector<Note>& notes) const {
  const bool window = rule_.edges != ViewRule::transitions;
  const auto note = [&](uint64_t place) {
    Note read;
    from_shared(reinterpret_cast<uint8_t*>(&read), lanes_.notes + index(row, place) * sizeof(Note), sizeof(Note));
    return read;
  };
  const Note own = note(row.place);
  extent.start = row.place - std::min<uint64_t>(own.step, row.place);
  extent.first = row.place;
  if (rule_.edges == ViewRule::anchor) {
    extent.first = std::max(extent.start, row.place - std::min<uint64_t>(rule_.burn_in, row.place));
    // A note that was written over may say anything; so may a row that was drawn before the last look around.
    extent.first = std::min(row.place, std::max(extent.first, drawable_.seen(row.lane).from));
  }
  extent.before = rule_.edges == ViewRule::anchor ? rule_.burn_in - static_cast<uint32_t>(row.place - extent.first) : 0;
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

// What the notes of a transition come to.
void View::sum_up(const Note* notes, Extent& extent) const {
  extent.reward = notes[0].reward;
  for (uint32_t j = 1; j < extent.steps; ++j) extent.reward += powers_[j] * notes[j].reward;
  const Note& last = notes[extent.steps - 1];
  extent.terminated = last.terminated;
  extent.truncated = last.truncated;
}

// What the notes say of each step of a window; zero where it is padded.
void View::write_window(const Note* notes, const Extent& extent, uint64_t i) const {
  const uint64_t length = rule_.window();
  for (const Column& column : columns_) {
    const auto each = [&](auto value_of) {
      for (uint64_t s = 0; s < length; ++s) {
        const uint64_t r = s - extent.before;
        put(column, i, length, s, r < extent.steps ? value_of(notes[r], s) : decltype(value_of(notes[0], s)){});
      }
    };
    if (column.kind == Column::rewards) each([](const Note& note, uint64_t) { return note.reward; });
    if (column.kind == Column::terminated) each([](const Note& note, uint64_t) { return note.terminated; });
    if (column.kind == Column::truncated) each([](const Note& note, uint64_t) { return note.truncated; });
    if (column.kind == Column::mask) each([](const Note&, uint64_t) { return 1.0f; });
    if (column.kind == Column::learn) each([&](const Note&, uint64_t s) { return s < rule_.burn_in ? 0.0f : 1.0f; });
  }
}

// The columns that have one value a row.
void View::write_column(const Column& column, const Block& block) const {
  const auto each = [&](auto value_of) {
    for (uint64_t i = block.from; i < block.to; ++i) put(column, i, 1, 0, value_of(i, block.extent(i)));
  };
  const bool window = rule_.edges != ViewRule::transitions;
  switch (column.kind) {
    case Column::rewards:
      if (!window) each([](uint64_t, const Extent& extent) { return extent.reward; });
      break;
    case Column::discounts:
      each([&](uint64_t, const Extent& extent) { return extent.terminated ? 0.0f : powers_[extent.steps]; });
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

// ---- copying --------------------------------------------------------------------------------------------------------

// Places that a column has in one row.
uint64_t View::places_of(const Column& column) const {
  if (column.kind == Column::achieved) return rule_.n;
  if (column.kind > Column::achieved) return 0;
  const bool window = rule_.edges != ViewRule::transitions;
  return column.frames * (window ? rule_.window() + (column.observation ? 1 : 0) : 1);
}

uint64_t View::batch_bytes(uint64_t count) const {
  uint64_t end = 0;
  for (const Column& column : columns_) end = std::max(end, column.at + count * row_bytes(column));
  return end;
}

uint64_t View::row_bytes(const Column& column) const {
  const uint64_t each = rule_.edges == ViewRule::transitions ? 1 : rule_.window();
  switch (column.kind) {
    case Column::now:
    case Column::next:
    case Column::achieved:
      return places_of(column) * column.bytes;
    case Column::terminated:
    case Column::truncated:
      return each;
    case Column::rewards:
    case Column::mask:
    case Column::learn:
      return each * 4;
    case Column::relabelled:
      return 1;
    case Column::ids:
    case Column::weights_wide:
    case Column::probabilities:
      return 8;
    default:
      return 4;
  }
}

uint64_t View::rows_per_block() const {
  uint64_t bytes = 1;
  for (const Column& column : columns_) bytes += places_of(column) * column.bytes;
  const uint64_t rows = std::max<uint64_t>(1, block_bytes / bytes);
  // Whole lines of the output, where a row is short.
  return bytes < 8192 ? (rows + 63) / 64 * 64 : rows;
}

// Where a place of the row's lane lies; `place` is less than a lap from the row's own.
uint32_t View::index(const Row& row, uint64_t place) const {
  const uint64_t per_lane = lanes_.per_lane;
  uint64_t at;
  if (place >= row.place) {
    at = row.at + (place - row.place);
    if (at >= per_lane) at = (at - per_lane) % per_lane;
  } else {
    const uint64_t back = (row.place - place) % per_lane;
    at = row.at >= back ? row.at - back : row.at + per_lane - back;
  }
  return static_cast<uint32_t>(row.lane * per_lane + at);
}

// Calls each(place, padded) for every place of a column in one row, in order.
template <typename Each>
void View::each_place(const Column& column, const Row& row, const Extent& extent, Each&& each) const {
  if (column.kind == Column::achieved) {
    for (uint32_t j = 0; j < rule_.n; ++j) each(row.place + (j < extent.steps ? j + 1 : 0), j >= extent.steps);
    return;
  }
  const auto frames = [&](uint64_t place, bool padded) {
    for (uint64_t back = column.frames; back-- > 0;) {
      const bool early = place - extent.start < back;
      each(padded ? row.place : early ? extent.start : place - back, padded || (early && column.zero));
    }
  };
  if (rule_.edges == ViewRule::transitions)
    return frames(row.place + (column.kind == Column::next ? extent.steps : 0), false);
  const uint64_t there = extent.steps + (column.observation ? 1 : 0), slots = places_of(column) / column.frames;
  for (uint64_t s = 0; s < slots; ++s) {
    const uint64_t r = s - extent.before;
    frames(extent.first + (r < there ? r : 0), r >= there);
  }
}

void View::list_places(const Column& column, Block& block) const {
  uint32_t* next = block.indices.data();
  for (uint64_t i = block.from; i < block.to; ++i) {
    const Row& row = rows_[i];
    each_place(column, row, block.extent(i), [&](uint64_t place, bool) { *next++ = index(row, place); });
  }
}

// From the places that are listed.
void View::copy_column(const Column& column, const Block& block, bool stream) const {
  const uint64_t per_row = places_of(column);
  const uint64_t count = (block.to - block.from) * per_row;
  const CopyTask task{lanes_.places + column.offset,
                      lanes_.stride,
                      column.bytes,
                      block.indices.data(),
                      0,
                      count,
                      count,
                      request_.out + column.at + block.from * per_row * column.bytes};
  (stream && column.bytes >= 64 ? copy_rows_streaming() : copy_rows_plain())(task);
}

// Zeroes what is padded, and puts new goals in.
void View::mend_column(const Column& column, const Block& block) const {
  const bool padded_may_be = column.kind == Column::achieved || rule_.edges != ViewRule::transitions || column.zero;
  if (column.goal == 0 && !padded_may_be) return;
  const uint64_t per_row = places_of(column);
  for (uint64_t i = block.from; i < block.to; ++i) {
    const Row& row = rows_[i];
    const Extent& extent = block.extent(i);
    uint8_t* at = request_.out + column.at + i * per_row * column.bytes;
    if (column.goal != 0 && goal_of(i) != 0) {
      const uint64_t place = index(row, goal_of(i));
      from_shared(at, lanes_.places + place * lanes_.stride + column.goal - 1, column.bytes);
    } else {
      each_place(column, row, extent, [&](uint64_t, bool padded) {
        if (padded) std::memset(at, 0, column.bytes);
        at += column.bytes;
      });
    }
  }
}

}  // namespace hotslot::rows
