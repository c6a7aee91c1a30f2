// Priorities of steps, in shared memory. A tree with eight children per node (a cache line) keeps
// the sum and the minimum of all leaves. It has one owner at a time: pack's thread in a pipeline,
// else the thread that samples. Each native call leaves the tree consistent.
//
// A parent's sum is computed only from its eight children, in pairs, then pairs of pairs. So the
// sums form a binary tree of which every third level is stored. A draw computes the other two
// levels in the same order, so it compares its mass with exactly these sums. No sum depends on the
// order of updates.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/drawable.hpp"

namespace hotslot::rows {

// Shared memory that only the owner uses. It consists of doubles and words of eight bytes.
struct alignas(64) TreeHeader {
  double alpha, epsilon;
  // The largest |p| ever given, initially 1.
  double largest;
  uint64_t leaves;
  // Number of leaves that are not zero.
  uint64_t drawn_from;
  // All updates of sequences below this one are applied.
  uint64_t applied;
  // `readers`: number of PriorityTree objects created so far, by which the next one gets its own
  // number. `follows`: number of the object whose list of drawable steps the leaves follow. If
  // another object's follow() runs, it first sets all leaves from its own list.
  uint64_t follows, readers;
  // `stale`: number of priorities that arrived after their steps were overwritten. `non_finite`:
  // number of given values that are not priorities.
  uint64_t stale, non_finite;
  uint64_t none[6];
};

// After the header come, for each lane, the place up to which leaves were set. The leaves and then
// the levels above them follow. tree_leaves_at() returns the offset of the leaves in bytes.
uint64_t tree_leaves_at(uint64_t lanes);
uint64_t tree_bytes(uint64_t leaves, uint64_t lanes);

class PriorityTree final : public Drawable::Listener {
 public:
  struct Drawn {
    uint64_t leaf;
    double value;
  };

  // Takes memory of tree_bytes() bytes that format() has initialized.
  PriorityTree(void* memory, uint64_t leaves, uint64_t lanes);
  static void format(void* memory, uint64_t leaves, uint64_t lanes, double alpha, double epsilon);

  TreeHeader& header() const { return *header_; }
  double total() const;
  // Returns the minimum of the leaves that are not zero, or infinity if all are zero.
  double least() const;
  uint64_t leaves() const { return count_; }
  double leaf(uint64_t i) const;
  bool has(uint64_t i) const;

  // Finds for each mass the leaf at which the running sum of the leaves reaches this mass. Never
  // finds a zero leaf. At least one leaf must not be zero.
  void find(const double* masses, uint64_t count, Drawn* drawn) const;

  // Syncs the list of drawable steps. Every step that became drawable gets a leaf with the largest
  // priority. Every step that stopped being drawable loses its leaf.
  void follow(Drawable& drawable);

  // Sets the priorities of the steps `ids`, in order. If an id occurs twice, the last priority
  // wins, and both priorities count for the largest priority. Skips steps that were overwritten
  // meanwhile.
  //
  // Floats come from a device. A float with the bits `unwritten` is skipped. Any other float that
  // is not a priority is replaced by the largest priority. Doubles were checked before.
  template <typename Value>
  void update(const Drawable& drawable, const double* ids, const Value* priorities, uint64_t count);
  static constexpr uint32_t unwritten = 0xffffffffu;

  // Computes the parents and `drawn_from` from the leaves. Call it after a restore wrote the
  // leaves, the largest priority, and the places up to which lanes are known. The next follow()
  // then goes through the whole list, and the leaves of known places keep their values.
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
  // Converts priorities to leaves, in place. The array has draws_at_once elements, of which the
  // first `count` matter.
  void raise(double* priorities, uint64_t count) const;
  double raised(double priority);

  struct Level {
    double *sum, *least;
    uint64_t nodes;
  };
  TreeHeader* header_;
  // For each lane, the place up to which leaves were set.
  uint64_t* known_;
  uint64_t count_, lanes_, per_lane_;
  double* leaves_;
  // The levels from the leaves' parents to the root.
  std::vector<Level> levels_;
  // Nodes that must be recomputed: `dirty_` of one level, `next_` of the level above it. `marked_`
  // has a bit for each node of each level, which is set while the node is in such a list.
  std::vector<uint64_t> dirty_, next_;
  std::vector<std::vector<uint64_t>> marked_;
  uint64_t reader_ = 0;
  // While a lane's drawable steps are all reported again, `before_` has the lane's old leaves.
  // Steps at places below `kept_below_` get their old leaves back.
  uint64_t kept_below_ = 0;
  std::vector<double> before_;
  std::vector<uint64_t> scratch_;
  double raised_from_ = -1, raised_to_ = 0;
};

// How to compute importance weights. `total` is the sum of all leaves, and `drawn_from` is the
// number of leaves that are not zero. `least` is the minimum leaf of the tree or of the batch, as
// `normalize` says.
struct Weighing {
  enum Normalize : uint32_t { tree, batch, none };
  Normalize normalize;
  double beta, total, least;
  double drawn_from;
};
// Returns the ratio of a leaf. The ratio to the power of −beta is the leaf's weight.
double ratio_of(const Weighing& how, double value);

}  // namespace hotslot::rows
