// Strided copies between arrays and one dense buffer, in native code: what the halo transformer
// does on the processor. The kernels halo8 to halo64 do the same on every device; their host form
// is this one.
#pragma once
#include <cstdint>

#include "kernels/kernel.hpp"

namespace hotslot {

constexpr int halo_max_rank = 8, halo_arrays = 10;

// One array's part of the buffer, as src/extras/halo/moves.ts encodes it. All counts are elements.
struct HaloMove {
  // From the buffer into the array; the sign bit of every element is turned, into the buffer.
  static constexpr int64_t unpacks = 1, negates = 2;
  int64_t array;   // which one
  int64_t flags;   // of these two
  int64_t buffer;  // first element there
  int64_t count;   // the product of the extents
  int64_t base;    // the part's first element in the array
  int64_t rank;
  struct {
    int64_t extent, step;  // steps are signed
  } dims[halo_max_rank];
};
static_assert(sizeof(HaloMove) == (6 + 2 * halo_max_rank) * sizeof(int64_t),
              "halo.gk reads these words");

struct HaloArray {
  void* at;
  int64_t elements;
};

// Does all moves, large ones with the help of idle cores; elements are of 1, 2, 4 or 8 bytes.
// Nothing is written and a sentence comes back when a move reaches outside its array or the buffer;
// it is good until the next call on this thread.
const char* halo_move(const HaloMove* moves, int64_t n, int64_t itemsize, HaloArray buffer,
                      const HaloArray* arrays, int64_t n_arrays);

// Whether the moves of two arrays have an element in common where the second array begins `shift`
// elements after the first; and whether two of a move's elements are one.
bool halo_moves_meet(const HaloMove& a, const HaloMove& b, int64_t shift);
bool halo_move_meets_itself(const HaloMove& move);

// halo8, halo16, halo32, halo64, in the registry.
const Kernel* halo_kernel(int64_t itemsize);
// What the registry is made of.
std::vector<Kernel> halo_kernels();

}  // namespace hotslot
