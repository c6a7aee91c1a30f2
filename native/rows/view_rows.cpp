// Makes the rows of a view's batches. Writes their bytes, or the indices at which a device finds
// the bytes.
#include <algorithm>

#include "rows/view.hpp"

namespace hotslot::rows {
namespace {

// Number of bytes in the rows of one block. Each block checks Lanes-4 once, and the clock is read
// only between blocks.
constexpr uint64_t block_bytes = uint64_t{1} << 19;
// Number of rows whose notes are prefetched ahead of their use.
constexpr uint64_t notes_ahead = 24;

}  // namespace

// Makes the rows [from, to), with streaming stores if `stream` is true. If writers overtook some of
// the rows, lists these in block.lost and returns false.
bool View::make_rows(Block& block, uint64_t from, uint64_t to, bool stream) const {
  block.from = from, block.to = to;
  for (uint64_t i = from; i < std::min(from + notes_ahead, to); ++i) fetch_notes(rows_[i]);
  for (uint64_t i = from; i < to; ++i) {
    if (i + notes_ahead < to) fetch_notes(rows_[i + notes_ahead]);
    look(rows_[i], i, block.extents[i - from], block.notes);
  }
  if (mirror_ != nullptr) return find_rows(block);
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
  // Lanes-4: a row is lost if one of its places may have been overwritten.
  block.lost.clear();
  for (uint64_t i = from; i < to; ++i)
    if (lowest_kept(lanes_, rows_[i].lane) > block.extent(i).lowest) block.lost.push_back(i);
  return block.lost.empty();
}

// Does the work of make_rows() if a device keeps the places. Writes the indices at which the device
// finds the bytes of fields.
bool View::find_rows(Block& block) const {
  for (const Column& column : columns_)
    if (column.kind > Column::achieved) write_column(column, block);
  // Mirror-2: looks up only rows whose notes are whole.
  for (uint64_t i = block.from; i < block.to; ++i)
    if (lowest_kept(lanes_, rows_[i].lane) <= block.extent(i).lowest) find_row(i, block.extent(i));
  // Lanes-4, for the places that find_row() copied.
  block.lost.clear();
  for (uint64_t i = block.from; i < block.to; ++i)
    if (lowest_kept(lanes_, rows_[i].lane) > block.extent(i).lowest) block.lost.push_back(i);
  return block.lost.empty();
}

void View::find_row(uint64_t i, const Extent& extent) const {
  const Row& row = rows_[i];
  uint64_t listed = ~uint64_t{0};
  for (const Column& column : columns_) {
    if (column.kind == Column::goals) {
      const uint64_t goal = goal_of(i);
      put(column, i, 1, 0, goal == 0 ? Mirror::own : mirror_->find(index(row, goal), goal));
    }
    // Columns that are copied from the same places have the same offset, and share one list of
    // indices.
    if (column.kind > Column::achieved || column.at == listed) continue;
    listed = column.at;
    uint64_t next = 0;
    each_place(column, row, extent, [&](uint64_t place, bool padded) {
      put(column, i, places_of(column), next++,
          padded ? Mirror::nowhere : mirror_->find(index(row, place), place));
    });
  }
}

// ---- copying ------------------------------------------------------------------------------------

// Returns the number of places in one row of a column.
uint64_t View::places_of(const Column& column) const {
  if (column.kind == Column::achieved) return rule_.n;
  if (column.kind > Column::achieved) return 0;
  const bool window = rule_.edges != ViewRule::transitions;
  return column.frames * (window ? rule_.window() + (column.observation ? 1 : 0) : 1);
}

uint64_t View::batch_bytes(uint64_t count) const {
  uint64_t end = 0, rows = 0, its = 0;
  for (const Column& column : columns_) {
    if (__builtin_mul_overflow(count, row_bytes(column), &rows) ||
        __builtin_add_overflow(column.at, rows, &its))
      return UINT64_MAX;
    end = std::max(end, its);
  }
  return end;
}

uint64_t View::row_bytes(const Column& column) const {
  const uint64_t each = rule_.edges == ViewRule::transitions ? 1 : rule_.window();
  switch (column.kind) {
    case Column::now:
    case Column::next:
    case Column::achieved:
      return places_of(column) * (mirror_ == nullptr ? column.bytes : sizeof(uint32_t));
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
  // A block of short rows is a multiple of 64 rows, so that blocks meet at cache lines of the
  // output.
  return bytes < 8192 ? (rows + 63) / 64 * 64 : rows;
}

// Returns the index of a place of the row's lane in the memory of all lanes. A valid place is less
// than per_lane places from the row's own place. The remainders keep the index in the lane if torn
// notes give another place.
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
void View::each_place(const Column& column, const Row& row, const Extent& extent,
                      Each&& each) const {
  if (column.kind == Column::achieved) {
    for (uint32_t j = 0; j < rule_.n; ++j)
      each(row.place + (j < extent.steps ? j + 1 : 0), j >= extent.steps);
    return;
  }
  const auto frames = [&](uint64_t place, bool padded) {
    for (uint64_t back = column.frames; back-- > 0;) {
      const bool early = place - extent.start < back;
      each(padded  ? row.place
           : early ? extent.start
                   : place - back,
           padded || (early && column.zero));
    }
  };
  if (rule_.edges == ViewRule::transitions)
    return frames(row.place + (column.kind == Column::next ? extent.steps : 0), false);
  const uint64_t there = extent.steps + (column.observation ? 1 : 0),
                 slots = places_of(column) / column.frames;
  for (uint64_t s = 0; s < slots; ++s) {
    const uint64_t r = s - extent.before;
    frames(extent.first + (r < there ? r : 0), r >= there);
  }
}

void View::list_places(const Column& column, Block& block) const {
  uint32_t* next = block.indices.data();
  for (uint64_t i = block.from; i < block.to; ++i) {
    const Row& row = rows_[i];
    each_place(column, row, block.extent(i),
               [&](uint64_t place, bool) { *next++ = index(row, place); });
  }
}

// Copies a column from the places in block.indices.
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

// Sets padded places to zero, and writes the new goals of relabeled rows.
void View::mend_column(const Column& column, const Block& block) const {
  const bool padded_may_be =
      column.kind == Column::achieved || rule_.edges != ViewRule::transitions || column.zero;
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
