// Compares the kernels of traced functions with plain loops: copies, selections, sorts, draws,
// batched products and gradients. The loops add in the kernels' order, so most results are equal.
#include <numeric>

#include "kernels_rig.hpp"

namespace {

const float inf = INFINITY, nan = NAN;

// Sets numbers of which many are equal, and some infinite or NaN.
void awkward(const Floats& x) {
  for (int64_t i = 0; i < x.n; i++) {
    const uint32_t dice = generator() % 16;
    x[i] = dice == 0 ? nan : dice == 1 ? inf : dice == 2 ? -0.0f : float(int(dice) - 9) / 2;
  }
}
void fill(const Floats& x, float value) { std::fill_n(&x[0], x.n, value); }

// Sets indices below n, and some outside.
void indices(const Floats& index, int64_t n) {
  const float outside[] = {-1, float(n), nan, inf};
  for (int64_t i = 0; i < index.n; i++)
    index[i] = generator() % 7 == 0 ? outside[generator() % 4]
                                    : float(generator() % uint32_t(n)) + float(generator() % 2) / 4;
}
int64_t place(float index, int64_t n) {
  return index >= 0 && index < float(n) ? int64_t(index) : -1;
}

void equal(const char* name, const Floats& got, const Floats& want) {
  for (int64_t i = 0; i < got.n; i++) {
    if (same_bits(got[i], want[i]) || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    char text[160];
    std::snprintf(text, sizeof text, "%s [%lld]: got %.9g, want %.9g", name, (long long)i, got[i],
                  want[i]);
    return check(false, text);
  }
}

void test_copies() {
  const std::vector<int64_t> layouts[] = {
      {2, 3, 4, 5, 60, 20, 5, 1, 60, 20, 5, 1},    {1, 3, 4, 5, 60, 1, 3, 12, 60, 20, 5, 1},
      {2, 3, 4, 5, 60, 20, 5, 1, 0, 1, 0, 3},      {2, 3, 4, 5, 70, 21, 5, 1, 12, 4, 1, 0},
      {2, 3, 4, 5, 61, 20, 5, 1, -60, 20, -5, -1}, {2, 3, 4, 5, 200, 60, 12, 2, 90, 30, 7, 1},
      {1, 1, 1, 1, 0, 0, 0, 0, -7, 0, 3, 1},       {3, 1, 2, 1, 2, 0, 1, 0, 1, 9, 3, -4}};
  for (const auto& w : layouts)
    for (double beta : {0.0, 0.5}) {
      int64_t reach[2] = {1, 1}, start = 0;
      for (size_t d = 0; d < 4; d++) {
        for (size_t k : {0u, 1u}) reach[k] += (w[d] - 1) * std::abs(w[4 + 4 * k + d]);
        start += std::max<int64_t>(0, -w[8 + d]) * (w[d] - 1);
      }
      const Floats y(reach[0]), x(reach[1]);
      if (beta == 0) fill(y, nan);
      const Floats want(y);
      for (int64_t i = 0; i < w[0]; i++)
        for (int64_t j = 0; j < w[1]; j++)
          for (int64_t k = 0; k < w[2]; k++)
            for (int64_t l = 0; l < w[3]; l++) {
              float& to = want[i * w[4] + j * w[5] + k * w[6] + l * w[7]];
              const float from = x[start + i * w[8] + j * w[9] + k * w[10] + l * w[11]];
              to = beta == 0 ? from : from + float(beta) * to;
            }
      launch("copy4d", {y, x}, w, {beta});
      equal("copy4d", y, want);
    }
}

// Chains of four steps equal the kernels of their ops, also with rows that have gaps, repeated rows
// and columns, and in place. The tiles of the host's form have 512 elements.
void test_chains() {
  // a·b, then tanh, then where(x2, …, x3), then a sum with the first result. Constant 0 is unused.
  // The last output is the second result.
  const float steps[] = {66, 16 + 64 * 17, 2,          9, 0, 4, 96, 18 + 64 * 1 + 4096 * 19,
                         3,  64,           2 + 64 * 0, 1};
  for (const auto& s :
       {std::array<int64_t, 2>{1, 1}, {1, 700}, {7, 3}, {40, 33}, {3, 520}, {700, 1}, {2, 512}})
    for (int64_t gap : {0, 3}) {
      const auto [rows, columns] = s;
      const int64_t stride = columns + gap;
      const Floats y0(matrix(rows, columns, stride)), y1(y0), y2(y0), y3(y0), a(y0), column(rows),
          condition(columns), d(y0), one(1), program(65);
      fill(program, nan), awkward(condition), awkward(d);
      std::copy(std::begin(steps), std::end(steps), &program[0]);
      program[64] = 4;
      const Floats first(y1), second(a), third(y2), sum(y0);
      launch("binary", {first, a, column}, {rows, columns, stride, stride, 1, 1, 0, 2}, {});
      launch("unary", {second, first}, {rows, columns, stride, stride, 9}, {});
      launch("where", {third, condition, second, d},
             {rows, columns, stride, 0, 1, stride, 1, stride, 1}, {});
      launch("binary", {sum, third, first}, {rows, columns, stride, stride, 1, stride, 1, 0}, {});
      const std::vector<int64_t> strides = {rows,   columns, stride, stride, stride, stride,
                                            stride, -2,      0,      stride, stride, -1};
      launch("chain", {y0, y1, y2, y3, a, column, condition, d, a, one, program}, strides, {});
      equal("chain y0", y0, sum), equal("chain y1", y1, first), equal("chain y2", y2, third);
      equal("chain y3", y3, second);
      // The first output takes the place of d, which the third step reads.
      launch("chain", {d, y1, y2, y3, a, column, condition, d, a, one, program}, strides, {});
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
          check(
              same_bits(d[i * stride + j], sum[i * stride + j]) || std::isnan(sum[i * stride + j]),
              "chain over an input");
    }
  // No program leaves the tensors, which have exactly the sizes that the launch needs.
  for (int tries = 0; tries < 300; tries++) {
    const int64_t rows = 1 + generator() % 9, columns = 1 + generator() % 9;
    std::vector<int64_t> wholes = {rows, columns};
    std::vector<Floats> tensors;
    for (int64_t i = 0; i < 10; i++) {
      const bool repeated = i >= 4 && generator() % 2;
      const int64_t width = repeated ? 1 : columns;
      const bool none = i > 0 && generator() % 3 == 0;
      const int64_t stride = none ? 0 : width + generator() % 2;
      wholes.push_back(repeated ? -1 - stride : stride);
      tensors.emplace_back(none && i < 4 ? 0 : (rows - 1) * stride + width);
    }
    const Floats program(65);
    for (int64_t i = 0; i < program.n; i++)
      program[i] = generator() % 4 ? float(generator() % (generator() % 2 ? 128 : 1 << 24))
                                   : 1e30f * program[i];
    if (generator() % 4) program[64] = float(1 + generator() % 16);
    launch("chain",
           {tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5], tensors[6],
            tensors[7], tensors[8], tensors[9], program},
           wholes, {});
  }
}

// A sum and a program on it equal the kernels of the sum and of the ops, for each kind of sum.
void test_sum_chains() {
  // sum + x0, then e to that power, then their product with constant 1. The third output is the
  // sum.
  const float steps[] = {64, 21 + 64 * 16, 1,          7, 0,  2,  66, 1 + 64 * 33,
                         0,  66,           2 + 64 * 0, 3, 99, 21, 4};
  const auto sum_of = [](int64_t kind, const Floats& x, int64_t rows, int64_t columns) {
    const Floats sum(1), parts(rows);
    if (kind == 1)
      launch("column_sums", {sum, x}, {rows, 1, columns}, {0.3, 0});
    else if (rows == 1)
      launch("reduce_rows", {sum, x}, {1, columns, 1, columns, 0}, {0.3});
    else {
      launch("reduce_rows", {parts, x}, {rows, columns, 1, columns, 0}, {1});
      launch("reduce_rows", {sum, parts}, {1, rows, 1, rows, 0}, {0.3});
    }
    return sum;
  };
  for (int64_t kind : {1, 2})
    for (const auto& s :
         {std::array<int64_t, 2>{1, 1}, {1, 33}, {1, 1024}, {7, 3}, {64, 256}, {700, 2}})
      for (int64_t outputs : {1, 4}) {
        const auto [rows, columns] = s;
        const Floats x(kind == 1 ? (rows - 1) * columns + 1 : rows * columns), x0(1), one(1),
            program(65);
        fill(program, nan), x0[0] = -0.75f;
        std::copy(std::begin(steps), std::end(steps), &program[0]);
        program[49] = 1.5f, program[64] = 5;
        const Floats y0(1), y1(1), y2(1), y3(1), none(int64_t(0));
        const Floats total = sum_of(kind, x, rows, columns), first(1), second(1), third(1),
                     factor(1);
        factor[0] = 1.5f;
        launch("binary", {first, total, x0}, {1, 1, 1, 1, 1, 1, 1, 0}, {});
        launch("unary", {second, first}, {1, 1, 1, 1, 7}, {});
        launch("binary", {third, second, factor}, {1, 1, 1, 1, 1, 1, 1, 2}, {});
        launch("binary", {third, third, first}, {1, 1, 1, 1, 1, 1, 1, 2}, {});
        const bool all = outputs == 4;
        launch("sum_chain",
               {y0, all ? y1 : none, all ? y2 : none, all ? y3 : none, x, x0, one, one, one, one,
                program},
               {kind, rows, columns, outputs}, {0.3});
        equal("sum_chain y0", y0, first);
        if (!all) continue;
        equal("sum_chain y1", y1, second), equal("sum_chain y2", y2, third);
        equal("sum_chain y3", y3, total);
      }
  // No program leaves the tensors.
  for (int tries = 0; tries < 300; tries++) {
    const int64_t kind = 1 + generator() % 2, rows = 1 + generator() % 40,
                  columns = 1 + generator() % 40, outputs = 1 + generator() % 4;
    std::vector<Floats> tensors;
    for (int64_t i = 0; i < 4; i++) tensors.emplace_back(int64_t(i < outputs));
    const Floats x(kind == 1 ? (rows - 1) * columns + 1 : rows * columns), one(1), program(65);
    for (int64_t i = 0; i < program.n; i++)
      program[i] = generator() % 4 ? float(generator() % (generator() % 2 ? 128 : 1 << 24))
                                   : 1e30f * program[i];
    if (generator() % 4) program[64] = float(1 + generator() % 16);
    launch("sum_chain",
           {tensors[0], tensors[1], tensors[2], tensors[3], x, one, one, one, one, one, program},
           {kind, rows, columns, outputs}, {1});
  }
}

void test_selections() {
  for (const auto& s : odd_sizes)
    for (int64_t apart : {0, 2}) {
      const int64_t rows = s[0], columns = s[1], n = 5, os = columns + 1, ts = columns + 2;
      const Floats out(matrix(rows, columns, os)),
          table(matrix((rows - 1) * apart + n, columns, ts)), index(matrix(rows, 1, 2));
      indices(index, n);
      const Floats want(out);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
          const int64_t at = place(index[2 * i], n);
          want[i * os + j] = at < 0 ? nan : table[(i * apart + at) * ts + j];
        }
      launch("take_rows", {out, table, index}, {rows, columns, n, os, ts, 2, apart}, {});
      equal("take_rows", out, want);
    }
  for (const auto& s : {std::array<int64_t, 3>{60, 5, 6}, {200, 1, 3}, {9, 300, 70}, {1, 1, 1}})
    for (double beta : {0.0, 0.5}) {
      const auto [rows, columns, n] = s;
      const int64_t ts = columns + 1, ds = columns + 2;
      const Floats table(matrix(n, columns, ts)), dy(matrix(rows, columns, ds)),
          index(matrix(rows, 1, 3));
      indices(index, n);
      if (beta == 0) fill(table, nan);
      const Floats want(table);
      for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < columns; j++) {
          float sum = 0, &to = want[r * ts + j];
          for (int64_t i = 0; i < rows; i++)
            if (place(index[3 * i], n) == r) sum += dy[i * ds + j];
          to = beta == 0 ? sum : float(beta) * to + sum;
        }
      launch("take_rows_backward", {table, dy, index}, {rows, columns, n, ts, ds, 3}, {beta});
      equal("take_rows_backward", table, want);
    }
  for (const auto& s :
       {std::array<int64_t, 4>{30, 6, 1, 1}, {30, 4, 5, 7}, {9, 3, 2, 0}, {1, 1, 1, 0}})
    for (double beta : {0.0, -1.5}) {
      const auto [rows, n, inner, ds] = s;
      const int64_t xs = n * inner + 1;
      const Floats dx(matrix(rows, n * inner, xs)), dy(matrix(rows, inner, ds)),
          index(matrix(rows, 1, 2));
      indices(index, n), awkward(dy);
      if (beta == 0) fill(dx, nan);
      const Floats want(dx);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t q = 0; q < n * inner; q++) {
          float& to = want[i * xs + q];
          to = (beta == 0 ? 0 : float(beta) * to) +
               (place(index[2 * i], n) == q / inner ? dy[i * ds + q % inner] : 0);
        }
      launch("pick_backward", {dx, dy, index}, {rows, n, inner, xs, ds, 2}, {beta});
      equal("pick_backward", dx, want);
    }
}

