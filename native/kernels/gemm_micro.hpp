// The innermost product, defined once for each instruction set. A tile of R rows × V vectors stays
// in registers while the loop runs over k. The product uses fused multiply-adds if the CPU has
// them, so AVX2 and AVX-512 give the same bits. Only gemm_builtin.cpp includes this file.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotslot::micro {

// The work on the elements of a tile before it stores them. With y, elements become 0 if their
// element of y is not above 0. Without y, the bias of the column is added, and elements below `low`
// become `low`.
struct Finish {
  const float *bias, *y;
  int64_t y_row;
  float low;
};

// The memory to which a tile is stored. Only `columns` columns of the memory exist. If beta is 0,
// the memory is not read.
struct Target {
  float* at;
  int64_t row, columns;
  float alpha, beta;
  const Finish* finish;
};

// Defines a function that computes to = alpha·Σ_p a[r·row + p·column] · b[p·step + …] + beta·to and
// finishes it. It reads V full vectors from each row of b. With `cut`, it reads only the columns
// that exist.
#define HOTSLOT_MICRO(name, attribute, lanes, isa)                                                 \
  template <int R, int V, bool cut = false>                                                        \
  attribute void name(int64_t k, const float* a, int64_t row, int64_t column, const float* b,      \
                      int64_t step, const Target& to) {                                            \
    using namespace isa;                                                                           \
    vector sum[R][V];                                                                              \
    _Pragma("GCC unroll 12") for (int r = 0; r < R; r++)                                           \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) sum[r][v] = splat(0);                  \
    for (int64_t p = 0; p < k; p++, a += column, b += step) {                                      \
      vector right[V];                                                                             \
      _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) right[v] =                               \
          cut ? Part(to.columns - v * lanes).load(b + v * lanes) : load(b + v * lanes);            \
      _Pragma("GCC unroll 12") for (int r = 0; r < R; r++) {                                       \
        const vector left = splat(a[r * row]);                                                     \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) sum[r][v] =                            \
            multiply_add(left, right[v], sum[r][v]);                                               \
      }                                                                                            \
    }                                                                                              \
    const vector alpha = splat(to.alpha), beta = splat(to.beta);                                   \
    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)                                            \
        _Pragma("GCC unroll 12") for (int r = 0; r < R; r++) sum[r][v] =                           \
            multiply(alpha, sum[r][v]);                                                            \
    if (to.beta != 0) _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                        \
        const Part part(to.columns - v * lanes);                                                   \
        _Pragma("GCC unroll 12") for (int r = 0; r < R; r++) sum[r][v] =                           \
            add(multiply(beta, part.load(to.at + r * to.row + v * lanes)), sum[r][v]);             \
      }                                                                                            \
    if (to.finish != nullptr && to.finish->y != nullptr)                                           \
      _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                        \
        const Part part(to.columns - v * lanes);                                                   \
        _Pragma("GCC unroll 12") for (int r = 0; r < R; r++) sum[r][v] =                           \
            where_positive(part.load(to.finish->y + r * to.finish->y_row + v * lanes), sum[r][v]); \
      }                                                                                            \
    else if (to.finish != nullptr)                                                                 \
      _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                        \
        const vector low = splat(to.finish->low),                                                  \
                     bias = Part(to.columns - v * lanes).load(to.finish->bias + v * lanes);        \
        _Pragma("GCC unroll 12") for (int r = 0; r < R; r++) sum[r][v] =                           \
            greater(low, add(sum[r][v], bias));                                                    \
      }                                                                                            \
    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                          \
      const Part part(to.columns - v * lanes);                                                     \
      _Pragma("GCC unroll 12") for (int r = 0; r < R; r++)                                         \
          part.store(to.at + r * to.row + v * lanes, sum[r][v]);                                   \
    }                                                                                              \
  }

