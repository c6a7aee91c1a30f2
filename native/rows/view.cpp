// Draws a view's steps, and makes batches of them.
#include "rows/view.hpp"

#include <algorithm>
#include <cmath>

#include "rows/backoff.hpp"
#include "rows/memory.hpp"
#include "rows/rows.hpp"
#include "rows/tree_kernels.hpp"
#include "wait/bell.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot::rows {
namespace {

// Number of rows that are drawn together. While one row waits for memory, the others proceed.
constexpr uint64_t rows_at_once = 64;

// Number of blocks that each thread makes between two reads of the clock.
constexpr uint64_t view_blocks_each = 2;

}  // namespace

View::View(const Lanes& lanes, const ViewRule& rule, std::vector<Column> columns)
    : lanes_(lanes), rule_(rule), drawable_(lanes, rule) {
  set_columns(std::move(columns));
  const uint64_t most = rule.edges == ViewRule::transitions ? rule.n : rule.window();
  for (uint64_t k = 0; k <= most; ++k)
    powers_.push_back(static_cast<float>(std::pow(rule.gamma, k)));
}

// Sorts the columns, so that columns copied from the same places are adjacent. The places are then
// listed once for all of them.
void View::set_columns(std::vector<Column> columns) {
  columns_ = std::move(columns);
  std::stable_sort(columns_.begin(), columns_.end(), [this](const Column& a, const Column& b) {
    return places_by(a) < places_by(b);
  });
}

const Column* View::column(Column::Kind kind) const {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [kind](const Column& c) { return c.kind == kind; });
  return found == columns_.end() ? nullptr : &*found;
}

// ---- drawing ------------------------------------------------------------------------------------

void View::look_around() {
  if (tree_ != nullptr) {
    tree_->follow(drawable_);
  } else {
    drawable_.sync();
  }
}

// Starts a batch: allocates its rows. Each row has its own goal until draw_goals() or take() sets a
// new one.
void View::begin(const Request& request) {
  request_ = request;
  rows_.resize(request.count);
  make_room(1);
  if (rule_.relabel != ViewRule::own) goals_.assign(request.count, 0);
}

// Allocates the memory of `blocks` blocks in advance, so that make_rows() allocates none.
void View::make_room(uint64_t blocks) {
  uint64_t places = 0;
  for (const Column& column : columns_) places = std::max(places, places_of(column));
  const uint64_t rows = std::min(rows_per_block(), request_.count);
  if (blocks_.size() < blocks) blocks_.resize(blocks);
  for (uint64_t i = 0; i < blocks; ++i) {
    Block& block = blocks_[i];
    if (block.extents.size() < rows) block.extents.resize(rows);
    if (block.indices.size() < rows * places) block.indices.resize(rows * places);
    block.notes.resize(powers_.size() - 1);
    block.lost.reserve(rows);
  }
}

View::Result View::draw(const Request& request, uint64_t seed) {
  begin(request);
  next_row_ = drawn_again_ = 0;
  as_before_ = false;
  if (tree_ != nullptr) chances_.resize(request.count);
  generator_ = Generator(seed);
  if (!draw_rows(0, request.count)) return Result::empty;
  draw_goals(0, request.count);
  return Result::done;
}

bool View::draw_as_before(const Request& request, const double* ids, const uint32_t* goals,
                          const uint32_t* brought, uint64_t some) {
  begin(request);
  next_row_ = drawn_again_ = 0;
  as_before_ = true;
  for (uint64_t i = 0; i < request.count; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    if (!drawable_.find(id % lanes_.lanes, id / lanes_.lanes, rows_[i])) return false;
    if (goals == nullptr || rule_.relabel == ViewRule::own) continue;
    const uint64_t places = lanes_.lanes * lanes_.per_lane, goal = read_once(goals[i]);
    if (goal == Mirror::own) continue;
    if (goal >= places + some) return false;
    const uint64_t index = goal < places ? goal : read_once(brought[goal - places]);
    if (index >= places) return false;
    goals_[i] = drawable_.place_at(rows_[i].lane, index % lanes_.per_lane);
  }
  return true;
}

