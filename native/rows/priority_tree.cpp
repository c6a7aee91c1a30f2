// The tree of priorities. Sets leaves, computes parents from their children, and descends to the
// leaves that are drawn.
#include "rows/priority_tree.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "rows/memory.hpp"
#include "rows/tree_kernels.hpp"

namespace hotslot::rows {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// The leaf of a place without a drawable step. In sums it counts as zero. Its sign distinguishes it
// from the leaf of a step with priority zero.
constexpr double nobody = -0.0;

// Stands for the leaf's index of an id that update() skips.
constexpr uint64_t left_out = ~uint64_t{0};
// A level's children are prefetched only if the level has at least this many nodes.
constexpr uint64_t nodes_to_fetch = 512;
// Number of leaves that are prefetched, and raised to alpha, together.
constexpr uint64_t leaves_at_once = draws_at_once;

uint64_t pad(uint64_t count) { return (count + fan - 1) / fan * fan; }

// Returns the number of nodes of each level above the leaves, from the lowest level on.
std::vector<uint64_t> nodes_of(uint64_t leaves) {
  std::vector<uint64_t> nodes;
  uint64_t n = leaves;
  do {
    n = (n + fan - 1) / fan;
    nodes.push_back(n);
  } while (n > 1);
  return nodes;
}

bool is_priority(double p) { return p >= 0 && p < infinite; }

}  // namespace

uint64_t tree_leaves_at(uint64_t lanes) { return sizeof(TreeHeader) + line_up(lanes * 8); }

uint64_t tree_bytes(uint64_t leaves, uint64_t lanes) {
  uint64_t doubles = pad(leaves);
  for (const uint64_t n : nodes_of(leaves)) doubles += 2 * pad(n);
  return tree_leaves_at(lanes) + doubles * 8;
}

PriorityTree::PriorityTree(void* memory, uint64_t leaves, uint64_t lanes)
    : header_(static_cast<TreeHeader*>(memory)),
      count_(leaves),
      lanes_(lanes),
      per_lane_(leaves / lanes) {
  known_ = reinterpret_cast<uint64_t*>(header_ + 1);
  leaves_ = reinterpret_cast<double*>(static_cast<uint8_t*>(memory) + tree_leaves_at(lanes));
  double* next = leaves_ + pad(leaves);
  for (const uint64_t n : nodes_of(leaves)) {
    levels_.push_back({next, next + pad(n), n});
    marked_.emplace_back((n + 63) / 64);
    next += 2 * pad(n);
  }
  // Reserves all memory that follow() and settle() can need. So a tree is never left half updated
  // if memory runs out.
  dirty_.reserve(levels_[0].nodes);
  next_.reserve(levels_[0].nodes);
  before_.reserve(per_lane_);
  // Each PriorityTree object has a number. The header records the number of the object whose list
  // of drawable steps the leaves follow.
  reader_ = __atomic_add_fetch(&header_->readers, 1, __ATOMIC_RELAXED);
}

void PriorityTree::format(void* memory, uint64_t leaves, uint64_t lanes, double alpha,
                          double epsilon) {
  auto* header = static_cast<TreeHeader*>(memory);
  ask_huge_pages(memory, tree_bytes(leaves, lanes));
  *header = {alpha, epsilon, 1, leaves, 0, 0, 0, 0, 0, 0, {}};
  auto* first = reinterpret_cast<double*>(static_cast<uint8_t*>(memory) + tree_leaves_at(lanes));
  std::fill(first, first + pad(leaves), nobody);
  double* next = first + pad(leaves);
  for (const uint64_t n : nodes_of(leaves)) {
    std::fill(next, next + pad(n), 0.0);
    std::fill(next + pad(n), next + 2 * pad(n), infinite);
    next += 2 * pad(n);
  }
}

double PriorityTree::total() const { return levels_.back().sum[0]; }
double PriorityTree::least() const { return levels_.back().least[0]; }
double PriorityTree::leaf(uint64_t i) const { return leaves_[i] + 0.0; }
bool PriorityTree::has(uint64_t i) const { return !std::signbit(leaves_[i]); }

