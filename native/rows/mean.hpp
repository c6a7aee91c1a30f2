// The mean of vectors. It adds the vectors in the order in which they are given, so equal vectors
// give equal bits in every process.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace hotslot::rows {

// Writes the mean of `vectors` to `to`. Sums in float64 and rounds once to float32. `to` may be one
// of `vectors`.
inline void mean(float* to, const std::vector<const float*>& vectors, size_t length) {
  constexpr size_t block = 512;
  double sum[block];
  const double count = static_cast<double>(vectors.size());
  for (size_t from = 0; from < length; from += block) {
    const size_t n = std::min(block, length - from);
    std::fill(sum, sum + n, 0.0);
    for (const float* vector : vectors)
      for (size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(vector[from + i]);
    for (size_t i = 0; i < n; ++i) to[from + i] = static_cast<float>(sum[i] / count);
  }
}

}  // namespace hotslot::rows
