// The built-in matrix product: B is packed in panels as wide as a register tile, A is read where it lies.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/gemm.hpp"
#include "kernels/gemm_micro.hpp"

namespace hotslot {
namespace {

using Tile = void (*)(int64_t k, const float* a, int64_t row, int64_t column, const float* b, const micro::Target& to);

constexpr int most_rows = 12, most_width = 32;
// Block sizes: a packed panel of block_k × width stays in the first cache, a block_m × block_k piece of A in the
// second.
constexpr int64_t block_m = 120, block_n = 256, block_k = 256;

// One instruction set: tiles of 1…rows rows, one vector or two wide.
struct Isa {
  int rows, lanes;
  Tile tile[2][most_rows + 1];
};

#define HOTSLOT_ROW6(name, v) nullptr, name<1, v>, name<2, v>, name<3, v>, name<4, v>, name<5, v>, name<6, v>
#define HOTSLOT_ROW12(name, v) \
  HOTSLOT_ROW6(name, v), name<7, v>, name<8, v>, name<9, v>, name<10, v>, name<11, v>, name<12, v>
const Isa any_isa{6, 4, {{HOTSLOT_ROW6(micro::any, 1)}, {HOTSLOT_ROW6(micro::any, 2)}}};
#if defined(__x86_64__)
const Isa avx2_isa{6, 8, {{HOTSLOT_ROW6(micro::avx2, 1)}, {HOTSLOT_ROW6(micro::avx2, 2)}}};
const Isa avx512_isa{12, 16, {{HOTSLOT_ROW12(micro::avx512, 1)}, {HOTSLOT_ROW12(micro::avx512, 2)}}};
#endif

// The widest set this machine has with at most `lanes` lanes.
const Isa& choose_isa(int lanes) {
#if defined(__x86_64__)
  if (lanes >= 16 && __builtin_cpu_supports("avx512f")) return avx512_isa;
  if (lanes >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_isa;
#endif
  (void)lanes;
  return any_isa;
}

// to[p][j] = B[p, j] for `columns` columns. The rest of `width` is zero: those lanes are never stored, but what
// happened to lie there could be subnormal, and slow.
void pack_panel(float* to, MatrixView b, int64_t k, int64_t columns, int64_t width) {
  if (columns < width) std::fill(to, to + k * width, 0.0f);
  if (b.column == 1) {
    for (int64_t p = 0; p < k; p++) std::copy_n(b.at + p * b.row, columns, to + p * width);
  } else {
    for (int64_t j = 0; j < columns; j++)
      for (int64_t p = 0; p < k; p++) to[p * width + j] = b.at[p * b.row + j * b.column];
  }
}

struct Out {
  float* at;
  int64_t row, column;
};

// A tile that belongs transposed into C.
void scatter(Out c, const float* tile, int rows, int64_t columns, float beta) {
  for (int64_t j = 0; j < columns; j++)
    for (int r = 0; r < rows; r++) {
      float* const to = c.at + r * c.row + j * c.column;
      *to = beta == 0 ? tile[r * most_width + j] : beta * *to + tile[r * most_width + j];
    }
}

float* scratch() {
  static thread_local const std::unique_ptr<float[]> buffer(new float[block_k * (block_n + most_width)]);
  return buffer.get();
}

void multiply(const Isa& set, int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b, float beta,
              Out c) {
  float* const packed = scratch();
  alignas(64) float tile[most_rows * most_width];
  for (int64_t jc = 0; jc < n; jc += block_n) {
    const int64_t nc = std::min(block_n, n - jc);
    for (int64_t pc = 0; pc < k; pc += block_k) {
      const int64_t kc = std::min(block_k, k - pc);
      const float keep = pc == 0 ? beta : 1.0f;
      const int64_t wide = 2 * set.lanes;
      for (int64_t j = 0; j < nc; j += wide) {
        const int64_t columns = std::min(wide, nc - j);
        pack_panel(packed + j * kc, {b.at + pc * b.row + (jc + j) * b.column, b.row, b.column}, kc, columns,
                   columns <= set.lanes ? set.lanes : wide);
      }
      for (int64_t ic = 0; ic < m; ic += block_m) {
        const int64_t mc = std::min(block_m, m - ic);
        for (int64_t j = 0; j < nc; j += wide) {
          const int64_t columns = std::min(wide, nc - j), width = columns <= set.lanes ? set.lanes : wide;
          const Tile* tiles = set.tile[width == wide];
          for (int64_t i = ic; i < ic + mc; i += set.rows) {
            const int rows = int(std::min<int64_t>(set.rows, ic + mc - i));
            const Out out{c.at + i * c.row + (jc + j) * c.column, c.row, c.column};
            const bool straight = c.column == 1;
            const micro::Target to = straight ? micro::Target{out.at, out.row, columns, alpha, keep}
                                              : micro::Target{tile, most_width, columns, alpha, 0};
            tiles[rows](kc, a.at + i * a.row + pc * a.column, a.row, a.column, packed + j * kc, to);
            if (!straight) scatter(out, tile, rows, columns, keep);
          }
        }
      }
    }
  }
}

// Time of a product in vector operations: the tiles, and packing B, which is slow when its rows are not adjacent.
double cost(int64_t m, int64_t n, int64_t k, MatrixView b, int lanes) {
  return double(k) * (double(m) * double((n + lanes - 1) / lanes) + double(n) * (b.column == 1 ? 0.2 : 1.5));
}

}  // namespace

void gemm_builtin(int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b, float beta, float* c,
                  int64_t ldc, int lanes) {
  // Few columns fill few lanes: then Cᵀ = Bᵀ·Aᵀ may be cheaper. It sums in the same order, so the bits stay the same.
  const MatrixView at{a.at, a.column, a.row}, bt{b.at, b.column, b.row};
  static const Isa& best = choose_isa(16);
  const Isa& set = lanes ? choose_isa(lanes) : best;
  if (cost(n, m, k, at, set.lanes) < cost(m, n, k, b, set.lanes))
    multiply(set, n, m, k, alpha, bt, at, beta, {c, 1, ldc});
  else
    multiply(set, m, n, k, alpha, a, b, beta, {c, ldc, 1});
}

}  // namespace hotslot