void PriorityTree::find(const double* masses, uint64_t count, Drawn* drawn) const {
  const auto down = tree_kernels().descend;
  for (uint64_t from = 0; from < count; from += draws_at_once) {
    const uint64_t some = std::min(draws_at_once, count - from);
    double mass[draws_at_once] = {};
    uint64_t at[draws_at_once] = {};
    std::copy_n(masses + from, some, mass);
    for (size_t level = levels_.size(); level-- > 0;) {
      down(level == 0 ? leaves_ : levels_[level - 1].sum, at, mass, some);
      // The last nodes of a level only pad its cache line, and a draw must not descend to them.
      const uint64_t nodes = level == 0 ? count_ : levels_[level - 1].nodes;
      for (uint64_t i = 0; nodes % fan != 0 && i < some; ++i) at[i] = std::min(at[i], nodes - 1);
      // Prefetches the children of all draws, so that their waits for memory overlap. The upper
      // levels need no prefetch, because they are in the cache.
      if (level == 0 || levels_[level - 1].nodes < nodes_to_fetch) continue;
      const double* below = level == 1 ? leaves_ : levels_[level - 2].sum;
      for (uint64_t i = 0; i < some; ++i) __builtin_prefetch(below + at[i] * fan);
    }
    for (uint64_t i = 0; i < some; ++i) drawn[from + i] = {at[i], leaves_[at[i]]};
  }
}

void PriorityTree::set(uint64_t leaf, double value) {
  double& now = leaves_[leaf];
  header_->drawn_from += uint64_t{value > 0} - uint64_t{now > 0};
  now = value;
  const uint64_t parent = leaf / fan, bit = uint64_t{1} << parent % 64;
  uint64_t& marked = marked_[0][parent / 64];
  if (marked & bit) return;
  marked |= bit;
  dirty_.push_back(parent);
}

void PriorityTree::settle() {
  bool all = false;
  for (size_t level = 0; level < levels_.size() && (all || !dirty_.empty()); ++level) {
    const Level& here = levels_[level];
    const double* sums = level == 0 ? leaves_ : levels_[level - 1].sum;
    const double* leasts = level == 0 ? nullptr : levels_[level - 1].least;
    // If more than half of the nodes changed, it is cheaper to recompute all nodes than to track
    // them.
    all = all || dirty_.size() > here.nodes / 2;
    if (!all && dirty_.size() > here.nodes / 32) sort_dirty(level);
    tree_kernels().make(sums, leasts, all ? nullptr : dirty_.data(),
                        all ? here.nodes : dirty_.size(), here.sum, here.least);
    uint64_t* marked = marked_[level].data();
    for (const uint64_t node : dirty_) marked[node / 64] = 0;
    if (all || level + 1 == levels_.size()) {
      dirty_.clear();
    } else {
      mark_parents(level);
    }
  }
}

void PriorityTree::mark_parents(size_t level) {
  next_.resize(dirty_.size());
  uint64_t *marked = marked_[level + 1].data(), *next = next_.data();
  for (const uint64_t node : dirty_) {
    // Writes the parent without a branch. `next` advances only if the parent was not marked before.
    const uint64_t parent = node / fan;
    *next = parent;
    next += ~(marked[parent / 64] >> parent % 64) & 1;
    marked[parent / 64] |= uint64_t{1} << parent % 64;
  }
  next_.resize(next - next_.data());
  dirty_.swap(next_);
}

void PriorityTree::sort_dirty(size_t level) {
  dirty_.clear();
  const std::vector<uint64_t>& marked = marked_[level];
  for (uint64_t word = 0; word < marked.size(); ++word)
    for (uint64_t bits = marked[word]; bits != 0; bits &= bits - 1)
      dirty_.push_back(word * 64 + __builtin_ctzll(bits));
}

void PriorityTree::raise(double* priorities, uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) priorities[i] += header_->epsilon;
  tree_kernels().power(priorities, count, header_->alpha);
  // The sum of all leaves must be finite, so each leaf is bounded. + 0.0 changes −0 to +0, because
  // −0 stands for a place without a step.
  const double most = std::numeric_limits<double>::max() / 2 / static_cast<double>(count_);
  for (uint64_t i = 0; i < count; ++i) priorities[i] = std::min(priorities[i], most) + 0.0;
}

double PriorityTree::raised(double priority) {
  if (priority != raised_from_) {
    double one[draws_at_once] = {priority};
    raise(one, 1);
    raised_from_ = priority;
    raised_to_ = one[0];
  }
  return raised_to_;
}

void PriorityTree::follow(Drawable& drawable) {
  if (header_->follows == reader_) {
    drawable.sync(this);
  } else {
    drawable.sync();
    drawable.tell(*this);
    kept_below_ = 0;
    header_->follows = reader_;
  }
  settle();
}