float slope(int64_t op, float d, float a, float b) {
  if (op == 2) return -d * (a / b / b);
  if (op == 3) return (a < -b ? -b : a > b ? b : a) * d;
  if (std::isnan(a) || std::isnan(b)) return nan;
  return a == b ? 0.5f * d : (a < b) == (op == 0) ? d : 0;
}

void test_slopes() {
  const int64_t rows = 13, columns = 17;
  for (int64_t op = 0; op < 4; op++)
    for (const auto& s : {std::array<int64_t, 6>{18, 1, 19, 1, 20, 1},
                          {0, 1, 18, 1, 3, 0},
                          {18, 1, 0, 0, 18, 1},
                          {0, 0, 2, 0, 0, 1}}) {
      const auto of = [&](size_t i) { return matrix(rows, s[i + 1] ? columns : 1, s[i]); };
      const Floats dx(matrix(rows, columns, 20)), dy(of(0)), a(of(2)), b(of(4)), want(dx);
      awkward(dy), awkward(a), awkward(b);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
          want[i * 20 + j] =
              slope(op, dy[i * s[0] + j * s[1]], a[i * s[2] + j * s[3]], b[i * s[4] + j * s[5]]);
      launch("binary_backward", {dx, dy, a, b},
             {rows, columns, 20, s[0], s[1], s[2], s[3], s[4], s[5], op}, {});
      for (int64_t i = 0; i + 1 < rows; i++)
        for (int64_t j = columns; j < 20; j++) want[i * 20 + j] = dx[i * 20 + j];
      equal("binary_backward", dx, want);
    }
  const Floats dx(matrix(rows, columns, 18)), dy(matrix(rows, columns, 19)),
      x(matrix(rows, columns, 20)), want(dx);
  awkward(dy), awkward(x);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const float v = x[i * 20 + j];
      want[i * 18 + j] = v >= -1 && v <= 2 ? dy[i * 19 + j] : std::isnan(v) ? nan : 0;
    }
  launch("clip_backward", {dx, dy, x}, {rows, columns, 18, 19, 20}, {-1, 2});
  equal("clip_backward", dx, want);
}

