// Priorities of steps, in shared memory: the sum and the minimum of all leaves, kept by a tree with
// eight children per node (a cache line). It has one owner at a time: pack's thread in a pipeline,
// else the thread that samples. Each native call leaves it whole.
//
// A parent's sum is computed from its children alone, in pairs, as in a binary tree of which every
// third level is stored. So sums depend on the leaves and not on the order of updates, and a draw
// descends by the same comparisons.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/drawable.hpp"

namespace hotslot::rows {

// Shared memory that only the owner uses. Doubles and words of eight bytes.
struct alignas(64) TreeHeader {
  double alpha, epsilon;
  // The largest |p| ever given, initially 1.
  double largest;
  uint64_t leaves;
  // Leaves that are not zero.
  uint64_t drawn_from;
  // Updates of sequences before this one are applied.
  uint64_t applied;
  // The reader whose list the leaves follow, and the number of readers so far. Another reader first
  // reports its whole list.
  uint64_t follows, readers;
  // Counts of updates: ids whose steps were overwritten meanwhile, and values that are not
  // priorities.
  uint64_t stale, non_finite;
  uint64_t none[6];
};

// The header is followed by the place up to which each lane is known, then the leaves, then the
// levels above them.
uint64_t tree_leaves_at(uint64_t lanes);
uint64_t tree_bytes(uint64_t leaves, uint64_t lanes);

class PriorityTree final : public Drawable::Listener {
 public:
  struct Drawn {
    uint64_t leaf;
    double value;
  };

  // Takes memory of tree_bytes() that format() has initialized.
  PriorityTree(void* memory, uint64_t leaves, uint64_t lanes);
  static void format(void* memory, uint64_t leaves, uint64_t lanes, double alpha, double epsilon);

  TreeHeader& header() const { return *header_; }
  double total() const;
  // The minimum of the leaves that are not zero, or infinity if all are zero.
  double least() const;
  uint64_t leaves() const { return count_; }
  double leaf(uint64_t i) const;
  bool has(uint64_t i) const;

  // Finds the leaves at which the running sum reaches these masses, never a zero leaf. At least one
  // leaf must not be zero.
  void find(const double* masses, uint64_t count, Drawn* drawn) const;

  // Syncs the list, and makes the leaves those of its steps.
  void follow(Drawable& drawable);

  // Applies one update, in order: the last of duplicates wins, and each counts for the largest.
  // Steps that were overwritten meanwhile are skipped. Floats, which come from a device, are
  // skipped too if they have the bits `unwritten`, and one that is not a priority becomes the
  // largest. Doubles were checked before.
  template <typename Value>
  void update(const Drawable& drawable, const double* ids, const Value* priorities, uint64_t count);
  static constexpr uint32_t unwritten = 0xffffffffu;

  // Follows a restore that wrote the leaves, the largest priority and the places up to which lanes
  // are known: computes the parents and the count of leaves. The next reader reports its list
  // again, which keeps the known leaves.
  void adopt();

  // Sets all leaves at once, for draws without a view.
  void set_all(const double* leaves);

 private:
  void on_added(uint64_t lane, uint64_t place) override;
  void on_removed(uint64_t lane, uint64_t place) override;
  void on_reset(uint64_t lane) override;
  void on_advanced(uint64_t lane, const Span& span) override;

  template <typename Value>
  uint64_t leaf_of(const Drawable& drawable, double given, const Value* priority);
  void set(uint64_t leaf, double value);
  // Recomputes every parent whose children changed.
  void settle();
  void sort_dirty(size_t level);
  void mark_parents(size_t level);
  // Converts priorities to leaves, in place. The array has room for draws_at_once.
  void raise(double* priorities, uint64_t count) const;
  double raised(double priority);

  struct Level {
    double *sum, *least;
    uint64_t nodes;
  };
  TreeHeader* header_;
  // Per lane, the place up to which leaves were set.
  uint64_t* known_;
  uint64_t count_, lanes_, per_lane_;
  double* leaves_;
  // From the leaves' parents to the root.
  std::vector<Level> levels_;
  // Nodes of the level above that must be recomputed: a list, and a bit for each.
  std::vector<uint64_t> dirty_, next_;
  std::vector<std::vector<uint64_t>> marked_;
  uint64_t reader_ = 0;
  // Bound of a lane's places whose leaves are a predecessor's, while the whole list is reported
  // again.
  uint64_t kept_below_ = 0;
  std::vector<double> before_;
  std::vector<uint64_t> scratch_;
  double raised_from_ = -1, raised_to_ = 0;
};

// Importance weights. `least` is the minimum leaf of the tree or of the batch, by `normalize`.
struct Weighing {
  enum Normalize : uint32_t { tree, batch, none };
  Normalize normalize;
  double beta, total, least;
  double drawn_from;
};
// Returns the ratio of a leaf, which raised to −beta is its weight.
double ratio_of(const Weighing& how, double value);

}  // namespace hotslot::rows
