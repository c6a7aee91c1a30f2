// The random generator mt19937, with the output of torch's CPU generator. Each draw() seeds a new
// generator, which takes most of its time. To save time, the generator computes only as many of its
// 624 words as are requested. A later request computes the next words.
#pragma once
#include <cstdint>

namespace hotslot::rows {

class Generator {
 public:
  // Uses the low 32 bits of `seed`, as torch does.
  explicit Generator(uint64_t seed = 0) {
    word_[0] = static_cast<uint32_t>(seed);
    for (uint32_t i = 1; i < words; ++i)
      word_[i] = 1812433253u * (word_[i - 1] ^ (word_[i - 1] >> 30)) + i;
  }

  uint32_t next() {
    if (at_ == twisted_) twist(64);
    return temper(word_[at_++]);
  }

  // Calls each(word) for the next `count` words.
  template <typename Each>
  void take(uint64_t count, Each&& each) {
    while (count > 0) {
      if (at_ == twisted_) twist(count < words ? static_cast<uint32_t>(count) : words);
      const uint32_t ready = twisted_ - at_,
                     some = count < ready ? static_cast<uint32_t>(count) : ready;
      const uint32_t* from = word_ + at_;
      for (uint32_t i = 0; i < some; ++i) each(temper(from[i]));
      at_ += some;
      count -= some;
    }
  }

  // Returns a number in [0, 1) with 53 random bits, as torch's float64 uniform does.
  double next_double() {
    const uint64_t high = next(), low = next();
    return static_cast<double>((high << 32 | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }

 private:
  static constexpr uint32_t words = 624, shift = 397;

  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  static uint32_t mix(uint32_t high, uint32_t low) {
    const uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (mixed >> 1) ^ (0x9908b0dfu & (0u - (mixed & 1u)));
  }

  // Computes up to `more` of the 624 words of this generation. If all of them are used, begins the
  // next generation. Word i depends on words i + 1 and i + 397 (mod 624), so the words can be
  // computed in pieces.
  void twist(uint32_t more) {
    if (at_ == words) at_ = twisted_ = 0;
    const uint32_t to = twisted_ + more < words ? twisted_ + more : words;
    const uint32_t first = to < words - shift ? to : words - shift,
                   second = to < words - 1 ? to : words - 1;
    uint32_t i = twisted_;
    for (; i < first; ++i) word_[i] = word_[i + shift] ^ mix(word_[i], word_[i + 1]);
    for (; i < second; ++i) word_[i] = word_[i + shift - words] ^ mix(word_[i], word_[i + 1]);
    if (i < to) word_[i] = word_[shift - 1] ^ mix(word_[i], word_[0]);
    twisted_ = to;
  }

  uint32_t word_[words];
  // Index of the next word to return, and number of words of this generation that are computed.
  uint32_t at_ = 0, twisted_ = 0;
};

}  // namespace hotslot::rows
