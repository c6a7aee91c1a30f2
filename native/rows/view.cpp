// Draws a view's steps and makes its batches.
#include "rows/view.hpp"

#include <algorithm>
#include <cmath>

#include "rows/backoff.hpp"
#include "wait/bell.hpp"

namespace hotslot::rows {
namespace {

// Bytes of a batch that are made between two looks at the clock and at what writers have begun.
constexpr uint64_t block_bytes = uint64_t{1} << 19;
// Notes to fetch ahead of their use.
constexpr uint64_t notes_ahead = 24;

}  // namespace

View::View(const Lanes& lanes, const ViewRule& rule, std::vector<Column> columns)
    : lanes_(lanes), rule_(rule), columns_(std::move(columns)), drawable_(lanes, rule) {
  const uint64_t most = rule.edges == ViewRule::transitions ? rule.n : rule.window();
  notes_.resize(most);
  for (uint64_t k = 0; k <= most; ++k) powers_.push_back(static_cast<float>(std::pow(rule.gamma, k)));
}

// ---- drawing --------------------------------------------------------------------------------------------------------

void View::look_around() {
  if (tree_ != nullptr) {
    tree_->follow(drawable_);
  } else {
    drawable_.sync();
  }
}

View::Result View::draw(const Request& request, uint64_t seed) {
  request_ = request;
  next_row_ = drawn_again_ = 0;
  extents_.resize(std::min(rows_per_block(), request.count));
  rows_.resize(request.count);
  if (tree_ != nullptr) chances_.resize(request.count);
  generator_ = Generator(seed);
  for (uint64_t i = 0; i < request.count; ++i)
    if (!draw_row(i)) return Result::empty;
  draw_goals(0, request.count);
  return Result::done;
}

bool View::draw_row(uint64_t i) {
  Row& row = rows_[i];
  if (tree_ == nullptr) {
    const uint64_t count = drawable_.count();
    if (count == 0) return false;
    // As torch's randint: the word's remainder.
    const Drawable::Step step = drawable_.at(generator_.next() % static_cast<uint32_t>(count));
    row = {step.lane, step.place, step.reach, step.rest, 0};
    return true;
  }
  const double total = tree_->total();
  if (!(total > 0)) return false;
  const PriorityTree::Drawn drawn = tree_->find(generator_.next_double() * total);
  const double drawn_from = static_cast<double>(tree_->header().drawn_from);
  chances_[i] = {drawn.value, total, tree_->least(), drawn_from};
  const uint64_t lane = drawn.leaf / lanes_.per_lane, at = drawn.leaf % lanes_.per_lane;
  const uint64_t from = drawable_.seen(lane).from, oldest = from % lanes_.per_lane;
  row = {lane, from + (at >= oldest ? at - oldest : at + lanes_.per_lane - oldest), 0, 0, 0};
  Drawable::Step step;
  if (rule_.relabel != ViewRule::own && drawable_.find(row.lane, row.place, step)) {
    row.reach = step.reach;
    row.rest = step.rest;
  }
  return true;
}

// A word a row for the ratio, then a word a row for the step.
void View::draw_goals(uint64_t from, uint64_t to) {
  if (rule_.relabel == ViewRule::own) return;
  for (uint64_t i = from; i < to; ++i) rows_[i].goal = generator_.next() * 0x1p-32 < rule_.ratio;
  for (uint64_t i = from; i < to; ++i) {
    Row& row = rows_[i];
    const uint64_t word = generator_.next();
    if (row.goal == 0) continue;
    uint64_t achieved_at = row.place + row.rest;
    if (rule_.relabel == ViewRule::future) achieved_at = row.place + word % (row.rest + uint64_t{1});
    if (rule_.relabel == ViewRule::episode)
      achieved_at = row.place - row.reach + word % (row.reach + uint64_t{row.rest} + 1);
    row.goal = achieved_at + 1;
  }
}

uint64_t View::take(const Request& request, const double* ids, const double* goals) {
  request_ = request;
  rows_.resize(request.count);
  look_around();
  for (uint64_t i = 0; i < request.count; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    Drawable::Step step;
    if (!drawable_.find(id % lanes_.lanes, id / lanes_.lanes, step)) return i;
    rows_[i] = {step.lane, step.place, step.reach, step.rest, 0};
    if (goals == nullptr || goals[i] < 0) continue;
    const auto goal = static_cast<uint64_t>(goals[i]);
    const uint64_t place = goal / lanes_.lanes;
    const uint64_t first = step.place - (rule_.relabel == ViewRule::episode ? step.reach : 0);
    if (goal % lanes_.lanes != step.lane || place < first || place > step.place + step.rest) return i;
    rows_[i].goal = place + 1;
  }
  const uint64_t block = rows_per_block();
  extents_.resize(std::min(block, request.count));
  for (uint64_t from = 0; from < request.count; from += block) {
    const uint64_t to = std::min(request.count, from + block);
    block_from_ = from;
    if (make_rows(from, to, false)) continue;
    return kept(from, to);
  }
  return request.count;
}

// ---- making ---------------------------------------------------------------------------------------------------------

View::Result View::gather(uint64_t deadline_ns) {
  const uint64_t block = rows_per_block(), count = request_.count;
  uint64_t bytes = 0;
  for (const Column& column : columns_) bytes += places_of(column) * column.bytes;
  const bool stream = bytes * count >= (uint64_t{1} << 20);
  while (next_row_ < count) {
    const uint64_t to = std::min(count, next_row_ + block);
    block_from_ = next_row_;
    if (!make_rows(next_row_, to, stream)) {
      // A row that was kept when it was looked at is whole for good: the writer goes on meanwhile, and may lap all of
      // them.
      for (uint64_t i = kept(next_row_, to); i < to; i = kept(i + 1, to))
        if (!make_again(i)) return Result::empty;
    }
    next_row_ = to;
    if (deadline_ns != 0 && next_row_ < count && now_ns() >= deadline_ns) return Result::more;
  }
  if (tree_ != nullptr) weigh();
  return Result::done;
}

// Draws a row that was overtaken anew, from what is there now, and makes it, until it was not overtaken.
bool View::make_again(uint64_t i) {
  Backoff wait;
  const auto again = [&] {
    ++drawn_again_;
    look_around();
    if (!draw_row(i)) return -1;
    draw_goals(i, i + 1);
    return make_rows(i, i + 1, false) ? 1 : 0;
  };
  int made = 0;
  while (made == 0 && wait.rounds() < rounds_of_bad_luck) {
    made = again();
    wait.pause();
  }
  if (made != 0) return made > 0;
  const Courtesy courtesy(lanes_);
  while (made == 0) {
    made = again();
    wait.pause();
  }
  return made > 0;
}

// False where a row was overtaken: kept() says which.
bool View::make_rows(uint64_t from, uint64_t to, bool stream) {
  for (uint64_t i = from; i < to; ++i) {
    if (i + notes_ahead < to) {
      const Row& later = rows_[i + notes_ahead];
      __builtin_prefetch(lanes_.notes + (later.lane * lanes_.per_lane + later.place % lanes_.per_lane) * sizeof(Note));
    }
    extents_[i - block_from_] = look(rows_[i], i);
  }
  for (const Column& column : columns_)
    if (column.kind <= Column::achieved) copy_column(column, from, to, stream);
  if (stream) finish_streaming();
  for (const Column& column : columns_)
    if (column.kind <= Column::achieved) mend_column(column, from, to);
  return kept(from, to) == to;
}

// The first row of this block of which something may be newer than its id; `to` where none is.
uint64_t View::kept(uint64_t from, uint64_t to) const {
  for (uint64_t i = from; i < to; ++i)
    if (lowest_kept(lanes_, rows_[i].lane) > extents_[i - block_from_].lowest) return i;
  return to;
}

// Reads the notes of a row, and writes what follows from them alone. Bounded whatever it reads: a writer may be at it.
View::Extent View::look(const Row& row, uint64_t i) {
  const bool window = rule_.edges != ViewRule::transitions;
  Extent extent;
  extent.at = row.place % lanes_.per_lane;
  const auto note = [&](uint64_t place) {
    Note read;
    from_shared(reinterpret_cast<uint8_t*>(&read), lanes_.notes + index(row, extent, place) * sizeof(Note),
                sizeof(Note));
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
    notes_[extent.steps] = place == row.place ? own : note(place);
    const Note& read = notes_[extent.steps++];
    if (read.terminated | read.truncated) break;
  }
  const uint64_t frames = rule_.frames - 1;
  extent.lowest = std::max(extent.start, extent.first - std::min(frames, extent.first));
  if (row.goal != 0) extent.lowest = std::min(extent.lowest, row.goal);
  write_steps(row, extent, i, notes_.data());
  return extent;
}

void View::write_steps(const Row& row, const Extent& extent, uint64_t i, const Note* notes) {
  const bool window = rule_.edges != ViewRule::transitions;
  const uint64_t per_row = window ? rule_.window() : 1;
  const Note& last = notes[extent.steps - 1];
  // Of a window's steps each, zero where it is padded; of a transition what all of them come to.
  const auto each = [&](const Column& column, auto value_of, auto whole) {
    using T = decltype(whole);
    if (!window) return put<T>(column, i, 1, 0, whole);
    for (uint64_t s = 0; s < per_row; ++s) {
      const uint64_t r = s - extent.before;
      put<T>(column, i, per_row, s, r < extent.steps ? value_of(notes[r], s) : T{});
    }
  };
  for (const Column& column : columns_) {
    switch (column.kind) {
      case Column::rewards: {
        float sum = notes[0].reward;
        for (uint32_t j = 1; !window && j < extent.steps; ++j) sum += powers_[j] * notes[j].reward;
        each(
            column, [](const Note& note, uint64_t) { return note.reward; }, sum);
        break;
      }
      case Column::discounts:
        put<float>(column, i, 1, 0, last.terminated ? 0.0f : powers_[extent.steps]);
        break;
      case Column::terminated:
        each(
            column, [](const Note& note, uint64_t) { return note.terminated; }, last.terminated);
        break;
      case Column::truncated:
        each(
            column, [](const Note& note, uint64_t) { return note.truncated; }, last.truncated);
        break;
      case Column::mask:
        each(
            column, [](const Note&, uint64_t) { return 1.0f; }, 1.0f);
        break;
      case Column::learn:
        each(
            column, [&](const Note&, uint64_t s) { return s < rule_.burn_in ? 0.0f : 1.0f; }, 1.0f);
        break;
      case Column::steps:
        put<int32_t>(column, i, 1, 0, static_cast<int32_t>(extent.steps));
        break;
      case Column::ids:
        put<double>(column, i, 1, 0, static_cast<double>(row.place * lanes_.lanes + row.lane));
        break;
      case Column::relabelled:
        put<uint8_t>(column, i, 1, 0, row.goal != 0);
        break;
      case Column::priorities:
        put<uint32_t>(column, i, 1, 0, PriorityTree::unwritten);
        break;
      default:
        break;
    }
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
uint32_t View::index(const Row& row, const Extent& extent, uint64_t place) const {
  const uint64_t per_lane = lanes_.per_lane;
  uint64_t at;
  if (place >= row.place) {
    at = extent.at + (place - row.place);
    if (at >= per_lane) at = (at - per_lane) % per_lane;
  } else {
    const uint64_t back = (row.place - place) % per_lane;
    at = extent.at >= back ? extent.at - back : extent.at + per_lane - back;
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

void View::copy_column(const Column& column, uint64_t from, uint64_t to, bool stream) {
  const uint64_t per_row = places_of(column);
  indices_.resize(std::max<uint64_t>(indices_.size(), (to - from) * per_row));
  uint32_t* next = indices_.data();
  for (uint64_t i = from; i < to; ++i) {
    const Row& row = rows_[i];
    const Extent& extent = extents_[i - block_from_];
    each_place(column, row, extent, [&](uint64_t place, bool) { *next++ = index(row, extent, place); });
  }
  const uint64_t count = (to - from) * per_row;
  const CopyTask task{lanes_.places + column.offset,
                      lanes_.stride,
                      column.bytes,
                      indices_.data(),
                      0,
                      count,
                      count,
                      request_.out + column.at + from * per_row * column.bytes};
  (stream && column.bytes >= 64 ? copy_rows_streaming() : copy_rows_plain())(task);
}

// Zeroes what is padded, and puts new goals in.
void View::mend_column(const Column& column, uint64_t from, uint64_t to) {
  const uint64_t per_row = places_of(column);
  for (uint64_t i = from; i < to; ++i) {
    const Row& row = rows_[i];
    const Extent& extent = extents_[i - block_from_];
    uint8_t* at = request_.out + column.at + i * per_row * column.bytes;
    if (column.goal != 0 && row.goal != 0) {
      const uint64_t place = uint64_t{index(row, extent, row.goal)};
      from_shared(at, lanes_.places + place * lanes_.stride + column.goal - 1, column.bytes);
    } else if (per_row > 1) {
      each_place(column, row, extent, [&](uint64_t, bool padded) {
        if (padded) std::memset(at, 0, column.bytes);
        at += column.bytes;
      });
    }
  }
}

// Behind the last row: the least of the batch is known then.
void View::weigh() {
  Weighing how{request_.normalise, request_.beta, 0, 0, 0};
  double least = chances_.empty() ? 1 : chances_[0].value;
  for (const Chance& chance : chances_) least = std::min(least, chance.value);
  for (uint64_t i = 0; i < request_.count; ++i) {
    const Chance& chance = chances_[i];
    how.total = chance.total;
    how.least = how.normalise == Weighing::batch ? least : chance.least;
    how.drawn_from = chance.drawn_from;
    const double weight = weight_of(how, chance.value);
    for (const Column& column : columns_) {
      if (column.kind == Column::weights) put<float>(column, i, 1, 0, static_cast<float>(weight));
      if (column.kind == Column::weights_wide) put<double>(column, i, 1, 0, weight);
      if (column.kind == Column::probabilities) put<double>(column, i, 1, 0, chance.value / chance.total);
    }
  }
}

}  // namespace hotslot::rows