bool View::draw_rows(uint64_t from, uint64_t to) {
  if (tree_ == nullptr ? drawable_.count() == 0 : !(tree_->total() > 0)) return false;
  tree_ == nullptr ? draw_uniformly(from, to) : draw_by_priority(from, to);
  return true;
}

void View::draw_uniformly(uint64_t from, uint64_t to) {
  ordinals_.resize(to - from);
  // Takes the word's remainder, as torch's randint does.
  const auto count = static_cast<uint32_t>(drawable_.count());
  uint32_t* next = ordinals_.data();
  generator_.take(to - from, [&next, count](uint32_t word) { *next++ = word % count; });
  drawable_.at(ordinals_.data(), to - from, rows_.data() + from);
}

void View::draw_by_priority(uint64_t from, uint64_t to) {
  const double total = tree_->total(), least = tree_->least();
  const double drawn_from = static_cast<double>(tree_->header().drawn_from);
  double masses[rows_at_once] = {};
  PriorityTree::Drawn drawn[rows_at_once];
  for (; from < to; from += rows_at_once) {
    const uint64_t some = std::min(rows_at_once, to - from);
    for (uint64_t i = 0; i < some; ++i) masses[i] = generator_.next_double() * total;
    tree_->find(masses, some, drawn);
    for (uint64_t i = 0; i < some; ++i) {
      chances_[from + i] = {drawn[i].value, total, least, drawn_from};
      rows_[from + i] = row_of(drawn[i].leaf);
    }
  }
}

View::Row View::row_of(uint64_t drawn) const {
  // Leaves fit in 32 bits, and CPUs divide 32-bit integers faster.
  const auto leaf = static_cast<uint32_t>(drawn), per_lane = static_cast<uint32_t>(lanes_.per_lane);
  const uint64_t lane = leaf / per_lane, at = leaf % per_lane, place = drawable_.place_at(lane, at);
  Row row;
  if (rule_.relabel != ViewRule::own && drawable_.find(lane, place, row)) return row;
  return {lane, place, at, 0, 0};
}

// Draws the goals of the rows [from, to). First draws one word per row, which decides by the ratio
// whether the row gets a new goal. Then draws one word per row, which chooses the step that
// achieved the goal.
void View::draw_goals(uint64_t from, uint64_t to) {
  if (rule_.relabel == ViewRule::own) return;
  for (uint64_t i = from; i < to; ++i) goals_[i] = generator_.next() * 0x1p-32 < rule_.ratio;
  for (uint64_t i = from; i < to; ++i) {
    const Row& row = rows_[i];
    const uint64_t word = generator_.next();
    if (goals_[i] == 0) continue;
    uint64_t achieved_at = row.place + row.rest;
    if (rule_.relabel == ViewRule::future)
      achieved_at = row.place + word % (row.rest + uint64_t{1});
    if (rule_.relabel == ViewRule::episode)
      achieved_at = row.place - row.reach + word % (row.reach + uint64_t{row.rest} + 1);
    goals_[i] = achieved_at + 1;
  }
}

uint64_t View::take(const Request& request, const double* ids, const double* goals) {
  begin(request);
  look_around();
  for (uint64_t i = 0; i < request.count; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    Row& step = rows_[i];
    if (!drawable_.find(id % lanes_.lanes, id / lanes_.lanes, step)) return i;
    if (goals == nullptr || goals[i] < 0) continue;
    const auto goal = static_cast<uint64_t>(goals[i]);
    const uint64_t place = goal / lanes_.lanes;
    const uint64_t first = step.place - (rule_.relabel == ViewRule::episode ? step.reach : 0);
    if (goal % lanes_.lanes != step.lane || place < first || place > step.place + step.rest)
      return i;
    goals_[i] = place + 1;
  }
  const uint64_t block = rows_per_block();
  for (uint64_t from = 0; from < request.count; from += block)
    if (!make_rows(blocks_[0], from, std::min(request.count, from + block), false))
      return blocks_[0].lost[0];
  return request.count;
}

