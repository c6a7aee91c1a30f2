// Matrix products by a BLAS library or by the built-in product. gemm.cpp chooses one of them.
// blas.cpp and gemm_builtin.cpp compute.
#pragma once
#include <cstdint>

#include "kernels/kernel.hpp"

namespace hotslot {

// A matrix: its first element, and the distances in elements from one row and from one column to
// the next.
struct MatrixView {
  const float* at;
  int64_t row, column;
};

// The work on an element of a product before it is stored. With `bias`, the bias of its column is
// added, and with `relu`, an element below 0 then becomes 0. With `y`, an element becomes 0 if its
// element of y is not above 0. A product has a bias or a y, or neither.
struct Finish {
  const float* bias = nullptr;
  bool relu = false;
  const float* y = nullptr;
  int64_t y_stride = 0;
};

// Computes C[m,n] = alpha·A[m,k]·B[k,n] + beta·C, and finishes it. Rows of C are contiguous, and
// begin `ldc` elements apart. If beta is 0, C is not read.
//
// Each element is summed over k in a fixed order, so a machine always gives the same bits. From
// `share_from` multiply-adds on, idle cores share the work, which changes no bits.
//
// `lanes` is for tests: 4, 8 or 16 floats in a vector if the machine has such vectors, or 0 for the
// widest.
void gemm_builtin(int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b,
                  float beta, float* c, int64_t ldc, int lanes = 0, int64_t share_from = INT64_MAX,
                  const Finish* finish = nullptr);

// Returns the widest instruction set that the built-in product uses: 'AVX-512', 'AVX2' or ''.
const char* gemm_builtin_set();

// Multiplies row-major matrices by the BLAS that gemm_provider() names. Returns false if it names
// no BLAS.
bool gemm_blas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
               int64_t ldc);

// Computes C = alpha·op(A)·op(B) + beta·C, as the host form of the kernel `gemm`.
void host_gemm(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b,
               int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, double alpha,
               double beta);

// Computes C = op(A)·op(B) + beta·C. The built-in product finishes C. If a BLAS computes the
// product, the function returns false, and the caller finishes C.
bool host_gemm_finished(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b,
                        int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                        float beta, const Finish& finish);

// Returns the number of tiles of `batch` products [m, n] in product.gk.
uint64_t product_tiles(int64_t batch, int64_t m, int64_t n);

Kernel gemm_kernel();
Kernel gemm_batched_kernel();

}  // namespace hotslot
