// Matrix products: which library they run on, and the built-in one. gemm.cpp chooses; blas.cpp and
// gemm_builtin.cpp compute.
#pragma once
#include <cstdint>

#include "kernels/kernel.hpp"

namespace hotslot {

// A matrix by its first element and the elements between rows and between columns.
struct MatrixView {
  const float* at;
  int64_t row, column;
};

// C[m,n] = alpha·A[m,k]·B[k,n] + beta·C; C's neighbours in a row are adjacent, its rows `ldc`
// apart. beta = 0 does not read C. Each element is summed over k in a fixed order, so a machine
// always gives the same bits. `lanes` is for tests: 4, 8 or 16 floats in a vector, where the
// machine has them; 0 takes the most. From `share_from` multiply-adds on idle cores take part,
// which changes no bits.
void gemm_builtin(int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b,
                  float beta, float* c, int64_t ldc, int lanes = 0, int64_t share_from = INT64_MAX);

// The instruction set that it multiplies with, where it has tiles for one: 'AVX-512', 'AVX2' or
// nothing.
const char* gemm_builtin_set();

// Row-major product by the BLAS that gemm_provider() names; false when there is none.
bool gemm_blas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
               int64_t ldc);

Kernel gemm_kernel();

}  // namespace hotslot
