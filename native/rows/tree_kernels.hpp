// The inner loops of a priority tree, chosen once for this processor: down one level for many
// draws, the sums and leasts of many nodes, and powers of many numbers. Every choice gives the same
// bits.
#pragma once
#include <cstdint>

namespace hotslot::rows {

// Children of a node: a cache line of doubles.
constexpr uint64_t fan = 8;
// Draws that go down together, at most.
constexpr uint64_t draws_at_once = 64;

struct TreeKernels {
  // Goes from the nodes at[0 … count) to those of their children in which the masses lie, and takes
  // off each mass what lies left of that child. `sums` holds the children of node n from n × fan
  // on; at and masses have room for draws_at_once, some of which behind count may be taken along.
  void (*descend)(const double* sums, uint64_t* at, double* masses, uint64_t count);
  // Makes sum[n] and least[n] of the children of each of these nodes, or of the first `count` where
  // `nodes` is null. Null `leasts`: the children are leaves, of which those that are zero have no
  // part in the least.
  void (*make)(const double* sums, const double* leasts, const uint64_t* nodes, uint64_t count,
               double* sum, double* least);
  // values[i] to the power of `exponent`, in place; finite values that are not negative, room for
  // draws_at_once, some behind count are taken along. Relative errors below 2e-15 for exponents to
  // ±1 and powers from 2^-16 to 2^16, below 1e-13 for all; none for an exponent of 0 or 1, or a
  // value of 1.
  void (*power)(double* values, uint64_t count, double exponent);
};

const TreeKernels& tree_kernels();

}  // namespace hotslot::rows
