// The inner loops of a priority tree, chosen once for this CPU. They descend many draws by one
// level, compute sums and minima of many nodes, and take powers of many numbers. Every choice gives
// the same bits.
#pragma once
#include <cstdint>

namespace hotslot::rows {

// Children of a node: a cache line of doubles.
constexpr uint64_t fan = 8;
// Most draws that descend together.
constexpr uint64_t draws_at_once = 64;

struct TreeKernels {
  // Descends from the nodes at[0 … count) to those of their children in which the masses lie, and
  // subtracts from each mass the sums left of that child. `sums` holds the children of node n from
  // n × fan on. `at` and `masses` have room for draws_at_once, and elements after `count` may be
  // processed too.
  void (*descend)(const double* sums, uint64_t* at, double* masses, uint64_t count);
  // Computes sum[n] and least[n] from the children of each of these nodes, or of the first `count`
  // nodes if `nodes` is null. If `leasts` is null, the children are leaves, and zero leaves are
  // excluded from the minimum.
  void (*make)(const double* sums, const double* leasts, const uint64_t* nodes, uint64_t count,
               double* sum, double* least);
  // Raises values[i] to the power of `exponent`, in place. The values are finite and not negative,
  // the array has room for draws_at_once, and elements after `count` may be processed too. Relative
  // errors are below 2e-15 for exponents to ±1 and powers from 2^-16 to 2^16, and below 1e-13 for
  // all. An exponent of 0 or 1, or a value of 1, gives an exact result.
  void (*power)(double* values, uint64_t count, double exponent);
};

const TreeKernels& tree_kernels();

}  // namespace hotslot::rows
