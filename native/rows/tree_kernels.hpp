// The inner loops of a priority tree, chosen once for this CPU. They descend one level for many
// draws, compute sums and minima of many nodes, and raise many values to a power. Every choice
// gives the same bits.
#pragma once
#include <cstdint>

namespace hotslot::rows {

// Number of children of a node. Their doubles fill a cache line.
constexpr uint64_t fan = 8;
// Largest number of draws that descend together.
constexpr uint64_t draws_at_once = 64;

struct TreeKernels {
  // Descends from each of the nodes at[0 … count) to the child in which the draw's mass lies, and
  // writes this child to `at`. Subtracts the sums to the left of the child from the mass. `sums`
  // has the children of node n from n × fan on. `at` and `masses` have room for draws_at_once, and
  // elements after `count` may be processed too.
  void (*descend)(const double* sums, uint64_t* at, double* masses, uint64_t count);
  // Computes sum[n] and least[n] from the children of n. If `nodes` is null, n is 0 … count − 1.
  // Else n is each of nodes[0 … count). `sums` and `leasts` have the children of n from n × fan on.
  // If `leasts` is null, the children are leaves, and zero leaves are excluded from the minimum.
  void (*make)(const double* sums, const double* leasts, const uint64_t* nodes, uint64_t count,
               double* sum, double* least);
  // Raises values[i] to the power of `exponent`, in place. The values must be finite and not
  // negative. The array has room for draws_at_once, and elements after `count` may be processed
  // too. Relative errors are below 2e-15 for exponents to ±1 and powers from 2^-16 to 2^16, and
  // below 1e-13 otherwise. An exponent of 0 or 1, or a value of 1, gives an exact result.
  void (*power)(double* values, uint64_t count, double exponent);
};

const TreeKernels& tree_kernels();

}  // namespace hotslot::rows
