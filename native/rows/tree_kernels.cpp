// The vector forms of the tree: several draws go down side by side, chosen once for this processor.
#include "rows/tree_kernels.hpp"

#include <cstring>
#include <limits>

namespace hotslot::rows {
namespace {
namespace loops {

constexpr double infinite = std::numeric_limits<double>::infinity();
typedef double Line __attribute__((vector_size(64)));

// GCC takes the first element that is written for a read of its vector.
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
  if (__builtin_cpu_supports("avx512f")) return {by_8::descend, by_8::make};
  if (__builtin_cpu_supports("avx2")) return {by_4::descend, by_4::make};
#endif
  return {by_2::descend, by_2::make};
}

}  // namespace loops
}  // namespace

const TreeKernels& tree_kernels() {
  static const TreeKernels chosen = loops::best();
  return chosen;
}

}  // namespace hotslot::rows
