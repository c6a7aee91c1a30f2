// Draws uniform indices from one generator.
#include "rows/sampler.hpp"

#include "rows/generator.hpp"

namespace hotslot::rows {

void draw(uint64_t seed, uint32_t size, uint32_t* out, uint64_t count) {
  Generator generator(seed);
  // Computes word % size with two multiplications (Lemire, "Faster remainders when the divisor is a
  // constant"). The result is exact for 32 bits.
  const uint64_t inverse = ~uint64_t{0} / size + 1;
  generator.take(count, [&out, inverse, size](uint32_t word) {
    const uint64_t fraction = inverse * word;
    *out++ = static_cast<uint32_t>((static_cast<unsigned __int128>(fraction) * size) >> 64);
  });
}

}  // namespace hotslot::rows
