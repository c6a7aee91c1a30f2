// The tree of priorities: leaves, parents made of their children, and the way down.
#include "rows/priority_tree.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "rows/memory.hpp"

namespace hotslot::rows {
namespace {

constexpr uint64_t fan = 8;
constexpr double infinite = std::numeric_limits<double>::infinity();
// No step: undrawable, or none was ever there. It adds up like zero, and is told from the leaf of a priority of zero by
// its sign.
constexpr double nobody = -0.0;

uint64_t pad(uint64_t count) { return (count + fan - 1) / fan * fan; }

double sum_of(const double* c) { return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7])); }

// Which half the mass lies in. Never one without any: rounding may leave more mass than there is on the left.
bool goes_right(double left, double right, double& mass) {
  if (!(right > 0 && (mass > left || left == 0))) return false;
  mass -= left;
  return true;
}

uint64_t child_of(const double* c, double& mass) {
  uint64_t at = 0;
  if (goes_right((c[0] + c[1]) + (c[2] + c[3]), (c[4] + c[5]) + (c[6] + c[7]), mass)) at = 4;
  if (goes_right(c[at] + c[at + 1], c[at + 2] + c[at + 3], mass)) at += 2;
  return at + goes_right(c[at], c[at + 1], mass);
}

// Sizes of the levels above the leaves, from below.
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

uint64_t tree_bytes(uint64_t leaves, uint64_t lanes) {
  uint64_t doubles = pad(leaves);
  for (const uint64_t n : nodes_of(leaves)) doubles += 2 * pad(n);
  return sizeof(TreeHeader) + line_up(lanes * 8) + doubles * 8;
}

PriorityTree::PriorityTree(void* memory, uint64_t leaves, uint64_t lanes)
    : header_(static_cast<TreeHeader*>(memory)), lanes_(lanes), per_lane_(leaves / lanes) {
  auto* at = static_cast<uint8_t*>(memory) + sizeof(TreeHeader);
  known_ = reinterpret_cast<uint64_t*>(at);
  leaves_ = reinterpret_cast<double*>(at + line_up(lanes * 8));
  double* next = leaves_ + pad(leaves);
  for (const uint64_t n : nodes_of(leaves)) {
    levels_.push_back({next, next + pad(n), n});
    marked_.emplace_back((n + 63) / 64);
    next += 2 * pad(n);
  }
  // Numbered, so that the leaves say whose list they follow.
  reader_ = __atomic_add_fetch(&header_->readers, 1, __ATOMIC_RELAXED);
}

void PriorityTree::format(void* memory, uint64_t leaves, uint64_t lanes, double alpha, double epsilon) {
  auto* header = static_cast<TreeHeader*>(memory);
  *header = {alpha, epsilon, 1, leaves, 0, 0, 0, 0, 0, 0, {}};
  auto* first = reinterpret_cast<double*>(static_cast<uint8_t*>(memory) + sizeof(TreeHeader) + line_up(lanes * 8));
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

PriorityTree::Drawn PriorityTree::find(double mass) const {
  uint64_t at = 0;
  for (size_t level = levels_.size() - 1; level-- > 0;) at = at * fan + child_of(levels_[level].sum + at * fan, mass);
  at = at * fan + child_of(leaves_ + at * fan, mass);
  return {at, leaves_[at]};
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
  for (size_t level = 0; level < levels_.size(); ++level) {
    next_.clear();
    for (const uint64_t node : dirty_) {
      marked_[level][node / 64] &= ~(uint64_t{1} << node % 64);
      const Level& here = levels_[level];
      const double* sums = (level == 0 ? leaves_ : levels_[level - 1].sum) + node * fan;
      here.sum[node] = sum_of(sums);
      double least = infinite;
      if (level == 0) {
        for (uint64_t i = 0; i < fan; ++i) least = std::min(least, sums[i] > 0 ? sums[i] : infinite);
      } else {
        const double* below = levels_[level - 1].least + node * fan;
        for (uint64_t i = 0; i < fan; ++i) least = std::min(least, below[i]);
      }
      here.least[node] = least;
      if (level + 1 == levels_.size()) continue;
      const uint64_t parent = node / fan, bit = uint64_t{1} << parent % 64;
      uint64_t& marked = marked_[level + 1][parent / 64];
      if (marked & bit) continue;
      marked |= bit;
      next_.push_back(parent);
    }
    dirty_.swap(next_);
  }
  dirty_.clear();
}

double PriorityTree::raised(double priority) {
  if (priority != raised_from_) {
    raised_from_ = priority;
    raised_to_ = std::pow(priority + header_->epsilon, header_->alpha);
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

void PriorityTree::came(uint64_t lane, uint64_t place) {
  const uint64_t at = place % per_lane_;
  if (place < kept_below_ && !std::signbit(before_[at])) {
    set(lane * per_lane_ + at, before_[at]);
  } else {
    set(lane * per_lane_ + at, raised(header_->largest));
  }
}

void PriorityTree::went(uint64_t lane, uint64_t place) { set(lane * per_lane_ + place % per_lane_, nobody); }

void PriorityTree::forget(uint64_t lane) {
  const double* first = leaves_ + lane * per_lane_;
  before_.assign(first, first + per_lane_);
  for (uint64_t at = 0; at < per_lane_; ++at)
    if (!std::signbit(before_[at])) set(lane * per_lane_ + at, nobody);
  kept_below_ = known_[lane];
}

void PriorityTree::reached(uint64_t lane, const Span& span) { known_[lane] = span.to; }

template <typename Value>
void PriorityTree::update(const Drawable& drawable, const double* ids, const Value* priorities, uint64_t count) {
  constexpr uint64_t left_out = ~uint64_t{0};
  scratch_.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    scratch_[i] = left_out;
    uint32_t bits = 0;
    if constexpr (sizeof(Value) == 4) std::memcpy(&bits, priorities + i, 4);
    if (bits == unwritten) continue;
    const auto id = static_cast<uint64_t>(ids[i]);
    const uint64_t lane = id % lanes_, place = id / lanes_;
    const Span seen = drawable.seen(lane);
    if (place < seen.from) ++header_->stale;
    if (place < seen.from || place >= seen.to) continue;
    const uint64_t leaf = lane * per_lane_ + place % per_lane_;
    if (!has(leaf)) continue;
    scratch_[i] = leaf;
    if (is_priority(priorities[i])) {
      header_->largest = std::max(header_->largest, static_cast<double>(priorities[i]));
    } else {
      ++header_->odd;
    }
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (scratch_[i] == left_out) continue;
    set(scratch_[i], raised(is_priority(priorities[i]) ? static_cast<double>(priorities[i]) : header_->largest));
  }
  settle();
}
template void PriorityTree::update(const Drawable&, const double*, const float*, uint64_t);
template void PriorityTree::update(const Drawable&, const double*, const double*, uint64_t);

void PriorityTree::set_all(const double* leaves) {
  for (uint64_t i = 0; i < header_->leaves; ++i)
    if (leaves[i] > 0) set(i, leaves[i]);
  settle();
}

double weight_of(const Weighing& how, double value) {
  if (how.normalise == Weighing::none) return std::pow(how.drawn_from * (value / how.total), -how.beta);
  return std::pow(value / how.least, -how.beta);
}

}  // namespace hotslot::rows