// Defines a function that computes sixteen partial sums of each Σ_p a[r·a_row + p] · b[j·b_row +
// p]. a and b are contiguous along p. For every width of vectors, partial sum l has the products l,
// l + 16, …
#define HOTSLOT_DOT(name, attribute, lanes, isa)                                               \
  template <int R, int N>                                                                      \
  attribute void name(int64_t k, const float* a, int64_t a_row, const float* b, int64_t b_row, \
                      float* out) {                                                            \
    using namespace isa;                                                                       \
    constexpr int L = 16 / lanes;                                                              \
    vector sum[R][N][L];                                                                       \
    _Pragma("GCC unroll 4") for (int r = 0; r < R; r++)                                        \
        _Pragma("GCC unroll 2") for (int j = 0; j < N; j++)                                    \
            _Pragma("GCC unroll 4") for (int l = 0; l < L; l++) sum[r][j][l] = splat(0);       \
    int64_t p = 0;                                                                             \
    for (; p + 16 <= k; p += 16) _Pragma("GCC unroll 4") for (int l = 0; l < L; l++) {         \
        vector right[N];                                                                       \
        _Pragma("GCC unroll 2") for (int j = 0; j < N; j++) right[j] =                         \
            load(b + j * b_row + p + l * lanes);                                               \
        _Pragma("GCC unroll 4") for (int r = 0; r < R; r++) {                                  \
          const vector left = load(a + r * a_row + p + l * lanes);                             \
          _Pragma("GCC unroll 2") for (int j = 0; j < N; j++) sum[r][j][l] =                   \
              multiply_add(left, right[j], sum[r][j][l]);                                      \
        }                                                                                      \
      }                                                                                        \
    _Pragma("GCC unroll 4") for (int l = 0; l < L; l++) {                                      \
      if (p + l * lanes >= k) break;                                                           \
      const Part part(k - p - l * lanes);                                                      \
      _Pragma("GCC unroll 4") for (int r = 0; r < R; r++)                                      \
          _Pragma("GCC unroll 2") for (int j = 0; j < N; j++) sum[r][j][l] =                   \
              multiply_add(part.load(a + r * a_row + p + l * lanes),                           \
                           part.load(b + j * b_row + p + l * lanes), sum[r][j][l]);            \
    }                                                                                          \
    const Part whole(lanes);                                                                   \
    _Pragma("GCC unroll 4") for (int r = 0; r < R; r++)                                        \
        _Pragma("GCC unroll 2") for (int j = 0; j < N; j++)                                    \
            _Pragma("GCC unroll 4") for (int l = 0; l < L; l++)                                \
                whole.store(out + (r * N + j) * 16 + l * lanes, sum[r][j][l]);                 \
  }

// Vectors of four lanes that the compiler provides for any CPU.
namespace any_isa {
typedef float vector __attribute__((vector_size(16), aligned(4)));
inline vector load(const float* p) { return *reinterpret_cast<const vector*>(p); }
inline vector splat(float x) { return vector{x, x, x, x}; }
inline vector add(vector a, vector b) { return a + b; }
inline vector multiply(vector a, vector b) { return a * b; }
inline vector multiply_add(vector a, vector b, vector c) { return a * b + c; }
// Returns a if a is greater, else b, also if one of them is NaN.
inline vector greater(vector a, vector b) { return a > b ? a : b; }
inline vector where_positive(vector y, vector a) { return y > splat(0) ? a : splat(0); }
// The first `count` lanes of a vector in memory: all lanes if `count` is larger, no lane if it is
// not positive. A tile may be wider than the remaining columns.
struct Part {
  explicit Part(int64_t count) : count(count < 4 ? int(count) : 4) {}
  vector load(const float* p) const {
    vector v = splat(0);
    for (int i = 0; i < count; i++) v[i] = p[i];
    return v;
  }
  void store(float* p, vector v) const {
    for (int i = 0; i < count; i++) p[i] = v[i];
  }
  int count;
};
}  // namespace any_isa
HOTSLOT_MICRO(any, , 4, any_isa)
HOTSLOT_DOT(any_dot, , 4, any_isa)