void test_softmax_backward() {
  for (const auto& s : odd_sizes)
    for (int64_t logarithm : {0, 1}) {
      const int64_t rows = s[0], n = s[1], ys = n + 1, ds = n + 2, xs = n + 3;
      const Floats x(matrix(rows, n, n)), y(matrix(rows, n, ys)), dy(matrix(rows, n, ds)),
          dx(matrix(rows, n, xs));
      for (int64_t i = 2; i < x.n; i += 5) x[i] = -inf;
      launch("softmax_rows", {y, x}, {rows, n, ys, n, logarithm}, {});
      launch("softmax_rows_backward", {dx, dy, y}, {rows, n, xs, ds, ys, logarithm}, {});
      for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
          sum += dy[i * ds + j] * (logarithm ? 1.0 : double(y[i * ys + j]));
        for (int64_t j = 0; j < n; j++) {
          const double d = dy[i * ds + j], p = y[i * ys + j], got = dx[i * xs + j];
          const double want = logarithm ? d - std::exp(p) * sum : p * (d - sum);
          if (!(std::fabs(got - want) <= 2e-5)) wrong("softmax_rows_backward", n, i, j, got, want);
        }
      }
    }
}

void test_cumsum() {
  for (const auto& s : {std::array<int64_t, 3>{3, 7, 5}, {4, 9, 1}, {1, 1, 130}, {2, 2, 1}})
    for (int64_t reverse : {0, 1}) {
      const auto [outer, n, inner] = s;
      const Floats y(outer * n * inner), x(y.n), want(x.n);
      awkward(x);
      const Floats both(x);
      const auto at = [&, n = n, inner = inner](int64_t o, int64_t k, int64_t i) {
        return (o * n + (reverse ? n - 1 - k : k)) * inner + i;
      };
      for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++)
          for (int64_t i = 0; i < inner; i++)
            want[at(o, k, i)] = k == 0 ? x[at(o, k, i)] : want[at(o, k - 1, i)] + x[at(o, k, i)];
      launch("cumsum", {y, x}, {outer, n, inner, reverse}, {});
      equal("cumsum", y, want);
      launch("cumsum", {both, both}, {outer, n, inner, reverse}, {});
      equal("cumsum in place", both, want);
    }
}

