// The kernels `gemm` and `gemm_batched`: C[m,n] = alpha·op(A)·op(B) + beta·C, row-major. A BLAS
// computes the products, or the built-in product does. Devices without a BLAS run product.gk.
#include "kernels/gemm.hpp"

#include "kernels/need.hpp"

namespace hotslot {
namespace {

// Number of multiply-adds from which idle cores share a product. At this size two cores are 1.3
// times as fast as one: npm run bench -- gemm.
constexpr int64_t share_from = int64_t(3) << 23;

}  // namespace

// Products of all shapes use the provider that gemm_provider() names. docs/reference/kernels.md has
// the figures.
static bool product(float* c, const float* a, const float* b, bool trans_a, bool trans_b, int64_t m,
                    int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, float alpha,
                    float beta, const Finish* finish) {
  if (gemm_blas(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return false;
  const MatrixView left = trans_a ? MatrixView{a, 1, lda} : MatrixView{a, lda, 1};
  const MatrixView right = trans_b ? MatrixView{b, 1, ldb} : MatrixView{b, ldb, 1};
  gemm_builtin(m, n, k, alpha, left, right, beta, c, ldc, 0, share_from, finish);
  return true;
}

void host_gemm(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b,
               int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, double alpha,
               double beta) {
  product(c, a, b, trans_a, trans_b, m, n, k, lda, ldb, ldc, float(alpha), float(beta), nullptr);
}
bool host_gemm_finished(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b,
                        int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                        float beta, const Finish& finish) {
  return product(c, a, b, trans_a, trans_b, m, n, k, lda, ldb, ldc, 1, beta, &finish);
}

namespace {

void gemm_batched(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b,
                  int64_t batch, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                  int64_t ldc, int64_t a_batch, int64_t b_batch, int64_t c_batch, double alpha,
                  double beta) {
  for (int64_t p = 0; p < batch; p++)
    host_gemm(c + p * c_batch, a + p * a_batch, b + p * b_batch, trans_a, trans_b, m, n, k, lda,
              ldb, ldc, alpha, beta);
}

// The rows, columns and row strides of the matrices C, A and B.
struct Shapes {
  int64_t rows[3], columns[3], strides[3];
};

// Checks the arguments of a product, of which m is whole number `first` and the next five follow
// it. Sets the reach of one product.
Shapes shapes(const KernelArgs& args, Check& check, int first) {
  // Opens the BLAS when arguments are checked, so that it is not opened in the middle of a stream.
  gemm_provider();
  const bool trans_a = args.whole[0], trans_b = args.whole[1];
  check.at_least(0, "trans_a", 0), check.at_most(0, "trans_a", 1);
  check.at_least(1, "trans_b", 0), check.at_most(1, "trans_b", 1);
  static const char* const sizes[] = {"m", "n", "k", "lda", "ldb", "ldc"};
  for (int i = 0; i < 6; i++)
    check.size(first + i, sizes[i]), check.at_most(first + i, sizes[i], INT32_MAX);
  const int64_t m = args.whole[first], n = args.whole[first + 1], k = args.whole[first + 2];
  Shapes of{{m, trans_a ? k : m, trans_b ? n : k}, {n, trans_a ? m : k, trans_b ? k : n}, {}};
  static const char* const strides[] = {"ldc", "lda", "ldb"};
  constexpr int places[] = {5, 3, 4};
  for (int i = 0; i < 3; i++) {
    of.strides[i] = check.stride(first + places[i], strides[i], of.columns[i]);
    check.matrix(i, of.rows[i], of.columns[i], of.strides[i]);
  }
  check.finite(0, "alpha"), check.finite(1, "beta");
  return of;
}

const char* need(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  shapes(args, check, 2);
  return check.verdict();
}

const char* need_batched(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  const int64_t batch = check.size(2, "batch");
  const Shapes of = shapes(args, check, 3);
  static const char* const strides[] = {"c_batch", "a_batch", "b_batch"};
  constexpr int places[] = {11, 9, 10};
  for (int i = 0; i < 3; i++) {
    check.at_least(places[i], strides[i], 0);
    // A batch of one product has the reach of `gemm`. A larger batch covers one run of elements.
    if (batch == 1 || check.verdict()) continue;
    const int64_t all = (of.rows[i] - 1) * of.strides[i] + of.columns[i];
    if (i == 0 && args.whole[places[i]] < all)
      check.say("c_batch must be at least the %lld elements of a product, got %lld", (long long)all,
                (long long)args.whole[places[i]]);
    const int64_t dimensions[] = {batch, all}, steps[] = {args.whole[places[i]], 1};
    check.dimensions(i, 2, dimensions, steps);
  }
  return check.verdict();
}

}  // namespace

uint64_t product_tiles(int64_t batch, int64_t m, int64_t n) {
  constexpr int64_t side = 16;
  return uint64_t(batch) * uint64_t((m + side - 1) / side) * uint64_t((n + side - 1) / side);
}

Kernel gemm_kernel() {
  Kernel kernel = host_kernel<decltype(host_gemm), host_gemm>("gemm", need);
  kernel.tiles = [](const int64_t* wholes) { return product_tiles(1, wholes[2], wholes[3]); };
  return kernel;
}
Kernel gemm_batched_kernel() {
  Kernel kernel = host_kernel<decltype(gemm_batched), gemm_batched>("gemm_batched", need_batched);
  kernel.tiles = [](const int64_t* wholes) {
    return product_tiles(wholes[2], wholes[3], wholes[4]);
  };
  return kernel;
}

}  // namespace hotslot