#if defined(__x86_64__)
#define HOTSLOT_INLINE(target_name) __attribute__((target(target_name), always_inline)) inline

namespace avx2_isa {
#define HOTSLOT_AVX2 HOTSLOT_INLINE("avx2,fma")
typedef __m256 vector;
HOTSLOT_AVX2 vector load(const float* p) { return _mm256_loadu_ps(p); }
HOTSLOT_AVX2 vector splat(float x) { return _mm256_set1_ps(x); }
HOTSLOT_AVX2 vector add(vector a, vector b) { return _mm256_add_ps(a, b); }
HOTSLOT_AVX2 vector multiply(vector a, vector b) { return _mm256_mul_ps(a, b); }
HOTSLOT_AVX2 vector multiply_add(vector a, vector b, vector c) { return _mm256_fmadd_ps(a, b, c); }
HOTSLOT_AVX2 vector greater(vector a, vector b) { return _mm256_max_ps(a, b); }
HOTSLOT_AVX2 vector where_positive(vector y, vector a) {
  return _mm256_and_ps(_mm256_cmp_ps(y, splat(0), _CMP_GT_OQ), a);
}
struct Part {
  HOTSLOT_AVX2 explicit Part(int64_t count)
      : mask(_mm256_cmpgt_epi32(_mm256_set1_epi32(count < 8 ? int(count) : 8),
                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  HOTSLOT_AVX2 vector load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  HOTSLOT_AVX2 void store(float* p, vector v) const { _mm256_maskstore_ps(p, mask, v); }
  __m256i mask;
};
#undef HOTSLOT_AVX2
}  // namespace avx2_isa
HOTSLOT_MICRO(avx2, __attribute__((target("avx2,fma"))), 8, avx2_isa)
HOTSLOT_DOT(avx2_dot, __attribute__((target("avx2,fma"))), 8, avx2_isa)

namespace avx512_isa {
#define HOTSLOT_AVX512 HOTSLOT_INLINE("avx512f")
typedef __m512 vector;
HOTSLOT_AVX512 vector load(const float* p) { return _mm512_loadu_ps(p); }
HOTSLOT_AVX512 vector splat(float x) { return _mm512_set1_ps(x); }
HOTSLOT_AVX512 vector add(vector a, vector b) { return _mm512_add_ps(a, b); }
HOTSLOT_AVX512 vector multiply(vector a, vector b) { return _mm512_mul_ps(a, b); }
HOTSLOT_AVX512 vector multiply_add(vector a, vector b, vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
// GCC 12 warns of _mm512_max_ps(), whose header has an undefined vector.
HOTSLOT_AVX512 vector greater(vector a, vector b) { return _mm512_maskz_max_ps(0xffff, a, b); }
HOTSLOT_AVX512 vector where_positive(vector y, vector a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, splat(0), _CMP_GT_OQ), a);
}
struct Part {
  HOTSLOT_AVX512 explicit Part(int64_t count)
      : mask(count <= 0   ? __mmask16(0)
             : count < 16 ? __mmask16((1u << count) - 1)
                          : __mmask16(0xffff)) {}
  HOTSLOT_AVX512 vector load(const float* p) const { return _mm512_maskz_loadu_ps(mask, p); }
  HOTSLOT_AVX512 void store(float* p, vector v) const { _mm512_mask_storeu_ps(p, mask, v); }
  __mmask16 mask;
};
#undef HOTSLOT_AVX512
}  // namespace avx512_isa
HOTSLOT_MICRO(avx512, __attribute__((target("avx512f"))), 16, avx512_isa)
HOTSLOT_DOT(avx512_dot, __attribute__((target("avx512f"))), 16, avx512_isa)
#undef HOTSLOT_INLINE
#endif
#undef HOTSLOT_MICRO
#undef HOTSLOT_DOT

}  // namespace hotslot::micro
