// Priorities of steps, in shared memory: the sum and the least of all leaves, kept by a tree with
// eight children a node (a cache line). One owner at a time: pack's thread in a pipeline, else the
// thread that samples. Each native call leaves it whole.
//
// A parent's sum is made of its children alone, in pairs: a binary tree's, of which every third
// level is stored. So sums depend on the leaves and not on the order in which they were given, and
// a draw goes down by the same comparisons.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/drawable.hpp"

namespace hotslot::rows {

// Shared; the owner's. Doubles and words of eight bytes.
struct alignas(64) TreeHeader {
  double alpha, epsilon;
  // The largest |p| ever given; 1 at first.
  double largest;
  uint64_t leaves;
  // Leaves that are not zero.
  uint64_t drawn_from;
  // Updates of sequences before this one are applied.
  uint64_t applied;
  // Which reader's list the leaves follow: another one says everything again first.
  uint64_t follows, readers;
  // Of the device's: ids that were overwritten meanwhile, and numbers that are none.
  uint64_t stale, odd;
  uint64_t none[6];
};

// Behind the header lies how far each lane was looked at, then the leaves, then the levels above
// them.
uint64_t tree_leaves_at(uint64_t lanes);
uint64_t tree_bytes(uint64_t leaves, uint64_t lanes);

class PriorityTree final : public Drawable::Listener {
 public:
  struct Drawn {
    uint64_t leaf;
    double value;
  };

  // Over memory of tree_bytes(); `fresh` makes it, else it is taken up as it is.
  PriorityTree(void* memory, uint64_t leaves, uint64_t lanes);
  static void format(void* memory, uint64_t leaves, uint64_t lanes, double alpha, double epsilon);

  TreeHeader& header() const { return *header_; }
  double total() const;
  // Of the leaves that are not zero; infinite where all are.
  double least() const;
  uint64_t leaves() const { return count_; }
  double leaf(uint64_t i) const;
  bool has(uint64_t i) const;

  // The leaves at which the running sum reaches these masses; never a zero one. At least one leaf
  // is not zero.
  void find(const double* masses, uint64_t count, Drawn* drawn) const;

  // Makes the leaves those of this list, and the snapshot that it was taken from.
  void follow(Drawable& drawable);

  // One update, in order: the last of duplicates wins, each counts for the largest. What was
  // overwritten meanwhile is left out. Of floats, which come from a device, those with the bits
  // `unwritten` are left out too; what is no priority becomes the largest. Doubles were looked at
  // before.
  template <typename Value>
  void update(const Drawable& drawable, const double* ids, const Value* priorities, uint64_t count);
  static constexpr uint32_t unwritten = 0xffffffffu;

  // Leaves, largest priority and what lanes are known up to were written by a restore: makes the
  // parents and what is counted of leaves. The next reader says its list again, which leaves what
  // was known as it is.
  void adopt();

  // For pure draws: all leaves at once.
  void set_all(const double* leaves);

 private:
  void came(uint64_t lane, uint64_t place) override;
  void went(uint64_t lane, uint64_t place) override;
  void forget(uint64_t lane) override;
  void reached(uint64_t lane, const Span& span) override;

  template <typename Value>
  uint64_t leaf_of(const Drawable& drawable, double given, const Value* priority);
  void set(uint64_t leaf, double value);
  // Makes every parent again whose children changed.
  void settle();
  void sort_dirty(size_t level);
  void mark_parents(size_t level);
  // The leaves of these priorities, in place; room for draws_at_once.
  void raise(double* priorities, uint64_t count) const;
  double raised(double priority);

  struct Level {
    double *sum, *least;
    uint64_t nodes;
  };
  TreeHeader* header_;
  // Per lane, the place up to which leaves were given.
  uint64_t* known_;
  uint64_t count_, lanes_, per_lane_;
  double* leaves_;
  // From the leaves' parents to the root.
  std::vector<Level> levels_;
  // Nodes of the level above that are to be made again: a list, and a bit for each.
  std::vector<uint64_t> dirty_, next_;
  std::vector<std::vector<uint64_t>> marked_;
  uint64_t reader_ = 0;
  // Places of a lane whose leaves were a predecessor's, while everything is said again.
  uint64_t kept_below_ = 0;
  std::vector<double> before_;
  std::vector<uint64_t> scratch_;
  double raised_from_ = -1, raised_to_ = 0;
};

// Importance weights. `least` is the least leaf of the tree or of the batch, as asked.
struct Weighing {
  enum Normalise : uint32_t { tree, batch, none };
  Normalise normalise;
  double beta, total, least;
  double drawn_from;
};
// What is raised to −beta to become the weight of a leaf.
double ratio_of(const Weighing& how, double value);

}  // namespace hotslot::rows
