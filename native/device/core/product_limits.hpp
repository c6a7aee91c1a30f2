// Which products a card with cuBLAS computes with Hotslot's own kernel. `npm run bench -- products
// --write` measures the limits on a card and writes them to this file.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace hotslot {

// Hotslot's own kernel computes products of at most `multiply_adds` = m·n·k, whose sums have at
// most `terms` = k terms. cuBLAS computes all others.
struct ProductLimits {
  int64_t multiply_adds, terms;
};

// H100, 27 November 2026: 9.1 µs at 256 × 256 × 256, where products of cuBLAS take 5 to 15 µs
constexpr ProductLimits measured_limits{16777216, 512};

// With HOTSLOT_OWN_PRODUCTS=none, cuBLAS computes all products.
inline ProductLimits product_limits() {
  const char* const asked = std::getenv("HOTSLOT_OWN_PRODUCTS");
  if (asked && std::strcmp(asked, "none") == 0) return {0, 0};
  return measured_limits;
}

inline bool is_own_product(int64_t m, int64_t n, int64_t k) {
  static const ProductLimits limits = product_limits();
  // Sizes are below 2^31, so the product of two of them does not overflow.
  return k <= limits.terms && m * n <= limits.multiply_adds / (k > 0 ? k : 1);
}

}  // namespace hotslot
