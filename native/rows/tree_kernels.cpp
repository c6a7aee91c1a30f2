// The vectorized loops of the priority tree, chosen once for this CPU. Each vector holds several
// draws, or several values to raise to a power.
#include "rows/tree_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace hotslot::rows {
namespace {
namespace loops {

constexpr double infinite = std::numeric_limits<double>::infinity();
typedef double Line __attribute__((vector_size(64)));

// Coefficients of 2^f for |f| ≤ ½: (ln 2)^i / i!.
constexpr double exp2_terms[] = {1,
                                 0.69314718055994530942,
                                 0.24022650695910071233,
                                 0.055504108664821579953,
                                 0.0096181291076284771620,
                                 0.0013333558146428443423,
                                 0.00015403530393381609954,
                                 0.000015252733804059840280,
                                 0.0000013215486790144309488,
                                 1.0178086009239699727e-7,
                                 7.0549116208011233299e-9,
                                 4.4455382718708114976e-10,
                                 2.5678435993488205142e-11,
                                 1.3691488853904128881e-12};

// GCC mistakes the first write to an element of a vector for a read of the vector.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define INLINE __attribute__((always_inline)) inline
#define KERNEL
namespace by_2 {
constexpr uint64_t width = 2;
#include "rows/tree_kernel_loops.hpp"
}  // namespace by_2
#undef KERNEL

#if defined(__x86_64__)
#define KERNEL __attribute__((target("avx2")))
namespace by_4 {
constexpr uint64_t width = 4;
#include "rows/tree_kernel_loops.hpp"
}  // namespace by_4
#undef KERNEL

#define KERNEL __attribute__((target("avx512f")))
namespace by_8 {
constexpr uint64_t width = 8;
#include "rows/tree_kernel_loops.hpp"
}  // namespace by_8
#undef KERNEL
#endif
#undef INLINE
#pragma GCC diagnostic pop

TreeKernels best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {by_8::descend, by_8::make, by_8::power};
  if (__builtin_cpu_supports("avx2")) return {by_4::descend, by_4::make, by_4::power};
#endif
  return {by_2::descend, by_2::make, by_2::power};
}

}  // namespace loops
}  // namespace

const TreeKernels& tree_kernels() {
  static const TreeKernels chosen = loops::best();
  return chosen;
}

}  // namespace hotslot::rows
