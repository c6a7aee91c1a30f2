// Uniform row indices, bit-equal to torch's CPU generator. Pure functions, which any thread may
// call.
#pragma once
#include <cstdint>

namespace hotslot::rows {

// Writes `count` indices below `size` (1 … 2³²−1), as torch's Generator('cpu').manual_seed(seed)
// followed by randint(0, size, (count,)) gives them: mt19937 seeded by the low 32 bits, next() %
// size, in order.
void draw(uint64_t seed, uint32_t size, uint32_t* out, uint64_t count);

}  // namespace hotslot::rows
