// Uniform row indices, bit-equal to torch's CPU generator. draw() is a pure function, so any thread
// may call it.
#pragma once
#include <cstdint>

namespace hotslot::rows {

// Writes `count` indices below `size` (1 … 2³²−1). They equal those of torch's
// Generator('cpu').manual_seed(seed) and randint(0, size, (count,)). The low 32 bits of `seed` seed
// mt19937, and each index is next() % size, in order.
void draw(uint64_t seed, uint32_t size, uint32_t* out, uint64_t count);

}  // namespace hotslot::rows
