// Strided copies between arrays and one dense buffer, for the halo transformer on the CPU. The
// kernels halo8 to halo64 do the same on every device, and this is their host form.
#pragma once
#include <cstdint>

#include "kernels/kernel.hpp"

namespace hotslot {

constexpr int halo_max_rank = 8, halo_arrays = 10;

// A copy between a part of one array and a part of the buffer, as src/extras/halo/moves.ts encodes
// it. All counts are in elements.
struct HaloMove {
  // Bits of `flags`. unpacks: copies from the buffer to the array. negates: copies to the buffer,
  // and flips the sign bit of every element.
  static constexpr int64_t unpacks = 1, negates = 2;
  int64_t array;   // index of the array in the list of arrays
  int64_t flags;   // `unpacks`, `negates`
  int64_t buffer;  // first element in the buffer
  int64_t count;   // number of elements, the product of the extents
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

// Does all moves, and shares large ones with idle cores. Elements have 1, 2, 4 or 8 bytes. If a
// move reaches outside its array or the buffer, writes nothing and returns a sentence. The sentence
// is valid until the next call on this thread. Returns null on success.
const char* halo_move(const HaloMove* moves, int64_t n, int64_t itemsize, HaloArray buffer,
                      const HaloArray* arrays, int64_t n_arrays);

// halo_moves_meet() returns whether the moves of two arrays share an element, if the second array
// begins `shift` elements after the first. halo_move_meets_itself() returns whether two different
// indices of a move are the same element.
bool halo_moves_meet(const HaloMove& a, const HaloMove& b, int64_t shift);
bool halo_move_meets_itself(const HaloMove& move);

// Returns halo8, halo16, halo32 or halo64 from the registry, by the bytes of an element.
const Kernel* halo_kernel(int64_t itemsize);
// Returns these four kernels for the registry.
std::vector<Kernel> halo_kernels();

}  // namespace hotslot