void PriorityTree::on_added(uint64_t lane, uint64_t place) {
  const uint64_t at = place % per_lane_;
  if (place < kept_below_ && !std::signbit(before_[at])) {
    set(lane * per_lane_ + at, before_[at]);
  } else {
    set(lane * per_lane_ + at, raised(header_->largest));
  }
}

void PriorityTree::on_removed(uint64_t lane, uint64_t place) {
  set(lane * per_lane_ + place % per_lane_, nobody);
}

void PriorityTree::on_reset(uint64_t lane) {
  const double* first = leaves_ + lane * per_lane_;
  before_.assign(first, first + per_lane_);
  for (uint64_t at = 0; at < per_lane_; ++at)
    if (!std::signbit(before_[at])) set(lane * per_lane_ + at, nobody);
  kept_below_ = known_[lane];
}

void PriorityTree::on_advanced(uint64_t lane, const Span& span) { known_[lane] = span.to; }

template <typename Value>
void PriorityTree::update(const Drawable& drawable, const double* ids, const Value* priorities,
                          uint64_t count) {
  const uint64_t before = header_->non_finite;
  scratch_.resize(count);
  for (uint64_t from = 0; from < count; from += leaves_at_once) {
    const uint64_t to = std::min(count, from + leaves_at_once);
    double leaf[leaves_at_once] = {};
    for (uint64_t i = from; i < to; ++i) {
      scratch_[i] = leaf_of(drawable, ids[i], priorities + i);
      if (is_priority(priorities[i])) leaf[i - from] = priorities[i];
    }
    raise(leaf, to - from);
    for (uint64_t i = from; i < to; ++i) {
      if (scratch_[i] == left_out) continue;
      if (!has(scratch_[i])) {
        scratch_[i] = left_out;
      } else if (is_priority(priorities[i])) {
        header_->largest = std::max(header_->largest, static_cast<double>(priorities[i]));
        set(scratch_[i], leaf[i - from]);
      } else {
        ++header_->non_finite;
      }
    }
  }
  // Runs only if some values were not priorities. Their leaves get the largest priority, which is
  // known only now. An id may occur twice, and its last priority wins. So this sets all leaves
  // again, in order.
  for (uint64_t i = 0; i < count && header_->non_finite > before; ++i) {
    if (scratch_[i] == left_out) continue;
    set(scratch_[i],
        raised(is_priority(priorities[i]) ? static_cast<double>(priorities[i]) : header_->largest));
  }
  settle();
}

// Returns the leaf of an id, and prefetches the leaf and its parent. Returns `left_out` if the
// priority is `unwritten`, or if the id's step was overwritten or is not in the snapshot.
template <typename Value>
uint64_t PriorityTree::leaf_of(const Drawable& drawable, double given, const Value* priority) {
  uint32_t bits = 0;
  if constexpr (sizeof(Value) == 4) std::memcpy(&bits, priority, 4);
  if (bits == unwritten) return left_out;
  const auto id = static_cast<uint64_t>(given);
  const uint64_t lane = id % lanes_, place = id / lanes_;
  const Span seen = drawable.seen(lane);
  if (place < seen.from) ++header_->stale;
  if (place < seen.from || place >= seen.to || place - seen.from >= per_lane_) return left_out;
  const uint64_t leaf = lane * per_lane_ + drawable.ring_place(lane, place);
  __builtin_prefetch(leaves_ + leaf, 1);
  __builtin_prefetch(levels_[0].sum + leaf / fan, 1);
  __builtin_prefetch(levels_[0].least + leaf / fan, 1);
  return leaf;
}
template void PriorityTree::update(const Drawable&, const double*, const float*, uint64_t);
template void PriorityTree::update(const Drawable&, const double*, const double*, uint64_t);

void PriorityTree::adopt() {
  header_->drawn_from = static_cast<uint64_t>(
      std::count_if(leaves_, leaves_ + count_, [](double leaf) { return leaf > 0; }));
  header_->follows = 0;
  for (size_t level = 0; level < levels_.size(); ++level) {
    const Level& here = levels_[level];
    tree_kernels().make(level == 0 ? leaves_ : levels_[level - 1].sum,
                        level == 0 ? nullptr : levels_[level - 1].least, nullptr, here.nodes,
                        here.sum, here.least);
  }
}

void PriorityTree::set_all(const double* leaves) {
  for (uint64_t i = 0; i < count_; ++i)
    if (leaves[i] > 0) set(i, leaves[i]);
  settle();
}

double ratio_of(const Weighing& how, double value) {
  return how.normalize == Weighing::none ? how.drawn_from * (value / how.total) : value / how.least;
}

}  // namespace hotslot::rows