void test_sorts() {
  for (int64_t columns : {1, 2, 33, 96, 97, 300, 1024}) {
    const int64_t rows = 3, xs = columns + 1, rs = columns + 2, ss = columns + 3;
    const Floats x(matrix(rows, columns, xs)), ranks(matrix(rows, columns, rs)), want(ranks);
    awkward(x);
    launch("rank_rows", {ranks, x}, {rows, columns, rs, xs}, {});
    for (int64_t i = 0; i < rows; i++) {
      std::vector<int64_t> order(static_cast<size_t>(columns));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t j, int64_t k) {
        const float u = x[i * xs + j], v = x[i * xs + k];
        return std::isnan(v) ? !std::isnan(u) : u < v;
      });
      for (int64_t j = 0; j < columns; j++) want[i * rs + order[size_t(j)]] = float(j);
      for (int64_t j = columns; j < rs && i * rs + j < want.n; j++)
        want[i * rs + j] = ranks[i * rs + j];
    }
    equal("rank_rows", ranks, want);
    const Floats sorted(matrix(rows, columns, ss)), back(matrix(rows, columns, xs)), same(back);
    launch("scatter_along_rows", {sorted, x, ranks}, {rows, columns, ss, xs, rs}, {});
    launch("gather_along_rows", {back, sorted, ranks}, {rows, columns, columns, xs, ss, rs}, {});
    for (int64_t i = 0; i < rows; i++) std::copy_n(&x[i * xs], columns, &same[i * xs]);
    equal("gather_along_rows", back, same);
    launch("gather_along_rows", {ranks, sorted, ranks}, {rows, columns, columns, rs, ss, rs}, {});
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++)
        check(same_bits(ranks[i * rs + j], back[i * xs + j]) || std::isnan(back[i * xs + j]),
              "gather_along_rows in place");
  }
  // Indices outside of the row.
  const Floats y(4), x(3), index(3), out(3);
  index[0] = 2, index[1] = nan, index[2] = -1;
  const Floats before(y);
  launch("scatter_along_rows", {Floats(3), x, index}, {1, 3, 3, 3, 3}, {});
  launch("gather_along_rows", {out, y, index}, {1, 3, 4, 3, 4, 3}, {});
  check(same_bits(out[0], y[2]) && std::isnan(out[1]) && std::isnan(out[2]),
        "gather_along_rows gives NaN outside");
}

