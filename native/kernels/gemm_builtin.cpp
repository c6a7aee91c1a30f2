// The built-in matrix product. It packs B into panels as wide as a register tile, or reads B in
// place if few rows of A use it. It reads A in place, or packs A if neighbors in a row of A are far
// apart.
//
// Products with few rows use wider tiles. If both matrices are contiguous along k and one of them
// has few rows, the product is computed as dot products.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include "kernels/gemm.hpp"
#include "kernels/gemm_micro.hpp"
#include "wait/idle_cores.hpp"
#include "wait/thread_own.hpp"

namespace hotslot {
namespace {

using Tile = void (*)(int64_t k, const float* a, int64_t row, int64_t column, const float* b,
                      int64_t step, const micro::Target& to);
using Dot = void (*)(int64_t k, const float* a, int64_t a_row, const float* b, int64_t b_row,
                     float* out);

constexpr int max_rows = 12, max_width = 64, max_dots = 4;
// Block sizes. A packed panel of block_k × width stays in the L1 cache, and a block_m × block_k
// piece of A stays in the L2 cache.
constexpr int64_t block_m = 120, block_n = 256, block_k = 256;

// The functions of one instruction set. `tile` has tiles of 1…rows rows that are one or two vectors
// wide. It also has tiles of 1…few rows that are four vectors wide. `cut` has tiles of 1…few rows
// whose last columns are masked. `dot` has dot products of 1…dots rows by one or two columns.
struct Isa {
  int rows, few, lanes;
  Tile tile[3][max_rows + 1], cut[3][max_dots + 1];
  int dots;
  Dot dot[2][max_dots + 1];
  int vectors(int64_t columns) const { return columns > 2 * lanes ? 2 : columns > lanes; }
  int64_t width(int64_t columns) const {
    return columns > 2 * lanes ? 4 * lanes : columns > lanes ? 2 * lanes : lanes;
  }
};

#define HOTSLOT_ROW2(name, v) nullptr, name<1, v>, name<2, v>
#define HOTSLOT_ROW4(name, v) HOTSLOT_ROW2(name, v), name<3, v>, name<4, v>
#define HOTSLOT_CUT2(name, v) nullptr, name<1, v, true>, name<2, v, true>
#define HOTSLOT_CUT4(name, v) HOTSLOT_CUT2(name, v), name<3, v, true>, name<4, v, true>
#define HOTSLOT_ROW6(name, v) HOTSLOT_ROW4(name, v), name<5, v>, name<6, v>
#define HOTSLOT_ROW12(name, v) \
  HOTSLOT_ROW6(name, v), name<7, v>, name<8, v>, name<9, v>, name<10, v>, name<11, v>, name<12, v>
#define HOTSLOT_SIX(name)                                                               \
  {{HOTSLOT_ROW6(name, 1)}, {HOTSLOT_ROW6(name, 2)}, {HOTSLOT_ROW2(name, 4)}},          \
      {{HOTSLOT_CUT2(name, 1)}, {HOTSLOT_CUT2(name, 2)}, {HOTSLOT_CUT2(name, 4)}}, 2, { \
    {HOTSLOT_ROW2(name##_dot, 1)}, { HOTSLOT_ROW2(name##_dot, 2) }                      \
  }
const Isa any_isa{6, 2, 4, HOTSLOT_SIX(micro::any)};
#if defined(__x86_64__)
const Isa avx2_isa{6, 2, 8, HOTSLOT_SIX(micro::avx2)};
const Isa avx512_isa{12,
                     4,
                     16,
                     {{HOTSLOT_ROW12(micro::avx512, 1)},
                      {HOTSLOT_ROW12(micro::avx512, 2)},
                      {HOTSLOT_ROW4(micro::avx512, 4)}},
                     {{HOTSLOT_CUT4(micro::avx512, 1)},
                      {HOTSLOT_CUT4(micro::avx512, 2)},
                      {HOTSLOT_CUT4(micro::avx512, 4)}},
                     4,
                     {{HOTSLOT_ROW4(micro::avx512_dot, 1)}, {HOTSLOT_ROW4(micro::avx512_dot, 2)}}};
#endif

// Returns this machine's widest instruction set that has at most `lanes` floats in a vector.
const Isa& choose_isa(int lanes) {
#if defined(__x86_64__)
  if (lanes >= 16 && __builtin_cpu_supports("avx512f")) return avx512_isa;
  if (lanes >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2_isa;
#endif
  (void)lanes;
  return any_isa;
}

// Packs a panel: to[p][j] = B[p, j] for `columns` columns. Sets the other columns of `width` to
// zero. A tile computes these columns too, but never stores them. Without the zeros they could hold
// subnormal values, with which the CPU computes slowly.
void pack_panel(float* to, MatrixView b, int64_t k, int64_t columns, int64_t width) {
  if (columns < width) std::fill(to, to + k * width, 0.0f);
  if (b.column == 1) {
    for (int64_t p = 0; p < k; p++) std::copy_n(b.at + p * b.row, columns, to + p * width);
    return;
  }
  int64_t j = 0;
#if defined(__x86_64__)
  // Transposes blocks of four by four in registers.
  for (; b.row == 1 && j + 4 <= columns; j += 4) {
    const float* const from = b.at + j * b.column;
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      __m128 r0 = _mm_loadu_ps(from + p), r1 = _mm_loadu_ps(from + b.column + p),
             r2 = _mm_loadu_ps(from + 2 * b.column + p), r3 = _mm_loadu_ps(from + 3 * b.column + p);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      float* const at = to + p * width + j;
      _mm_storeu_ps(at, r0), _mm_storeu_ps(at + width, r1);
      _mm_storeu_ps(at + 2 * width, r2), _mm_storeu_ps(at + 3 * width, r3);
    }
    for (; p < k; p++)
      for (int64_t i = 0; i < 4; i++) to[p * width + j + i] = from[i * b.column + p];
  }
#endif
  for (; j < columns; j++)
    for (int64_t p = 0; p < k; p++) to[p * width + j] = b.at[p * b.row + j * b.column];
}

// Packs k rows of `rows` neighboring elements each. The rows begin `column` elements apart. The
// result has one tile after another, and each tile has at most `tile` elements of all k rows. Each
// cache line of the rows is read once.
void pack_rows(float* to, const float* from, int64_t column, int64_t k, int64_t rows,
               int64_t tile) {
  for (int64_t p = 0; p < k; p++, from += column)
    for (int64_t i = 0; i < rows; i += tile) {
      const int64_t some = std::min(tile, rows - i);
      float* const at = to + i * k + p * some;
      if (some == 32)
        std::memcpy(at, from + i, 128);
      else if (some == 16)
        std::memcpy(at, from + i, 64);
      else if (some == 12)
        std::memcpy(at, from + i, 48);
      else if (some == 6)
        std::memcpy(at, from + i, 24);
      else
        std::copy_n(from + i, some, at);
    }
}

// C or Cᵀ, and how its elements are finished. The bias has one element for each row of Cᵀ, and for
// each column of C.
struct Out {
  float* at;
  int64_t row, column;
  bool transposed = false;
  const float *bias = nullptr, *y = nullptr;
  int64_t y_row = 0, y_column = 0;
  bool relu = false;

  bool finishes() const { return bias || y; }
  // Returns the part that begins at row i and column j.
  Out from(int64_t i, int64_t j) const {
    Out out(*this);
    out.at += i * row + j * column;
    if (bias) out.bias += transposed ? i : j;
    if (y) out.y += i * y_row + j * y_column;
    return out;
  }
  // Returns the finished value of element [i, j].
  float finished(float value, int64_t i, int64_t j) const {
    if (y) return y[i * y_row + j * y_column] > 0 ? value : 0;
    if (!bias) return value;
    value += bias[transposed ? i : j];
    return relu && value < 0 ? 0 : value;
  }
};
Out out_of(float* c, int64_t ldc, const Finish* finish) {
  if (!finish) return {c, ldc, 1};
  return {c, ldc, 1, false, finish->bias, finish->y, finish->y_stride, 1, finish->relu};
}
Out transposed(const Out& c) {
  return {c.at, c.column, c.row, true, c.bias, c.y, c.y_column, c.y_row, c.relu};
}

// Stores a tile whose columns are not contiguous in C, because C is transposed.
void scatter(const Out& c, const float* tile, int rows, int64_t columns, float beta, bool finish) {
  for (int64_t j = 0; j < columns; j++)
    for (int r = 0; r < rows; r++) {
      float* const to = c.at + r * c.row + j * c.column;
      const float value = tile[r * max_width + j], sum = beta == 0 ? value : beta * *to + value;
      *to = finish ? c.finished(sum, r, j) : sum;
    }
}

// Number of floats for a block of B. scratch() returns memory for this block and a block of A after
// it.
constexpr int64_t room_b = block_k * (block_n + max_width);
float* scratch() {
  static const ThreadOwn<std::array<float, room_b + block_m * block_k>> own;
  return own.made().data();
}

void multiply(const Isa& set, int64_t m, int64_t n, int64_t k, float alpha, MatrixView a,
              MatrixView b, float beta, const Out& c) {
  float *const packed = scratch(), *const packed_a = packed + room_b;
  alignas(64) float tile[max_rows * max_width];
  // If k is small, most of the time goes into storing C. Such products use tiles with few, wide
  // rows, as products with few rows do.
  const bool few = m <= set.few || k <= 4;
  const int64_t wide = (few ? 4 : 2) * set.lanes, tall = few ? set.few : set.rows;
  // Full panels of B are read in place if few rows of A use them. A is packed if it is read often
  // and each read in place would touch another cache line.
  const bool direct = b.column == 1 && (m <= 6 * set.rows || k <= 4),
             packs_a = a.row == 1 && k > 64 && n >= 8 * wide;
  const bool straight = c.column == 1 && !(c.transposed && c.finishes());
  for (int64_t jc = 0; jc < n; jc += block_n) {
    const int64_t nc = std::min(block_n, n - jc);
    for (int64_t pc = 0; pc < k; pc += block_k) {
      const int64_t kc = std::min(block_k, k - pc);
      const float keep = pc == 0 ? beta : 1.0f;
      const bool finish = pc + kc == k && c.finishes();
      const MatrixView block{b.at + pc * b.row + jc * b.column, b.row, b.column};
      // Columns in full panels, or all columns if few rows read B in place.
      const int64_t whole = direct && few ? nc : nc - nc % wide;
      if (!direct && b.column == 1) pack_rows(packed, block.at, b.row, kc, whole, wide);
      for (int64_t j = direct || b.column == 1 ? whole : 0; j < nc; j += wide) {
        const int64_t columns = std::min(wide, nc - j);
        pack_panel(packed + j * kc, {block.at + j * b.column, b.row, b.column}, kc, columns,
                   set.width(columns));
      }
      for (int64_t ic = 0; ic < m; ic += block_m) {
        const int64_t mc = std::min(block_m, m - ic);
        if (packs_a) pack_rows(packed_a, a.at + ic + pc * a.column, a.column, kc, mc, tall);
        for (int64_t j = 0; j < nc; j += wide) {
          const int64_t columns = std::min(wide, nc - j);
          const bool lies = j < whole && direct;
          const float* const panel = lies ? block.at + j : packed + j * kc;
          const int64_t step = lies ? b.row : set.width(columns);
          const int vectors = set.vectors(columns);
          const Tile* tiles = lies && columns < wide ? set.cut[vectors] : set.tile[vectors];
          for (int64_t i = 0; i < mc; i += tall) {
            const int rows = int(std::min(tall, mc - i));
            float* const at = c.at + (ic + i) * c.row + (jc + j) * c.column;
            micro::Finish own;
            if (finish && straight)
              own = {c.bias ? c.bias + jc + j : nullptr,
                     c.y ? c.y + (ic + i) * c.y_row + jc + j : nullptr, c.y_row,
                     c.relu ? 0 : -INFINITY};
            const micro::Target to =
                straight ? micro::Target{at, c.row, columns, alpha, keep, finish ? &own : nullptr}
                         : micro::Target{tile, max_width, columns, alpha, 0, nullptr};
            if (packs_a)
              tiles[rows](kc, packed_a + i * kc, 1, rows, panel, step, to);
            else
              tiles[rows](kc, a.at + (ic + i) * a.row + pc * a.column, a.row, a.column, panel, step,
                          to);
            if (!straight) scatter(c.from(ic + i, jc + j), tile, rows, columns, keep, finish);
          }
        }
      }
    }
  }
}

// Multiplies in pieces of rows or columns, which idle cores share. Each element belongs to one
// piece and is summed in a fixed order, so the result has the same bits as without helpers.
void multiply_in_pieces(const Isa& set, int64_t m, int64_t n, int64_t k, float alpha, MatrixView a,
                        MatrixView b, float beta, const Out& c) {
  const int helpers = IdleCores::helpers(uint64_t(m * k + k * n + m * n) * sizeof(float));
  if (helpers == 0) return multiply(set, m, n, k, alpha, a, b, beta, c);
  // Each piece packs for itself, so there are few pieces, and they divide the matrix that is slower
  // to pack.
  const int64_t max_pieces = 2 * (helpers + 1);
  const bool by_rows = b.row == 1 && b.column != 1   ? m >= 4 * n
                       : a.row == 1 && a.column != 1 ? n < 4 * m
                                                     : m >= n;
  const int64_t all = by_rows ? m : n, tile = by_rows ? set.rows : 2 * set.lanes;
  const int64_t each = ((all + max_pieces - 1) / max_pieces + tile - 1) / tile * tile;
  std::atomic<bool> no_memory{false};
  IdleCores::run(int((all + each - 1) / each), helpers, [&](int piece) {
    const int64_t from = piece * each, some = std::min(each, all - from);
    try {
      scratch();
    } catch (const std::bad_alloc&) {
      return no_memory.store(true);
    }
    if (by_rows)
      multiply(set, some, n, k, alpha, {a.at + from * a.row, a.row, a.column}, b, beta,
               c.from(from, 0));
    else
      multiply(set, m, some, k, alpha, a, {b.at + from * b.column, b.row, b.column}, beta,
               c.from(0, from));
  });
  if (no_memory.load()) throw std::bad_alloc();
}

// Sets out[i] to the sum of the sixteen partial sums that begin at sums[16 · i]. Adds the second
// half of the sums to the first half, until one sum is left.
void fold(float* out, const float* sums, int64_t count) {
  int64_t i = 0;
#if defined(__x86_64__)
  const auto four = [](const float* s) {
    return _mm_add_ps(_mm_add_ps(_mm_loadu_ps(s), _mm_loadu_ps(s + 8)),
                      _mm_add_ps(_mm_loadu_ps(s + 4), _mm_loadu_ps(s + 12)));
  };
  for (; i + 4 <= count; i += 4) {
    const float* const s = sums + i * 16;
    __m128 a = four(s), b = four(s + 16), c = four(s + 32), d = four(s + 48);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out + i, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
  }
#endif
  for (; i < count; i++) {
    float s[16];
    std::copy_n(sums + i * 16, 16, s);
    for (int half = 8; half > 0; half /= 2)
      for (int l = 0; l < half; l++) s[l] += s[l + half];
    out[i] = s[0];
  }
}

// Computes C by dot products, for few columns of C.
void dots(const Isa& set, int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b,
          float beta, const Out& c) {
  alignas(64) float sums[2 * max_dots * 16];
  float found[2 * max_dots];
  for (int64_t i = 0; i < m; i += set.dots) {
    const int64_t rows = std::min<int64_t>(set.dots, m - i);
    for (int64_t j = 0; j < n; j += 2) {
      const int64_t columns = std::min<int64_t>(2, n - j);
      set.dot[columns - 1][rows](k, a.at + i * a.row, a.row, b.at + j * b.column, b.column, sums);
      fold(found, sums, rows * columns);
      for (int64_t r = 0; r < rows; r++)
        for (int64_t q = 0; q < columns; q++) {
          float* const to = c.at + (i + r) * c.row + (j + q) * c.column;
          const float value = alpha * found[r * columns + q];
          *to = c.finished(beta == 0 ? value : beta * *to + value, i + r, j + q);
        }
    }
  }
}

// Returns the estimated time of a product in vector operations: the tiles, and packing B. Packing
// is slow if the rows of B are not contiguous.
double cost(int64_t m, int64_t n, int64_t k, MatrixView b, int lanes) {
  return double(k) *
         (double(m) * double((n + lanes - 1) / lanes) + double(n) * (b.column == 1 ? 0.2 : 0.6));
}
// The estimated time to store one element of a tile if C is transposed.
constexpr double scattering = 2;

}  // namespace

const char* gemm_builtin_set() {
  const int lanes = choose_isa(16).lanes;
  return lanes == 16 ? "AVX-512" : lanes == 8 ? "AVX2" : "";
}

void gemm_builtin(int64_t m, int64_t n, int64_t k, float alpha, MatrixView a, MatrixView b,
                  float beta, float* c, int64_t ldc, int lanes, int64_t share_from,
                  const Finish* finish) {
  // If C has few columns, its rows use only part of a vector, and Cᵀ = Bᵀ·Aᵀ may be faster. That
  // product sums in the same order, so the bits stay the same.
  const MatrixView at{a.at, a.column, a.row}, bt{b.at, b.column, b.row};
  static const Isa& best = choose_isa(16);
  const Isa& set = lanes ? choose_isa(lanes) : best;
  const Out out = out_of(c, ldc, finish);
  if (a.column == 1 && b.row == 1 && k >= 16 && std::min(m, n) <= 4) {
    if (n <= 4)
      dots(set, m, n, k, alpha, a, b, beta, out);
    else
      dots(set, n, m, k, alpha, bt, at, beta, transposed(out));
  } else {
    const auto product = m * n * k >= share_from ? multiply_in_pieces : multiply;
    if (cost(n, m, k, at, set.lanes) + scattering * double(m * n) < cost(m, n, k, b, set.lanes))
      product(set, n, m, k, alpha, bt, at, beta, transposed(out));
    else
      product(set, m, n, k, alpha, a, b, beta, out);
  }
}

}  // namespace hotslot
