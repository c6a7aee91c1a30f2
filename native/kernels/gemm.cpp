// The kernel `gemm`: C[m,n] = alpha·op(A)·op(B) + beta·C, row-major. A BLAS computes it, or the
// built-in product does. Devices without a BLAS run gemm.gk.
#include "kernels/gemm.hpp"

#include "kernels/need.hpp"

namespace hotslot {
namespace {

// Number of multiply-adds from which idle cores share a product. At this size two cores are 1.3
// times as fast as one: npm run bench -- gemm.
constexpr int64_t share_from = int64_t(3) << 23;

// Products of all shapes use the provider that gemm_provider() names. docs/reference/kernels.md has
// the figures.
void gemm(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b, int64_t m,
          int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, double alpha, double beta) {
  const float al = static_cast<float>(alpha), be = static_cast<float>(beta);
  if (gemm_blas(trans_a, trans_b, m, n, k, al, a, lda, b, ldb, be, c, ldc)) return;
  const MatrixView left = trans_a ? MatrixView{a, 1, lda} : MatrixView{a, lda, 1};
  const MatrixView right = trans_b ? MatrixView{b, 1, ldb} : MatrixView{b, ldb, 1};
  gemm_builtin(m, n, k, al, left, right, be, c, ldc, 0, share_from);
}

const char* need(const KernelArgs& args, Reach* reach) {
  // Opens the BLAS when arguments are checked, so that it is not opened in the middle of a stream.
  gemm_provider();
  Check check(args, reach);
  const bool trans_a = args.whole[0], trans_b = args.whole[1];
  check.at_least(0, "trans_a", 0), check.at_most(0, "trans_a", 1);
  check.at_least(1, "trans_b", 0), check.at_most(1, "trans_b", 1);
  static const char* const sizes[] = {"m", "n", "k", "lda", "ldb", "ldc"};
  for (int i = 0; i < 6; i++)
    check.size(2 + i, sizes[i]), check.at_most(2 + i, sizes[i], INT32_MAX);
  const int64_t m = args.whole[2], n = args.whole[3], k = args.whole[4];
  check.matrix(0, m, n, check.stride(7, "ldc", n));
  check.matrix(1, trans_a ? k : m, trans_a ? m : k, check.stride(5, "lda", trans_a ? m : k));
  check.matrix(2, trans_b ? n : k, trans_b ? k : n, check.stride(6, "ldb", trans_b ? k : n));
  check.finite(0, "alpha"), check.finite(1, "beta");
  return check.verdict();
}

}  // namespace

Kernel gemm_kernel() { return host_kernel<decltype(gemm), gemm>("gemm", need); }

}  // namespace hotslot
