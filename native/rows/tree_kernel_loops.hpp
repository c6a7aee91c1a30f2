// The loops of tree_kernels.hpp. tree_kernels.cpp includes this file once per instruction set,
// inside a namespace that defines how many draws fit in a vector (`width`). The macro KERNEL is the
// instruction set's target attribute. The loops have no branches, because they would be
// unpredictable. The file has no #pragma once, because it is included several times.

typedef double Numbers __attribute__((vector_size(width * 8)));
typedef int64_t Words __attribute__((vector_size(width * 8)));
typedef uint64_t Unsigned __attribute__((vector_size(width * 8)));

// Decides for each mass whether it lies in the right half. If it does, sets all bits of `to_right`
// and subtracts `left` from the mass. Never chooses a half whose sum is 0 if the other half's sum
// is positive. Without this rule, a mass that rounding made larger than `left` would go right even
// if `right` is 0.
KERNEL INLINE void go(const Numbers& left, const Numbers& right, Numbers& mass, Words& to_right) {
  to_right = (right > 0) & ((mass > left) | (left == 0));
  mass -= reinterpret_cast<Numbers>(to_right & reinterpret_cast<Words>(left));
}

KERNEL void descend(const double* sums, uint64_t* nodes, double* masses, uint64_t count) {
  for (uint64_t from = 0; from < count; from += width) {
    Words at, to_right;
    Numbers mass, c[fan];
    std::memcpy(&at, nodes + from, sizeof(at));
    std::memcpy(&mass, masses + from, sizeof(mass));
    at *= static_cast<int64_t>(fan);
    for (uint64_t i = 0; i < fan; ++i)
      for (uint64_t draw = 0; draw < width; ++draw)
        c[i][draw] = sums[static_cast<uint64_t>(at[draw]) + i];
    // Adds in pairs, as make() does.
    Numbers pair[4] = {c[0] + c[1], c[2] + c[3], c[4] + c[5], c[6] + c[7]};
    go(pair[0] + pair[1], pair[2] + pair[3], mass, to_right);
    at -= 4 * to_right;
    for (uint64_t i = 0; i < 4; ++i) c[i] = to_right ? c[i + 4] : c[i];
    for (uint64_t i = 0; i < 2; ++i) pair[i] = to_right ? pair[i + 2] : pair[i];
    go(pair[0], pair[1], mass, to_right);
    at -= 2 * to_right;
    for (uint64_t i = 0; i < 2; ++i) c[i] = to_right ? c[i + 2] : c[i];
    go(c[0], c[1], mass, to_right);
    at -= to_right;
    std::memcpy(nodes + from, &at, sizeof(at));
    std::memcpy(masses + from, &mass, sizeof(mass));
  }
}

// Computes x^y = 2^(y log2 x), in place. With x = 2^k m and m from √½ to √2, log2 x is k + log2 m.
// The natural logarithm of m is 2 atanh((m − 1) / (m + 1)), which is computed as a series.
KERNEL void power(double* values, uint64_t count, double exponent) {
  if (exponent == 1) return;
  // Adding to_whole to a small value leaves the nearest integer in the low bits.
  constexpr double to_whole = 6755399441055744, two_52 = 4503599627370496;
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcd, bias = uint64_t{1024} << 52,
                     bits_of_two_52 = uint64_t{0x433} << 52;
  double given[draws_at_once] = {};
  int64_t extreme[draws_at_once];
  Words any = {};
  std::copy_n(values, count, given);
  for (uint64_t from = 0; from < count; from += width) {
    Numbers x;
    std::memcpy(&x, values + from, sizeof(x));
    const Unsigned bits = reinterpret_cast<Unsigned>(x), k = (bits - root_half + bias) >> 52;
    const Numbers whole = reinterpret_cast<Numbers>(k | bits_of_two_52) - (two_52 + 1024);
    const Numbers m = reinterpret_cast<Numbers>(bits - (k << 52) + bias);
    const Numbers s = (m - 1) / (m + 1), z = s * s;
    Numbers series = Numbers{} + 1.0 / 23;
    for (int n = 21; n > 1; n -= 2) series = series * z + 1.0 / n;
    const Numbers fraction = (s + s * z * series) * 2.8853900817779268147;
    const Numbers high = whole * exponent, low = fraction * exponent,
                  shifted = high + low + to_whole;
    const Numbers near = shifted - to_whole, f = high - near + low;
    Numbers result = Numbers{} + exp2_terms[13];
    for (int i = 12; i >= 0; --i) result = result * f + exp2_terms[i];
    result = reinterpret_cast<Numbers>(reinterpret_cast<Unsigned>(result) +
                                       (reinterpret_cast<Unsigned>(shifted) << 52));
    // True for values that are zero or subnormal, or whose results would be near the ends of the
    // exponent range. std::pow() computes these below.
    const Words beyond = (x < 2.3e-308) | (near > 1000) | (near < -1000);
    any |= beyond;
    std::memcpy(extreme + from, &beyond, sizeof(beyond));
    std::memcpy(values + from, &result, sizeof(result));
  }
  int64_t none = 0;
  for (uint64_t i = 0; i < width; ++i) none |= any[i];
  for (uint64_t i = 0; i < count && none != 0; ++i)
    if (extreme[i] != 0) values[i] = std::pow(given[i], exponent);
}

KERNEL INLINE void keep_less(Line& least, const Line& other) {
  least = other < least ? other : least;
}

KERNEL void make(const double* sums, const double* leasts, const uint64_t* nodes, uint64_t count,
                 double* sum, double* least) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t node = nodes == nullptr ? i : nodes[i];
    Line s, l;
    std::memcpy(&s, sums + node * fan, sizeof(s));
    if (leasts == nullptr) {
      l = s > 0 ? s : s * 0 + infinite;
    } else {
      std::memcpy(&l, leasts + node * fan, sizeof(l));
    }
    // Adds neighbors, then pairs, then the two halves, into the first element.
    s += __builtin_shufflevector(s, s, 1, 0, 3, 2, 5, 4, 7, 6);
    keep_less(l, __builtin_shufflevector(l, l, 1, 0, 3, 2, 5, 4, 7, 6));
    s += __builtin_shufflevector(s, s, 2, 3, 0, 1, 6, 7, 4, 5);
    keep_less(l, __builtin_shufflevector(l, l, 2, 3, 0, 1, 6, 7, 4, 5));
    sum[node] = s[0] + s[4];
    least[node] = l[0] < l[4] ? l[0] : l[4];
  }
}
