// Strided copies between arrays and one dense buffer, in native code, for the halo transformer on
// the CPU. The kernels halo8 to halo64 do the same on every device, and this is their host form.
#pragma once
#include <cstdint>

#include "kernels/kernel.hpp"

namespace hotslot {

constexpr int halo_max_rank = 8, halo_arrays = 10;

// One array's part of the buffer, as src/extras/halo/moves.ts encodes it. All counts are elements.
struct HaloMove {
  // unpacks: from the buffer into the array. negates: into the buffer, with every element's sign
  // bit flipped.
  static constexpr int64_t unpacks = 1, negates = 2;
  int64_t array;   // index of the array
  int64_t flags;   // `unpacks`, `negates`
  int64_t buffer;  // first element in the buffer
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

// Does all moves, large ones with the help of idle cores. Elements have 1, 2, 4 or 8 bytes. If a
// move reaches outside its array or the buffer, it writes nothing and returns a sentence that is
// valid until the next call on this thread.
const char* halo_move(const HaloMove* moves, int64_t n, int64_t itemsize, HaloArray buffer,
                      const HaloArray* arrays, int64_t n_arrays);

// `halo_moves_meet` returns whether the moves of two arrays have an element in common if the second
// array begins `shift` elements after the first. `halo_move_meets_itself` returns whether two of a
// move's elements are the same.
bool halo_moves_meet(const HaloMove& a, const HaloMove& b, int64_t shift);
bool halo_move_meets_itself(const HaloMove& move);

// Returns halo8, halo16, halo32 or halo64 from the registry.
const Kernel* halo_kernel(int64_t itemsize);
// Returns the kernels for the registry.
std::vector<Kernel> halo_kernels();

}  // namespace hotslot