void test_batches() {
  for (int64_t trans = 0; trans < 4; trans++)
    for (int64_t shared : {0, 1})
      for (double beta : {0.0, 0.5}) {
        const int64_t ta = trans & 1, tb = trans >> 1, batch = 3, m = 5, n = 7, k = 6;
        const int64_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 2, ldc = n + 1;
        const int64_t one[] = {matrix(m, n, ldc), ta ? matrix(k, m, lda) : matrix(m, k, lda),
                               tb ? matrix(n, k, ldb) : matrix(k, n, ldb)};
        const int64_t cb = one[0] + 3, ab = shared ? 0 : one[1], bb = one[2] - 2;
        const Floats c((batch - 1) * cb + one[0]), a((batch - 1) * ab + one[1]),
            b((batch - 1) * bb + one[2]);
        const Floats want(c);
        for (int64_t p = 0; p < batch; p++) {
          const Floats part(one[0]), left(one[1]), right(one[2]);
          std::copy_n(&c[p * cb], part.n, &part[0]);
          std::copy_n(&a[p * ab], left.n, &left[0]), std::copy_n(&b[p * bb], right.n, &right[0]);
          launch("gemm", {part, left, right}, {ta, tb, m, n, k, lda, ldb, ldc}, {-0.75, beta});
          std::copy_n(&part[0], part.n, &want[p * cb]);
        }
        launch("gemm_batched", {c, a, b}, {ta, tb, batch, m, n, k, lda, ldb, ldc, ab, bb, cb},
               {-0.75, beta});
        equal("gemm_batched", c, want);
      }
}

