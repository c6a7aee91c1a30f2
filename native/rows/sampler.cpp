// mt19937 as torch runs it. One draw seeds, so what costs is the seeding chain; words are twisted only as far as asked.
#include "rows/sampler.hpp"

namespace hotslot::rows {
namespace {

constexpr uint32_t state_words = 624;
constexpr uint32_t state_shift = 397;

inline uint32_t twist(uint32_t high, uint32_t low) {
  const uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ (0x9908b0dfu & (0u - (low & 1u)));
}

inline uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

void seed_words(uint32_t* word, uint32_t seed) {
  word[0] = seed;
  for (uint32_t i = 1; i < state_words; ++i) word[i] = 1812433253u * (word[i - 1] ^ (word[i - 1] >> 30)) + i;
}

// Replaces the first `up_to` words by the next generation. Word i needs i+1 and i+397 (mod 624), so a prefix stands
// alone.
void twist_prefix(uint32_t* word, uint32_t up_to) {
  const uint32_t first = up_to < state_words - state_shift ? up_to : state_words - state_shift;
  for (uint32_t i = 0; i < first; ++i) word[i] = word[i + state_shift] ^ twist(word[i], word[i + 1]);
  const uint32_t second = up_to < state_words - 1 ? up_to : state_words - 1;
  for (uint32_t i = first; i < second; ++i)
    word[i] = word[i - (state_words - state_shift)] ^ twist(word[i], word[i + 1]);
  if (up_to == state_words) word[state_words - 1] = word[state_shift - 1] ^ twist(word[state_words - 1], word[0]);
}

}  // namespace

void draw(uint64_t seed, uint32_t size, uint32_t* out, uint64_t count) {
  uint32_t word[state_words];
  seed_words(word, static_cast<uint32_t>(seed));
  // x % size by two multiplications (Lemire, "Faster remainders when the divisor is a constant"); exact for 32 bits.
  const uint64_t inverse = ~uint64_t{0} / size + 1;
  while (count > 0) {
    const uint32_t take = count < state_words ? static_cast<uint32_t>(count) : state_words;
    twist_prefix(word, take);
    for (uint32_t i = 0; i < take; ++i) {
      const uint64_t fraction = inverse * temper(word[i]);
      out[i] = static_cast<uint32_t>((static_cast<unsigned __int128>(fraction) * size) >> 64);
    }
    out += take;
    count -= take;
  }
}

}  // namespace hotslot::rows