// ---- making -------------------------------------------------------------------------------------

View::Result View::gather(uint64_t deadline_ns) {
  const uint64_t each = rows_per_block(), count = request_.count;
  uint64_t bytes = 0;
  for (const Column& column : columns_) bytes += places_of(column) * column.bytes;
  // With a mirror, one thread must look up all places in order, so no helpers run.
  const bool stream = mirror_ == nullptr && bytes * count >= shared_from;
  const int helpers = stream ? IdleCores::helpers(bytes * count) : 0;
  const uint64_t at_once = stream ? view_blocks_each * uint64_t(helpers + 1) : 1;
  make_room(std::min(at_once, (count + each - 1) / each));
  while (next_row_ < count) {
    const uint64_t from = next_row_, to = std::min(count, from + each * at_once);
    const int pieces = int((to - from + each - 1) / each);
    IdleCores::run(pieces, helpers, [&](int piece) {
      const uint64_t begin = from + piece * each;
      make_rows(blocks_[piece], begin, std::min(to, begin + each), stream);
    });
    // Only the lost rows are made again. All other rows passed their check and are whole copies.
    // They are not checked a second time, because the writer continues and may have overwritten all
    // of their places by now.
    for (int piece = 0; piece < pieces; ++piece) {
      const std::vector<uint64_t> lost = blocks_[piece].lost;  // make_again() overwrites blocks_[0]
      if (as_before_ && !lost.empty()) return Result::empty;
      for (const uint64_t i : lost)
        if (!make_again(i)) return Result::empty;
    }
    next_row_ = to;
    if (deadline_ns != 0 && next_row_ < count && now_ns() >= deadline_ns) return Result::more;
  }
  if (tree_ != nullptr && !as_before_) weigh();
  return Result::done;
}

// Replaces a row that a writer overtook: draws a step that is drawable now, and makes its row.
// Repeats this until the row is whole. Returns false if no step is drawable.
bool View::make_again(uint64_t i) {
  Backoff wait;
  const auto again = [&] {
    ++drawn_again_;
    look_around();
    if (!draw_rows(i, i + 1)) return -1;
    draw_goals(i, i + 1);
    return make_rows(blocks_[0], i, i + 1, false) ? 1 : 0;
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

// Computes the weights. Runs after the last row, because only then is the minimum of the batch
// known.
void View::weigh() {
  Weighing how{request_.normalize, request_.beta, 0, 0, 0};
  double least = chances_.empty() ? 1 : chances_[0].value;
  for (const Chance& chance : chances_) least = std::min(least, chance.value);
  double weights[draws_at_once] = {};
  for (uint64_t i = 0; i < request_.count; ++i) {
    if (i % draws_at_once == 0) {
      const uint64_t some = std::min(draws_at_once, request_.count - i);
      for (uint64_t j = 0; j < some; ++j) {
        const Chance& chance = chances_[i + j];
        how.total = chance.total;
        how.least = how.normalize == Weighing::batch ? least : chance.least;
        how.drawn_from = chance.drawn_from;
        weights[j] = ratio_of(how, chance.value);
      }
      tree_kernels().power(weights, some, -request_.beta);
    }
    const Chance& chance = chances_[i];
    const double weight = weights[i % draws_at_once];
    for (const Column& column : columns_) {
      if (column.kind == Column::weights) put<float>(column, i, 1, 0, static_cast<float>(weight));
      if (column.kind == Column::weights_wide) put<double>(column, i, 1, 0, weight);
      if (column.kind == Column::probabilities)
        put<double>(column, i, 1, 0, chance.value / chance.total);
    }
  }
}

}  // namespace hotslot::rows