void test_draws() {
  const int64_t rows = 3000, columns = 5, ls = 6;
  const float row[columns] = {1, -inf, 2, nan, 3};
  const Floats index(rows), logits(matrix(rows, columns, ls)), uniform(rows);
  double total = 0;
  int64_t counts[columns] = {};
  for (int64_t j = 0; j < columns; j++)
    if (row[j] > -inf) total += std::exp(row[j]);
  for (int64_t i = 0; i < rows; i++) {
    uniform[i] = (float(i) + 0.5f) / float(rows);
    std::copy_n(row, columns, &logits[i * ls]);
  }
  launch("categorical_draw", {index, logits, uniform}, {rows, columns, ls}, {});
  for (int64_t i = 0; i < rows; i++) counts[size_t(index[i])]++;
  for (int64_t j = 0; j < columns; j++) {
    const double want = row[j] > -inf ? std::exp(row[j]) / total * double(rows) : 0;
    if (!(std::fabs(double(counts[j]) - want) <= 2)) wrong("categorical_draw", j, counts[j], want);
  }
}

void test_bits() {
  for (int64_t columns : {1, 31, 32, 33, 64, 65, 4096})
    for (int64_t apart : {0, 2}) {
      const int64_t rows = 7, used = (columns + 31) / 32, os = columns + apart, ws = used + apart;
      const Floats out(matrix(rows, columns, os)), want(out);
      std::vector<int32_t> words(size_t((rows - 1) * ws + used));
      for (int32_t& word : words) word = int32_t(generator());
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
          const auto word = uint32_t(words[size_t(i * ws + j / 32)]);
          want[i * os + j] = word / (1u << j % 32) % 2 ? 1.0f : 0.0f;
        }
      launch("unpack_bits", {out, words}, {rows, columns, os, ws}, {});
      equal("unpack_bits", out, want);
    }
}

void test_refused_layouts() {
  const Kernel* copy = find_kernel("copy4d");
  Reach reach[max_pointers];
  const auto refused = [&](std::vector<int64_t> wholes) {
    return copy->need(arguments({}, std::move(wholes), {0}), reach) != nullptr;
  };
  check(!refused({1, 2, 3, 4, 0, 12, 4, 1, 0, 0, 0, 0}), "copy4d takes dense rows");
  check(refused({1, 2, 3, 4, 0, 11, 4, 1, 0, 0, 0, 0}), "copy4d refuses rows that meet");
  check(refused({1, 1, 2, 2, 0, 0, 1, 1, 0, 0, 0, 0}), "copy4d refuses equal strides");
  check(refused({1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}), "copy4d refuses a repeated output");
  const int64_t most = INT64_MAX;
  check(!refused({most, 1, 1, 1, most, 0, 0, 0, INT64_MIN, 0, 0, 0}) &&
            reach[0].bytes == UINT64_MAX && reach[1].bytes == UINT64_MAX,
        "the reach of huge strides is the largest number");
}

}  // namespace

void test_traced() {
  test_copies(), test_chains(), test_sum_chains(), test_selections(), test_slopes(),
      test_softmax_backward(), test_cumsum(), test_sorts(), test_batches(), test_draws(),
      test_bits(), test_refused_layouts();
}
