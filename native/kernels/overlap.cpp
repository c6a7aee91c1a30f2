// Finds two pointers of a launch that share an element, if a thread of the kernel writes this
// element. Checks only the core's own kernels.
#include "kernels/overlap.hpp"

#include "kernels/kernel.hpp"

namespace hotslot {

namespace {

// Returns the bytes that a launch touches through a pointer: rows of `width` bytes, or one
// contiguous run of bytes.
Overlap::Part touched(uintptr_t at, const Reach& reach) {
  Overlap::Part part;
  part.base = int64_t(at);
  const uint64_t step = reach.gap_step(), width = step ? (reach.bytes - 1) % step + 1 : reach.bytes;
  part.add(int64_t(width), 1);
  if (step) part.add(int64_t((reach.bytes - width) / step + 1), int64_t(step));
  return part;
}

}  // namespace

Clash clash(const Kernel& kernel, const uintptr_t* at, const Reach* reach) {
  if (kernel.module) return {};
  for (int i = 0; i < kernel.pointers; ++i) {
    if (!(kernel.writes >> i & 1) || reach[i].bytes == 0) continue;
    for (int j = 0; j < kernel.pointers; ++j) {
      // A pair of two written pointers is checked only once.
      if (j == i || (j < i && (kernel.writes >> j & 1)) || reach[j].bytes == 0) continue;
      if (at[i] >= at[j] + reach[j].bytes || at[j] >= at[i] + reach[i].bytes) continue;
      if ((kernel.shares >> i & 1) && (kernel.shares >> j & 1)) continue;
      const bool in_place = (i == 0 || (kernel.in_place >> i & 1)) && (kernel.in_place >> j & 1);
      if (in_place && at[i] == at[j] && reach[i].same_rows(reach[j])) continue;
      if (Overlap::meet(touched(at[i], reach[i]), touched(at[j], reach[j]))) return {i, j};
    }
  }
  return {};
}

}  // namespace hotslot
