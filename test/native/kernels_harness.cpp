// Compares the host form of every kernel with a plain reference in double, at odd sizes and
// strides, through the registry only. Each buffer is exactly as large as the kernel's `need` says,
// so that the address sanitizer finds a `need` that is too small.
//   g++ -std=c++17 -O1 -g -fsanitize=address,undefined -ffp-contract=off -I native
//   test/native/kernels_harness.cpp native/kernels/*.cpp -ldl
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gk.hpp"
#include "kernels/halo.hpp"
#include "kernels_rig.hpp"
#include "wait/core_pool.hpp"

// The form that devices compile of these kernels, compiled for the host. The registry has other
// host forms of them.
namespace device_form {
#include "kernels/halo.gk"

// In kernels_products.cpp.
void gemm(float* c, const float* a, const float* b, int64_t trans_a, int64_t trans_b, int64_t m,
          int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc, float alpha, float beta);
}  // namespace device_form

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// Like the process's pool, but every job gets three helpers, so that small products are also
// shared.
const CoresTable shares_all = [] {
  CoresTable table = *CorePool::table_of_process();
  table.helpers = [](uint64_t) { return 3; };
  return table;
}();

// Returns a product whose elements are finished one by one.
Floats finished(const Floats& c, int64_t m, int64_t n, int64_t ldc, const Finish& finish) {
  Floats out(c);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float& to = out[i * ldc + j];
      if (finish.bias) to = to + finish.bias[j];
      if (finish.relu) to = to < 0 ? 0 : to;
      if (finish.y) to = finish.y[i * finish.y_stride + j] > 0 ? to : 0;
    }
  return out;
}

// Draws a way to finish a product [m, n], with NaN and both zeros among its numbers.
struct DrawnFinish {
  DrawnFinish(int64_t m, int64_t n) : bias(n), y(matrix(m, n, n + 3)) {
    const float odd[] = {NAN, 0.0f, -0.0f, INFINITY};
    for (const Floats* each : {&bias, &y})
      for (int64_t i = 0; i < each->n; i++)
        if (generator() % 8 == 0) (*each)[i] = odd[generator() % 4];
    const uint32_t kind = generator() % 4;
    if (kind == 3)
      finish.y = y.at.get(), finish.y_stride = n + 3;
    else if (kind > 0)
      finish.bias = bias.at.get(), finish.relu = kind == 1;
  }
  Floats bias, y;
  Finish finish;
};

bool all_same(const Floats& a, const Floats& b) {
  for (int64_t i = 0; i < a.n; i++)
    if (!same_bits(a[i], b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

void gemm_case(bool ta, bool tb, int64_t m, int64_t n, int64_t k, int64_t extra, double alpha,
               double beta) {
  const int64_t lda = (ta ? m : k) + extra, ldb = (tb ? k : n) + 2 * extra, ldc = n + extra;
  const Floats a(ta ? matrix(k, m, lda) : matrix(m, k, lda)),
      b(tb ? matrix(n, k, ldb) : matrix(k, n, ldb));
  Floats c(matrix(m, n, ldc));
  if (beta == 0) c[0] = NAN;
  const Floats before(c);
  std::vector<double> want = as_double(c);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum += double(a[ta ? p * lda + i : i * lda + p]) * b[tb ? j * ldb + p : p * ldb + j];
      want[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
    }
  const std::string name = "gemm " + std::to_string(m) + "×" + std::to_string(n) + "×" +
                           std::to_string(k) + (ta ? " T" : " N") + (tb ? "T" : "N");
  launch("gemm", {c, a, b}, {ta, tb, m, n, k, lda, ldb, ldc}, {alpha, beta});
  close(name, c, want, 1e-6 * double(k + 4));
  const MatrixView left{a.at.get(), ta ? 1 : lda, ta ? lda : 1},
      right{b.at.get(), tb ? 1 : ldb, tb ? ldb : 1};
  std::unique_ptr<Floats> eight;
  for (int lanes : {4, 8, 16, 0}) {
    auto own = std::make_unique<Floats>(before);
    gemm_builtin(m, n, k, float(alpha), left, right, float(beta), own->at.get(), ldc, lanes);
    close("built-in " + name, *own, want, 1e-6 * double(k + 4));
    if (lanes == 0) {
      const Floats plain(before);
      device_form::gemm(plain.at.get(), a.at.get(), b.at.get(), ta, tb, m, n, k, lda, ldb, ldc,
                        float(alpha), float(beta));
      close("device form of " + name, plain, as_double(*own), 1e-6 * double(k + 4));
      for (int64_t i = 0; i < before.n; i++)
        if (i % ldc >= n)
          check(plain[i] == before[i],
                "the device form of " + name + " changes nothing between its rows");
    }
    const DrawnFinish drawn(m, n);
    const Floats want_finished = finished(*own, m, n, ldc, drawn.finish);
    const auto finish = [&](const char* how, int64_t share_from) {
      const Floats got(before);
      gemm_builtin(m, n, k, float(alpha), left, right, float(beta), got.at.get(), ldc, lanes,
                   share_from, &drawn.finish);
      check(all_same(got, want_finished),
            name + " of " + std::to_string(lanes) + " lanes finishes its elements" + how);
    };
    finish("", INT64_MAX);
    auto shared = std::make_unique<Floats>(before);
    IdleCores::use(&shares_all);
    finish(", shared with idle cores", 1);
    gemm_builtin(m, n, k, float(alpha), left, right, float(beta), shared->at.get(), ldc, lanes, 1);
    IdleCores::use(CorePool::table_of_process());
    check(std::memcmp(own->at.get(), shared->at.get(), uint64_t(own->n) * 4) == 0,
          name + ": shared with idle cores it gives the same bits");
    if (lanes == 8)
      eight = std::move(own);
    else if (lanes == 16 && __builtin_cpu_supports("avx2"))
      check(std::memcmp(own->at.get(), eight->at.get(), uint64_t(own->n) * 4) == 0,
            name + ": 8 and 16 lanes give the same bits");
  }
}

// With `brief`, only every seventh width of tiles is tested.
void test_gemm(bool brief) {
  const int64_t sizes[][3] = {{1, 1, 1},      {1, 2, 3},     {3, 2, 84},  {84, 2, 31},
                              {4, 120, 33},   {13, 17, 19},  {12, 32, 8}, {33, 65, 129},
                              {121, 84, 257}, {130, 300, 40}};
  // Few rows, wide and cut-off tiles, short sums, dot products, and transposes that are packed.
  const int64_t shapes[][3] = {{1, 256, 64},   {2, 84, 128},  {4, 150, 40}, {120, 4, 128},
                               {128, 2, 84},   {3, 200, 300}, {70, 65, 2},  {50, 130, 1},
                               {67, 4, 16},    {40, 1, 9},    {300, 1, 5},  {2, 3, 277},
                               {125, 600, 70}, {9, 520, 280}};
  std::vector<std::array<int64_t, 3>> all;
  for (const auto& s : sizes) all.push_back({s[0], s[1], s[2]});
  for (const auto& s : shapes) all.push_back({s[0], s[1], s[2]});
  // Every width and height of tiles, full and cut off.
  for (int64_t m = 1; m <= 13; m++)
    for (int64_t n = 1; n <= 80; n += brief ? 7 : 1)
      for (int64_t k : {3, 18}) gemm_case(n & 1, (m + k) & 1, m, n, k, n % 3, 1, 0);
  for (const auto& s : all)
    for (int t = 0; t < 4; t++)
      for (int64_t extra : {0, 3}) {
        // Sanitizers are slow, and alpha and beta do not matter to them. With a sanitizer, each
        // pair is therefore tested with one stride only.
        if (!sanitized || extra == 0) gemm_case(t & 1, t & 2, s[0], s[1], s[2], extra, 1, 0);
        if (!sanitized || extra != 0) gemm_case(t & 1, t & 2, s[0], s[1], s[2], extra, -0.5, 1.25);
      }
}

// A product that is not finished keeps the sign of a zero.
void test_zeros() {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 40, 5},
                                {3, 200, 300},
                                {200, 3, 17},
                                {128, 2, 84},
                                {40, 20, 300}})
    for (int lanes : {4, 8, 16})
      for (bool transposed : {false, true}) {
        const Floats a(m * k), b(k * n), c(m * n);
        std::fill_n(a.at.get(), a.n, 0.0f);
        for (int64_t i = 0; i < b.n; i++) b[i] = std::fabs(b[i]);
        gemm_builtin(m, n, k, -1, {a.at.get(), k, 1},
                     {b.at.get(), transposed ? 1 : n, transposed ? k : 1}, 0, c.at.get(), n, lanes);
        bool negative = true;
        for (int64_t i = 0; i < c.n; i++) negative &= same_bits(c[i], -0.0f);
        check(negative, "-1 times a sum of 0 is -0");
      }
}

double act(double x, int64_t kind) {
  return kind == 1 ? std::max(x, 0.0) : kind == 2 ? std::tanh(x) : x;
}

void test_activations() {
  for (const auto& s : odd_sizes)
    for (int64_t kind = 0; kind < 3; kind++)
      for (int64_t extra : {0, 3}) {
        const int64_t rows = s[0], columns = s[1], ys = columns + extra, xs = columns + 2 * extra;
        const Floats x(matrix(rows, columns, xs)), bias(columns), y(matrix(rows, columns, ys)),
            dx(matrix(rows, columns, xs));
        for (int64_t i = 0; i < x.n; i++) x[i] *= 12;
        std::vector<double> want = as_double(y), slope = as_double(dx);
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++)
            want[i * ys + j] = act(double(x[i * xs + j] + bias[j]), kind);
        launch("bias_act", {y, x, bias}, {rows, columns, ys, xs, kind}, {});
        close("bias_act", y, want, 3e-7);
        const Floats dy(matrix(rows, columns, xs));
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++) {
            const double at = y[i * ys + j];
            slope[i * xs + j] = dy[i * xs + j] * (kind == 1   ? double(at > 0)
                                                  : kind == 2 ? 1 - at * at
                                                              : 1);
          }
        launch("act_backward", {dx, dy, y}, {rows, columns, xs, xs, ys, kind}, {});
        close("act_backward", dx, slope, 1e-6);
        // The kernels must give the same bits in place.
        const Floats same(x), gradient(dy);
        launch("bias_act", {same, same, bias}, {rows, columns, xs, xs, kind}, {});
        launch("act_backward", {gradient, gradient, y}, {rows, columns, xs, xs, ys, kind}, {});
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++) {
            check(same[i * xs + j] == y[i * ys + j], "bias_act in place");
            check(gradient[i * xs + j] == dx[i * xs + j], "act_backward in place");
          }
      }
}

void test_columns() {
  for (const auto& s : odd_sizes)
    for (int64_t extra : {0, 3}) {
      const int64_t rows = s[0], columns = s[1], xs = columns + extra;
      const Floats x(matrix(rows, columns, xs)), out(columns);
      for (double beta : {0.0, 0.5}) {
        if (beta == 0) out[0] = NAN;
        std::vector<double> want(columns);
        for (int64_t j = 0; j < columns; j++) {
          want[j] = beta == 0 ? 0 : beta * out[j];
          for (int64_t i = 0; i < rows; i++) want[j] += 0.25 * x[i * xs + j];
        }
        launch("column_sums", {out, x}, {rows, columns, xs}, {0.25, beta});
        close("column_sums", out, want, 1e-5);
      }
      std::vector<int32_t> index(rows);
      const Floats value(rows), picked(rows), at(matrix(rows, 1, 2)),
          y(matrix(rows, columns, columns + 1));
      launch("argmax_rows", {index, value, x}, {rows, columns, xs}, {});
      for (int64_t i = 0; i < rows; i++) {
        const float* row = &x[i * xs];
        check(index[i] == std::max_element(row, row + columns) - row && value[i] == row[index[i]],
              "argmax_rows");
        at[2 * i] = float((i * 5) % columns);
      }
      at[0] = float(columns);
      launch("gather_columns", {picked, x, at}, {rows, columns, xs, 2}, {});
      check(std::isnan(picked[0]), "gather_columns gives NaN outside the row");
      for (int64_t i = 1; i < rows; i++)
        check(picked[i] == x[i * xs + (i * 5) % columns], "gather_columns");
      std::vector<double> want = as_double(y);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) want[i * (columns + 1) + j] = x[i * xs + j];
      launch("copy2d", {y, x}, {rows, columns, columns + 1, xs}, {});
      close("copy2d", y, want, 0);
    }
}

// Converts the elements, and compares each result with `value` of the element.
template <class T, class Value>
void convert_case(int64_t type, const std::vector<T>& elements, Value value) {
  for (int64_t columns : {1, 3, 17})
    for (int64_t extra : {0, 3}) {
      const int64_t rows = int64_t(elements.size()) / (columns + extra), xs = columns + extra,
                    ys = columns + 2 * extra;
      std::vector<T> x(elements.begin(), elements.begin() + matrix(rows, columns, xs));
      const Floats y(matrix(rows, columns, ys)), scaled(y);
      const Floats before(y);
      launch("convert", {y, x}, {rows, columns, ys, xs, type}, {1, 0});
      launch("convert", {scaled, x}, {rows, columns, ys, xs, type}, {0.3, -2});
      bool same = true;
      for (int64_t i = 0; i < y.n; i++) {
        const float number =
            float(value(x[size_t(std::min(i / ys * xs + i % ys, int64_t(x.size()) - 1))]));
        const bool inside = i % ys < columns;
        // Product and sum are rounded separately.
        volatile float product = 0.3f * number;
        same &= same_bits(y[i], inside ? number : before[i]);
        same &= same_bits(scaled[i], inside ? product + -2.0f : before[i]);
      }
      check(same, std::string("convert of ") + element_types[type].name);
    }
}

template <class T>
void convert_numbers(int64_t type, std::vector<T> elements) {
  for (int i = 0; i < 300; i++) {
    const uint64_t word = uint64_t(generator()) << 32 | generator(), down = generator() % 64;
    elements.push_back(std::is_signed_v<T> ? T(int64_t(word) >> down) : T(word >> down));
  }
  convert_case(type, elements, [](T x) { return float(x); });
}

void test_convert() {
  convert_numbers<int8_t>(GK_INT8, {0, 1, -1, 127, -128});
  convert_numbers<uint8_t>(GK_UINT8, {0, 1, 127, 128, 255});
  convert_numbers<int16_t>(GK_INT16, {0, -1, 32767, -32768});
  convert_numbers<uint16_t>(GK_UINT16, {0, 1, 32768, 65535});
  convert_numbers<int32_t>(GK_INT32, {0, -1, 16777217, 16777219, -16777217, INT32_MAX, INT32_MIN});
  convert_numbers<uint32_t>(GK_UINT32,
                            {0, 1, 16777217, 0x80000080, 0x80000081, 0x80000180, UINT32_MAX});
  convert_numbers<int64_t>(GK_INT64, {0, -1, (int64_t(1) << 54) + (1 << 30) + 1,
                                      -(int64_t(1) << 40) - (1 << 16) - 1, INT64_MAX, INT64_MIN});
  convert_numbers<uint64_t>(GK_UINT64, {0, 1, (uint64_t(1) << 63) + (uint64_t(1) << 39) + 1,
                                        (uint64_t(1) << 63) + (uint64_t(1) << 39), UINT64_MAX});
  convert_case(GK_BOOL,
               std::vector<uint8_t>{0, 1, 1, 0, 2, 255, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0},
               [](uint8_t x) { return x ? 1.0f : 0.0f; });
  // Doubles of every size that matters to a float. The CPU rounds them to compare.
  std::vector<double> doubles{0.0,
                              -0.0,
                              1e300,
                              -1e300,
                              INFINITY,
                              -INFINITY,
                              5e-324,
                              0x1p-150,
                              -0x1.8p-150,
                              0x1p-149,
                              0x1.fffffefffffffp127,
                              0x1.ffffffp127,
                              0x1.fffffefp127,
                              0x1.0000010000001p0,
                              0x1.000001p0};
  for (int i = 0; i < 4000; i++)
    doubles.push_back(std::ldexp(std::uniform_real_distribution<double>(-2, 2)(generator),
                                 int(generator() % 290) - 155));
  for (size_t i = 100; i < doubles.size(); i += 3) {
    uint64_t bits;
    std::memcpy(&bits, &doubles[i], 8);
    bits = (bits & ~uint64_t(0x1fffffff)) | 0x10000000;
    std::memcpy(&doubles[i], &bits, 8);
  }
  convert_case(GK_FLOAT64, doubles, [](double x) { return float(x); });
  std::vector<float> floats{0.0f, -0.0f, 1e-45f, INFINITY, 3.4e38f};
  for (int i = 0; i < 100; i++)
    floats.push_back(std::uniform_real_distribution<float>(-9, 9)(generator));
  convert_case(GK_FLOAT32, floats, [](float x) { return x; });
  std::vector<uint16_t> halves;
  for (uint32_t i = 0; i < 65536; i++)
    if ((i & 0x7fff) <= 0x7c00) halves.push_back(uint16_t(i));
  convert_case(GK_FLOAT16, halves, [](uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const double size = exponent == 31  ? INFINITY
                        : exponent == 0 ? std::ldexp(mantissa, -24)
                                        : std::ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -size : size;
  });
  halves.clear();
  for (uint32_t i = 0; i < 65536; i++)
    if ((i & 0x7fff) <= 0x7f80) halves.push_back(uint16_t(i));
  convert_case(GK_BFLOAT16, halves, [](uint16_t h) {
    const uint32_t bits = uint32_t(h) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  });
  // A NaN stays a NaN, and becomes quiet. After a computation it is always the same NaN.
  std::vector<uint64_t> nan{0x7ff0000000000001u, 0xfff8000020000000u};
  const Floats y(2), scaled(2);
  launch("convert", {y, nan}, {1, 2, 2, 2, GK_FLOAT64}, {1, 0});
  launch("convert", {scaled, nan}, {1, 2, 2, 2, GK_FLOAT64}, {2, 0});
  check(gk_bits(y[0]) == 0x7fc00000 && gk_bits(y[1]) == 0xffc00001,
        "convert keeps the bits of a NaN that fit in a float");
  check(gk_bits(scaled[0]) == 0x7fc00000 && gk_bits(scaled[1]) == 0x7fc00000,
        "every computed NaN has the same bits");
}

void test_rows() {
  for (const auto& s : odd_sizes)
    for (int64_t extra : {0, 3}) {
      const int64_t rows = s[0], columns = s[1], table_rows = 7, os = columns + extra,
                    ts = columns + 2 * extra;
      const Floats table(matrix(table_rows, columns, ts)), out(matrix(rows, columns, os));
      std::vector<double> want = as_double(out);
      std::vector<int32_t> index(rows);
      for (int64_t i = 0; i < rows; i++) {
        index[i] = i % 9 == 7 ? -1 : i % 9 == 8 ? int32_t(table_rows) : int32_t(i * 5 % table_rows);
        for (int64_t j = 0; j < columns; j++)
          want[i * os + j] = index[i] < 0 || index[i] == table_rows ? 0 : table[index[i] * ts + j];
      }
      launch("gather", {out, table, index}, {rows, columns, table_rows, os, ts}, {});
      close("gather", out, want, 0);
    }
  for (int64_t n : {1, 2, 33, 1031}) {
    std::vector<int64_t> words(n, 1);
    launch("fill", {words}, {n, INT64_MIN + 5}, {});
    check(words == std::vector<int64_t>(n, INT64_MIN + 5), "fill");
  }
}

// The order of additions that gk.hpp and the sources promise, implemented once more: eight values
// in pairs, then lanes in order, then lanes in halves.
struct Ordered {
  explicit Ordered(size_t lanes) : lane(lanes, 0.0f) {}
  void eight(size_t l, const std::array<float, 8>& v) {
    lane[l] += ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }
  float sum() {
    for (size_t half = lane.size() / 2; half > 0; half /= 2)
      for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
  }
  std::vector<float> lane;
};

void test_order_of_sums() {
  for (int64_t rows : {1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000, 4099})
    for (int64_t columns : {1, 3, 4, 5, 130, 257, 600})
      for (float beta : {0.0f, 0.5f}) {
        const int64_t xs = columns + rows % 3;
        const Floats x(matrix(rows, columns, xs)), out(columns);
        for (int64_t i = 0; i < rows; i++) x[i * xs] = -0.0f;
        if (beta == 0) std::fill_n(out.at.get(), columns, NAN);
        const Floats before(out);
        launch("column_sums", {out, x}, {rows, columns, xs}, {0.3f, beta});
        bool same = true;
        for (int64_t j = 0; j < columns; j++) {
          Ordered order(64);
          for (int64_t i = 0; i < rows; i += 8) {
            std::array<float, 8> v{};
            for (int64_t k = 0; k < 8 && i + k < rows; k++) v[size_t(k)] = x[(i + k) * xs + j];
            order.eight(size_t(i / 8 % 64), v);
          }
          const float sum = 0.3f * order.sum();
          same &= same_bits(out[j], beta == 0 ? sum : beta * before[j] + sum);
        }
        check(same, "column_sums of " + std::to_string(rows) + "×" + std::to_string(columns) +
                        " in order");
      }
  for (int64_t n : {1, 255, 2047, 2048, 2049, 30000, 524288, 524289, 1100000}) {
    const Floats g(n), partial(256), factors(4);
    launch("grad_norm", {partial, g}, {n}, {});
    const int64_t part = (n + 524287) / 524288 * 2048;
    bool same = true;
    Ordered all(256);
    for (int64_t p = 0; p < 256; p++) {
      const int64_t end = std::min(n, (p + 1) * part);
      Ordered order(256);
      for (int64_t i = p * part; i < end; i += 2048)
        for (int64_t l = 0; l < 256; l++) {
          std::array<float, 8> v{};
          for (int64_t k = 0; k < 8; k++)
            if (const int64_t at = i + l + 256 * k; at < end) v[size_t(k)] = g[at] * g[at];
          order.eight(size_t(l), v);
        }
      all.lane[size_t(p)] = partial[p];
      same &= same_bits(partial[p], order.sum());
    }
    check(same, "grad_norm of " + std::to_string(n) + " in order");
    launch("clip_scale", {factors, partial}, {}, {0.5});
    check(same_bits(factors[3], std::sqrt(all.sum())),
          "clip_scale of " + std::to_string(n) + " in order");
  }
}

// Checks the number of blocks of a launch. A block covers as many elements as its kernel says, or
// as many as its threads. There is at least one block, and at most as many as the device wants.
void test_grids() {
  const auto blocks = [](const char* name, uint64_t elements, uint64_t threads, int64_t rows = 0) {
    return find_kernel(name)->blocks(Reach{elements * 4}, &rows, threads, 1000);
  };
  check(blocks("axpby", 0, 256) == 1 && blocks("axpby", 256, 256) == 1 &&
            blocks("axpby", 257, 256) == 2 && blocks("axpby", 257, 64) == 5 &&
            blocks("axpby", 1 << 20, 256) == 1000,
        "the number of blocks with a thread for each element");
  check(blocks("column_sums", 1, 256) == 1 && blocks("column_sums", 9, 256) == 2 &&
            blocks("column_sums", 9, 32) == 2 && blocks("grad_norm", 256, 256) == 256 &&
            blocks("clip_scale", 4, 32) == 1,
        "the number of blocks with the kernel's own elements per block");
  const auto of_rows = [&](int64_t rows, uint64_t threads) {
    return blocks("norm_act", 512 * rows, threads, rows);
  };
  check(of_rows(1, 256) == 1 && of_rows(8, 256) == 1 && of_rows(9, 256) == 2 &&
            of_rows(17, 1024) == 3 && of_rows(9, 64) == 5 && of_rows(9, 7) == 9 &&
            of_rows(10000, 256) == 1000,
        "the number of blocks with eight rows per block, or with as many as its threads allow");
}

void test_flat() {
  for (int64_t n : {1, 3, 255, 256, 257, 1031}) {
    const Floats x(n), y(n), before(y);
    launch("axpby", {y, x}, {n}, {0.005, 0.995});
    std::vector<double> want(n);
    for (int64_t i = 0; i < n; i++) want[i] = 0.005 * x[i] + 0.995 * before[i];
    close("axpby", y, want, 1e-6);
    y[0] = NAN;
    launch("axpby", {y, x}, {n}, {2, 0});
    for (int64_t i = 0; i < n; i++) check(y[i] == 2 * x[i], "axpby with beta 0");
    std::vector<int32_t> counter{7};
    launch("follow_every", {y, x, counter}, {n, 4}, {1, 0});
    check(y[0] == 2 * x[0], "follow_every waits for its turn");
    launch("count_up", {counter}, {}, {});
    check(counter[0] == 8, "count_up");
    for (double tau : {0.0, 0.005, 0.9, 1 - 1e-9}) {
      const Floats mixed(y), wanted(y);
      launch("follow_every", {mixed, x, counter}, {n, 4}, {tau, 1 - tau});
      launch("axpby", {wanted, x}, {n}, {tau, 1 - tau});
      check(std::memcmp(mixed.at.get(), wanted.at.get(), size_t(n) * 4) == 0,
            "follow_every has the bits of axpby");
    }
    const Floats awkward(x);
    awkward[0] = INFINITY;
    if (n > 1) awkward[1] = NAN;
    y[0] = NAN;
    launch("follow_every", {y, awkward, counter}, {n, 4}, {1, 0});
    check(std::memcmp(y.at.get(), awkward.at.get(), size_t(n) * 4) == 0,
          "follow_every copies bits");
    counter[0] = INT32_MAX;
    launch("count_up", {counter}, {}, {});
    check(counter[0] == INT32_MIN, "count_up wraps around");

    const Floats partial(256), factors(4);
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += double(x[i]) * x[i];
    const double norm = std::sqrt(squares);
    launch("grad_norm", {partial, x}, {n}, {});
    for (double most : {norm / 3, norm * 3}) {
      launch("clip_scale", {factors, partial}, {}, {most});
      check(std::fabs(factors[3] - norm) < 1e-5 * norm &&
                std::fabs(factors[2] - std::min(1.0, most / (norm + 1e-6))) < 1e-5,
            "clip_scale");
    }
  }
}

void test_goal_reward() {
  for (int64_t rows : {1, 5, 33})
    for (int64_t n : {1, 3})
      for (int64_t d : {1, 2, 5}) {
        const int64_t as = n * d + 3, gs = d + 2;
        const Floats achieved(matrix(rows, n * d, as)), goal(matrix(rows, d, gs)),
            reward(matrix(rows, 1, 2));
        std::vector<int32_t> steps(size_t(matrix(rows, 1, 3)));
        std::vector<double> want = as_double(reward);
        for (int64_t i = 0; i < rows; i++) {
          steps[size_t(3 * i)] = int32_t(i % (n + 3)) - 1;
          want[size_t(2 * i)] = 0;
          for (int64_t j = 0; j < std::min<int64_t>(n, steps[size_t(3 * i)]); j++) {
            double squares = 0;
            for (int64_t c = 0; c < d; c++)
              squares += std::pow(double(achieved[i * as + j * d + c]) - goal[i * gs + c], 2);
            if (std::sqrt(squares) > 0.8) want[size_t(2 * i)] -= std::pow(0.9, double(j));
          }
        }
        launch("goal_reward", {reward, achieved, goal, steps}, {rows, n, d, 2, as, gs, 3},
               {0.9, 0.8});
        close("goal_reward", reward, want, 1e-6);
      }
}

// A weighted loss must be the loss of weight 1 times the row's weight, with the same bits. It also
// returns the error of each row.
void weighted(const Floats& q, const Floats& y, const Floats& action,
              const std::array<int64_t, 4>& sizes, double delta, const Floats& plain_dq,
              const Floats& plain_terms) {
  const auto [rows, actions, qs, stride] = sizes;
  for (int64_t apart : {0, 1, 3}) {
    const Floats dq(plain_dq), terms(2 * rows), weights(matrix(rows, 1, apart)),
        off(matrix(rows, 1, 2));
    if (apart == 0) weights[0] = 1;
    launch("td_loss_weighted", {dq, terms, off, q, y, action, weights},
           {rows, actions, qs, 2, qs, stride, apart, rows, rows, rows}, {delta, 0.5});
    bool same = true;
    for (int64_t i = 0; i < rows; i++) {
      const float weight = weights[i * apart];
      for (int64_t j = 0; j < actions; j++)
        same &= dq[i * qs + j] == (j == i % actions ? weight * plain_dq[i * qs + j] : 0);
      same &= same_bits(terms[2 * i], weight * plain_terms[2 * i]) &&
              terms[2 * i + 1] == plain_terms[2 * i + 1];
      same &= same_bits(off[2 * i], std::fabs(terms[2 * i + 1] - y[i]));
    }
    check(same, "td_loss_weighted");
  }
}

// A loss with its targets must have the bits of td_target_discounts and td_loss_weighted.
void test_td_loss_target() {
  for (int64_t actions : {1, 2, 7})
    for (const auto& own : std::vector<std::array<int64_t, 4>>{
             {0, 12, 12, 12}, {1, 12, 12, 12}, {2, 4, 12, 3}, {1, 1, 5, 12}}) {
      const auto [apart, targets, chosen, weighted] = own;
      const int64_t rows = 12, qs = actions + 1, vs = actions + 2, cs = actions + 3;
      const Floats q(matrix(rows, actions, qs)), value(matrix(targets, actions, vs)),
          choice(matrix(targets, actions, cs)), rewards(matrix(targets, 1, 3)),
          discounts(matrix(targets, 1, 2)), action(matrix(chosen, 1, 4)),
          weights(matrix(weighted, 1, apart)), y(targets);
      for (int64_t i = 0; i < chosen; i++) action[4 * i] = float(i % (actions + 1));
      for (int64_t i = 0; i < targets; i += 3) discounts[2 * i] = 0;
      for (int64_t j = 0; j < actions; j++) value[j] = NAN;
      if (apart > 0) weights[apart * (weighted - 1)] = 0;
      launch("td_target_discounts", {y, value, choice, rewards, discounts},
             {targets, actions, vs, cs, 3, 2}, {});
      for (double delta : {0.0, 0.3}) {
        const Floats dq(rows * actions), terms(2 * rows), off(rows), dq2(rows * actions),
            terms2(2 * rows), off2(rows);
        launch("td_loss_weighted", {dq, terms, off, q, y, action, weights},
               {rows, actions, actions, 1, qs, 4, apart, targets, chosen, weighted}, {delta, 0.5});
        launch("td_loss_target",
               {dq2, terms2, off2, q, value, choice, rewards, discounts, action, weights},
               {rows, actions, qs, vs, cs, 3, 2, 4, apart, targets, chosen, weighted},
               {delta, 0.5});
        for (const auto& [a, b] :
             {std::pair{&dq, &dq2}, std::pair{&terms, &terms2}, std::pair{&off, &off2}})
          for (int64_t i = 0; i < a->n; i++)
            check(same_bits((*a)[i], (*b)[i]) || (std::isnan((*a)[i]) && std::isnan((*b)[i])),
                  "td_loss_target");
      }
    }
}

void test_td() {
  test_td_loss_target();
  for (int64_t rows : {1, 5, 33})
    for (int64_t actions : {1, 2, 7}) {
      const int64_t stride = 11, qs = actions + 1;
      const Floats value(matrix(rows, actions, qs)), choice(matrix(rows, actions, actions)),
          y(rows);
      const Floats reward(matrix(rows, 1, stride)), done(matrix(rows, 1, stride)),
          truncated(matrix(rows, 1, stride)), action(matrix(rows, 1, stride));
      std::vector<double> want(rows);
      for (int64_t i = 0; i < rows; i++) {
        done[i * stride] = float(i % 2), truncated[i * stride] = float(i % 4 == 3),
                 action[i * stride] = float(i % actions);
        const float* row = &choice[i * actions];
        const double next = value[i * qs + (std::max_element(row, row + actions) - row)];
        const bool terminated = i % 2 == 1 && i % 4 != 3;
        want[i] = reward[i * stride] + (terminated ? 0 : 0.99 * next);
      }
      launch("td_target", {y, value, choice, reward, done, truncated},
             {rows, actions, qs, actions, stride, stride, stride}, {0.99});
      close("td_target", y, want, 1e-6);
      // Given as discounts, the same targets must have the same bits.
      const Floats discount(matrix(rows, 1, 2)), same(rows);
      for (int64_t i = 0; i < rows; i++) discount[2 * i] = i % 2 == 1 && i % 4 != 3 ? 0.0f : 0.99f;
      launch("td_target_discounts", {same, value, choice, reward, discount},
             {rows, actions, qs, actions, stride, 2}, {});
      for (int64_t i = 0; i < rows; i++) check(same_bits(same[i], y[i]), "td_target_discounts");
      // The discount of the second row is 0, so its values may be NaN.
      if (rows > 1) {
        const Floats lost(value), again(rows);
        for (int64_t j = 0; j < actions; j++) lost[qs + j] = NAN;
        launch("td_target", {again, lost, choice, reward, done, truncated},
               {rows, actions, qs, actions, stride, stride, stride}, {0.99});
        launch("td_target_discounts", {same, lost, choice, reward, discount},
               {rows, actions, qs, actions, stride, 2}, {});
        for (int64_t i = 0; i < rows; i++)
          check(same_bits(again[i], y[i]) && same_bits(same[i], y[i]),
                "a discount of 0 selects the reward alone");
      }

      for (double delta : {0.0, 0.3}) {
        const Floats dq(matrix(rows, actions, qs)), terms(2 * rows);
        std::vector<double> slopes = as_double(dq), losses(2 * rows);
        for (int64_t i = 0; i < rows; i++) {
          const double d = double(value[i * qs + i % actions]) - y[i];
          const bool near = std::fabs(d) <= delta;
          losses[2 * i] = delta == 0 ? d * d
                          : near     ? 0.5 * d * d
                                     : delta * (std::fabs(d) - 0.5 * delta);
          losses[2 * i + 1] = value[i * qs + i % actions];
          for (int64_t j = 0; j < actions; j++) slopes[i * qs + j] = 0;
          slopes[i * qs + i % actions] = 0.5 * (delta == 0 ? 2 * d
                                                : near     ? d
                                                           : std::copysign(delta, d));
        }
        const Floats one(1), off(rows);
        one[0] = 1;
        const auto loss = [&] {
          launch("td_loss_weighted", {dq, terms, off, value, y, action, one},
                 {rows, actions, qs, 1, qs, stride, 0, rows, rows, 1}, {delta, 0.5});
        };
        loss();
        close("td_loss_weighted dq", dq, slopes, 1e-6);
        close("td_loss_weighted terms", terms, losses, 1e-6);
        weighted(value, y, action, {rows, actions, qs, stride}, delta, dq, terms);
        for (float outside : {float(actions), -0.5f, -1.0f, NAN, INFINITY}) {
          action[0] = outside;
          loss();
          bool same = std::isnan(terms[0]) && std::isnan(terms[1]) && std::isnan(off[0]);
          for (int64_t j = 0; j < actions; j++) same &= dq[j] == 0;
          check(same, "an action outside the row gives NaN terms and no gradient");
        }
        const float target = y[0];
        action[0] = 0, y[0] = NAN;
        loss();
        check(std::isnan(terms[0]) && std::isnan(dq[0]) && std::isnan(off[0]),
              "a NaN target gives a NaN loss and gradient");
        one[0] = 0;
        loss();
        y[0] = target;
        check(terms[0] == 0 && terms[1] == value[0] && std::isnan(off[0]) && dq[0] == 0,
              "a weight of 0 gives no loss and no gradient, even of a NaN target");
      }
    }
}

// Moves the elements one by one, as the table says.
template <class T>
void moved(const HaloMove& move, T* buffer, T* array) {
  for (int64_t t = 0; t < move.count; t++) {
    int64_t at = move.base, left = t;
    for (int64_t d = move.rank - 1; d >= 0; d--) {
      at += left % move.dims[d].extent * move.dims[d].step;
      left /= move.dims[d].extent;
    }
    T& dense = buffer[move.buffer + t];
    if (move.flags & 1)
      array[at] = dense;
    else
      dense = move.flags & 2 ? T(array[at] ^ T(T(1) << (8 * sizeof(T) - 1))) : array[at];
  }
}

// Moves random parts of ten arrays, each of which ends with its last element. Checks one call, one
// launch, and the device's form of the kernel.
template <class T, class F>
void halo_case(const char* name, F device_form, int64_t max_extent, bool unpack) {
  const auto below = [](int64_t n) { return int64_t(generator() % uint64_t(n)); };
  std::vector<HaloMove> moves;
  std::vector<std::vector<T>> arrays;
  int64_t total = 0;
  for (int64_t a = 0; a < halo_arrays; a++) {
    HaloMove move{
        a, unpack ? 1 : below(2) * 2, total, 1, 0, below((max_extent > 9 ? 3 : halo_max_rank) + 1),
        {}};
    int64_t reach = 0;
    std::vector<int64_t> order(move.rank);
    for (int64_t d = 0; d < move.rank; d++) order[size_t(d)] = d;
    std::shuffle(order.begin(), order.end(), generator);
    // The smallest step comes first, so that no two elements have the same position.
    int64_t step = 1 + below(2);
    for (const int64_t d : order) {
      const int64_t extent = d < 3 ? 1 + below(max_extent) : 1 + below(3), sign = below(2) ? 1 : -1;
      move.dims[d] = {extent, sign * step};
      move.count *= extent;
      if (sign < 0) move.base += (extent - 1) * step;
      reach += (extent - 1) * step;
      step *= extent + below(2);
    }
    total += move.count;
    moves.push_back(move);
    arrays.emplace_back(size_t(reach + 1));
    for (T& value : arrays.back()) value = T(generator());
  }
  std::vector<T> buffer(static_cast<size_t>(total));
  for (T& value : buffer) value = T(generator());
  std::vector<T> wanted_buffer(buffer), device_buffer(buffer), called_buffer(buffer);
  auto wanted(arrays), on_device(arrays), called(arrays);
  for (auto& move : moves) moved(move, wanted_buffer.data(), wanted[size_t(move.array)].data());

  std::vector<Buffer> buffers{buffer, moves};
  std::vector<int64_t> wholes{halo_arrays, total};
  std::vector<HaloArray> views;
  for (size_t a = 0; a < arrays.size(); a++) {
    buffers.push_back(arrays[a]);
    wholes.push_back(int64_t(arrays[a].size()));
    views.push_back({called[a].data(), int64_t(called[a].size())});
  }
  launch(name, buffers, wholes, {});
  check(buffer == wanted_buffer && arrays == wanted,
        std::string(name) + " moves what the table says");
  const char* why = halo_move(moves.data(), halo_arrays, sizeof(T), {called_buffer.data(), total},
                              views.data(), halo_arrays);
  check(!why && called_buffer == wanted_buffer && called == wanted,
        std::string(name) + " in one call: " + (why ? why : "other bytes"));
  const auto table = reinterpret_cast<const int64_t*>(moves.data());
  const auto a = [&](size_t i) { return on_device[i].data(); };
  device_form(device_buffer.data(), table, a(0), a(1), a(2), a(3), a(4), a(5), a(6), a(7), a(8),
              a(9), halo_arrays, total, wholes[2], wholes[3], wholes[4], wholes[5], wholes[6],
              wholes[7], wholes[8], wholes[9], wholes[10], wholes[11]);
  check(device_buffer == wanted_buffer && on_device == wanted,
        std::string("the device form of ") + name);
}

// Counts this process's threads.
size_t threads_now() {
  size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
    count += !each.path().empty();
  return count;
}

// Checks that large moves use idle cores, and small moves do not. Two pieces of a job must run at
// the same time.
void test_idle_cores() {
  // 32 MiB are split into 64 pieces, which are more than there can be helpers.
  std::vector<uint64_t> from(1 << 22, 3), to(from.size());
  const auto move = [&](int64_t count) {
    const HaloMove run{0, 0, 0, count, 0, 1, {{count, 1}}};
    const HaloArray array{from.data(), int64_t(from.size())};
    check(!halo_move(&run, 1, 8, {to.data(), int64_t(to.size())}, &array, 1),
          "halo_move() accepts a run");
  };
  const size_t before = threads_now();
  move(1000);
  check(threads_now() == before, "a small move starts no helper");
  move(int64_t(from.size()));
  check(to == from, "a large move copies every element");
  const int helpers = IdleCores::helpers(from.size() * 8);
  check(helpers == CorePool::of_process().spare(), "a large move gets all helpers");
  check(threads_now() >= before + size_t(helpers), "a large move starts a thread for each helper");
  if (helpers == 0) return;
  std::atomic<int> begun{0};
  std::atomic<bool> together{true};
  IdleCores::run(2, 1, [&](int) {
    begun.fetch_add(1);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun.load() < 2 && together.load()) {
      if (std::chrono::steady_clock::now() > limit) together.store(false);
      std::this_thread::yield();
    }
  });
  check(together.load(), "a helper runs a piece while the caller runs another");
}

void test_halo() {
  for (int round = 0; round < 60; round++) {
    const int64_t most = round % 20 == 0 ? 70 : 9;  // large ones are split
    halo_case<uint8_t>("halo8", device_form::halo8, most, round & 1);
    halo_case<uint16_t>("halo16", device_form::halo16, most, round & 1);
    halo_case<uint32_t>("halo32", device_form::halo32, most, round & 1);
    halo_case<uint64_t>("halo64", device_form::halo64, most, round & 1);
  }
  // Whatever a table says, nothing outside the buffers may be touched. If a part of the table is
  // wrong, nothing may be moved.
  const HaloMove good{0, 0, 0, 6, 2, 2, {{2, 4}, {3, 1}}};
  const auto wrong = [&](const char* part, auto change) {
    std::vector<uint32_t> buffer(12, 7), array(9, 1), other(1, 2);
    std::vector<HaloMove> moves{good, good};
    moves[1].buffer = 6;
    change(moves[1]);
    const HaloArray views[] = {{array.data(), 9}};
    const char* text = halo_move(moves.data(), 2, 4, {buffer.data(), 12}, views, 1);
    check(text && std::strstr(text, part), std::string("a table is refused with '") + part +
                                               "', said '" + (text ? text : "nothing") + "'");
    check(buffer == std::vector<uint32_t>(12, 7) && array == std::vector<uint32_t>(9, 1),
          "a wrong table moves nothing");
    uint32_t* const at = other.data();
    device_form::halo32(buffer.data(), reinterpret_cast<const int64_t*>(moves.data()), array.data(),
                        at, at, at, at, at, at, at, at, at, 2, 12, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1);
  };
  wrong("of array 1, there are 1", [](HaloMove& m) { m.array = 1; });
  wrong("of array -1", [](HaloMove& m) { m.array = -1; });
  wrong("rank 9", [](HaloMove& m) { m.rank = 9; });
  wrong("an extent of -2", [](HaloMove& m) { m.dims[0].extent = -2; });
  wrong("an extent of", [](HaloMove& m) { m.dims[0].extent = m.dims[1].extent = INT64_MAX; });
  wrong("its extents say otherwise", [](HaloMove& m) { m.count = 5; });
  wrong("end beyond a buffer of 12", [](HaloMove& m) { m.buffer = 7; });
  wrong("end beyond a buffer of 12", [](HaloMove& m) { m.buffer = INT64_MAX; });
  wrong("end beyond a buffer of 12", [](HaloMove& m) { m.buffer = -1; });
  wrong("outside its array of 9", [](HaloMove& m) { m.base = 3; });
  wrong("outside its array of 9", [](HaloMove& m) { m.base = -1; });
  wrong("outside its array of 9", [](HaloMove& m) { m.dims[0].step = INT64_MIN; });
}

// Checks that a refusal names what is wrong, and the value. A size that is too large must not
// overflow to a small one.
void refused(const char* name, std::vector<int64_t> wholes, std::vector<double> reals,
             const char* part) {
  Reach reach[max_pointers];
  const KernelArgs args = arguments({}, wholes, reals);
  const char* text = find_kernel(name)->need(args, reach);
  check(text && std::strstr(text, part), std::string(name) + " is refused with '" + part +
                                             "', said '" + (text ? text : "nothing") + "'");
}

void test_refusals() {
  refused("gemm", {0, 0, 4, 5, 6, 5, 5, 5}, {1, 0},
          "lda must be at least the row's 6 elements, got 5");
  refused("gemm", {0, 2, 4, 5, 6, 6, 5, 5}, {1, 0}, "trans_b must be at most 1, got 2");
  refused("bias_act", {0, 3, 3, 3, 0}, {}, "rows must be at least 1, got 0");
  refused("bias_act", {2, 3, 3, 3, 9}, {}, "activation must be at most 2, got 9");
  refused("bias_act_batched", {2, 3, 4, 4, 4, 11, 12, 4, 0}, {},
          "y_batch must be at least the 12 elements of a member, got 11");
  refused("bias_act_batched", {2, 3, 4, 4, 4, 12, -1, 4, 0}, {},
          "x_batch must be at least 0, got -1");
  refused("bias_act_batched", {2, 3, 4, 4, 4, 12, 0, 0, 21}, {}, "op must be at most 20, got 21");
  refused("bias_act_batched", {2, INT64_MIN, 4, 4, 4, 12, 0, 0, 1}, {},
          "rows must be at least 1, got -9223372036854775808");
  refused("column_sums_batched", {0, 3, 4, 4, 12, 4}, {1, 0}, "batch must be at least 1, got 0");
  refused("column_sums_batched", {2, 3, 4, 4, 12, 3}, {1, 0},
          "out_batch must be at least the 4 elements of a member, got 3");
  refused("norm_act_batched", {4, 3, 3, 3, 0, 0, 3}, {1e-5},
          "member_rows must be at least 1, got 0");
  refused("norm_act_batched", {4, 3, 3, 3, 0, 2, -1}, {1e-5}, "p_batch must be at least 0, got -1");
  refused("norm_act_backward_batched", {4, 3, 8, 3, 3, 0, 2, 3}, {},
          "out_stride must be at least the row's 9 elements, got 8");
  refused("td_target", {2, 2, 2, 2, 1, 1, 1}, {1.5}, "gamma must be within [0, 1], got 1.5");
  refused("axpby", {4}, {NAN, 0}, "alpha must be finite as a float, got");
  refused("axpby", {4}, {1, 1e39}, "beta must be finite as a float, got 1e+39");
  const std::vector<double> adam{0.1, 0.1, 1e-8, 0, 0, 0};
  const auto other = [](std::vector<double> reals, size_t i, double value) {
    reals[i] = value;
    return reals;
  };
  refused("adam", {4, 1}, other(adam, 0, 0), "1 - beta1 must be within [9e-10, 1], got 0");
  refused("adam", {4, 1}, other(adam, 3, -1), "decay must be within [0, 1e+06], got -1");
  refused("adam", {4, 1}, other(adam, 5, 1e-31), "max_norm must be within [1e-30, 1e+30], got");
  refused("adam", {4, 1}, other(adam, 5, NAN), "max_norm must be finite as a float, got");
  refused("adam", {4, 0}, adam, "ahead must be at least 1, got 0");
  refused("adam", {4, int64_t(1) << 31}, adam, "ahead must be at most 2147483647, got 2147483648");
  const std::vector<double> follow{0.1, 0.1, 1e-8, 0, 0, 0, 1, 0};
  refused("adam_follow", {4, 1, -1, 2, 1}, follow, "first must be at least 0, got -1");
  refused("adam_follow", {4, 1, 0, 0, 1}, follow, "count must be at least 1, got 0");
  refused("adam_follow", {4, 1, 3, 2, 1}, follow,
          "first + count must be at most n, got 3 + 2 and n 4");
  refused("adam_follow", {4, 1, INT64_MAX, INT64_MAX, 1}, follow,
          "first + count must be at most n, got 9223372036854775807 + 9223372036854775807 and n 4");
  refused("adam_follow", {INT64_MIN, 1, 0, 1, 1}, follow, "n must be at least 1, got -9223372036");
  refused("adam_follow", {4, 1, 0, 4, 0}, follow, "every must be at least 1, got 0");
  refused("adam_follow", {4, 1, 0, 4, 1}, other(follow, 7, 0.5),
          "rest must be 1 - tau, got 0.5 and tau 1");
  refused("sgd", {4, 2}, {0, 0, 0}, "nesterov must be at most 1, got 2");
  refused("sgd", {4, 0}, {1.5, 0, 0}, "momentum must be within [0, 1], got 1.5");
  refused("sgd", {4, 0}, {0, -1, 0}, "decay must be within [0, 1e+06], got -1");
  refused("sgd_follow", {4, 1, 0, 5, 1, 0}, {0, 0, 0, 1, 0},
          "first + count must be at most n, got 0 + 5 and n 4");
  refused("sgd_follow", {4, 1, 0, 4, 1, 0}, {0, 0, 0, 2, -1}, "tau must be within [0, 1], got 2");
  refused("squashed_gaussian", {4, 3, 3, 5, 0, 0}, {-5, 2, 1},
          "out_stride must be at least the row's 6 elements, got 5");
  refused("squashed_gaussian", {4, 3, 3, 6, 2, 0}, {-5, 2, 1}, "form must be at most 1, got 2");
  refused("squashed_gaussian", {4, 3, 3, 6, 0, 4}, {-5, 2, 1},
          "correction must be at most 3, got 4");
  refused("squashed_gaussian_rows", {4, 3, 2, 6, 0, 0}, {-5, 2, 1},
          "action_stride must be at least the row's 3 elements, got 2");
  refused("squashed_gaussian_backward", {4, 3, 6, 6, 3, 1, 0, 0}, {2, -5, 1, 1},
          "high must be within [2, 3e+38], got -5");
  refused("categorical_project", {4, 1, 1, 1, 0, 4, 4, 4}, {-1, 1},
          "atoms must be at least 2, got 1");
  refused("categorical_project", {4, 3, 1, 1, 0, 4, 5, 4}, {-1, 1},
          "discount_rows must be at most 4, got 5");
  refused("categorical_target", {4, 1025, 1025, 1, 1, 0, 4, 4, 4}, {-1, 1},
          "atoms must be at most 1024, got 1025");
  refused("categorical_target", {4, 3, 2, 1, 1, 0, 4, 4, 4}, {-1, 1},
          "logits_stride must be at least the row's 3 elements, got 2");
  refused("categorical_target", {4, 3, 3, 1, 1, 0, 4, 4, 5}, {-1, 1},
          "cost_rows must be at most 4, got 5");
  refused("categorical_loss", {4, 3, 3, 1, 3, 0, 4, 4}, {-30, 1, 1, 1}, "low must be below high");
  refused("categorical_loss", {4, 3, 3, 1, 3, 0, 0, 4}, {-30, 1, 0, 1},
          "target_rows must be at least 1, got 0");
  refused("categorical_mean", {4, 3, 1, 2}, {-1, 1},
          "logits_stride must be at least the row's 3 elements, got 2");
  refused("moments", {3, 0, 0, 0}, {0, 1e-8}, "rows must be at least 1, got 0");
  refused("moments", {3, 1, 2, 0}, {0, 1e-8}, "after must be at most 1, got 2");
  refused("gather", {4, 3, 0, 3, 3}, {}, "table_rows must be at least 1, got 0");
  refused("gather", {4, 3, 9, 3, 2}, {},
          "table_stride must be at least the row's 3 elements, got 2");
  refused("unpack_bits", {4, 0, 3, 1}, {}, "columns must be at least 1, got 0");
  refused("unpack_bits", {4, 33, 33, 1}, {},
          "words_stride must be at least the row's 2 elements, got 1");
  refused("convert", {4, 3, 3, 3, 13}, {1, 0}, "dtype must be at most 12, got 13");
  refused("convert", {4, 3, 3, 2, 3}, {1, 0},
          "x_stride must be at least the row's 3 elements, got 2");
  refused("convert", {4, 3, 3, 3, 3}, {INFINITY, 0}, "scale must be finite as a float, got inf");
  refused("goal_reward", {4, 3, 2, 1, 5, 2, 1}, {1, 0},
          "achieved_stride must be at least the row's 6 elements, got 5");
  refused("goal_reward", {4, INT64_MAX, 2, 1, 6, 2, 1}, {1, 0},
          "achieved_stride must be at least the row's 9223372036");
  refused("goal_reward", {4, 3, 2, 1, 6, 2, 1}, {1, -1},
          "threshold must be within [0, 1e+18], got -1");
  refused("td_target_discounts", {2, 2, 2, 2, 1, 0}, {},
          "discount_stride must be at least 1, got 0");
  refused("td_loss_weighted", {2, 2, 2, 1, 2, 1, -1, 2, 2, 2}, {1, 1},
          "weight_stride must be at least 0, got -1");
  refused("td_loss_weighted", {2, 2, 2, 1, 2, 1, 1, 3, 2, 2}, {1, 1},
          "y_rows must be at most 2, got 3");
  refused("td_loss_target", {2, 2, 2, 2, 2, 1, 1, 1, 1, 3, 2, 2}, {1, 1},
          "target_rows must be at most 2, got 3");
  refused("td_loss_target", {2, 2, 2, 1, 2, 1, 1, 1, 1, 2, 2, 2}, {1, 1},
          "value_stride must be at least the row's 2 elements, got 1");
  refused("sum_long", {1, 1025, 4, 1, 4100}, {1}, "pieces must be at most 1024, got 1025");
  refused("sum_long", {1, 4, 4, 1, 15}, {1},
          "x_stride must be at least the row's 16 elements, got 15");
  refused("sum_chain", {3, 1, 4, 1}, {1}, "kind must be at most 2, got 3");
  refused("sum_chain", {2, 1, 4, 5}, {1}, "outputs must be at most 4, got 5");
  refused("sum_chain", {1, 0, 4, 1}, {1}, "rows must be at least 1, got 0");
  refused("fill", {0, 1}, {}, "n must be at least 1, got 0");
  refused("follow_every", {4, 0}, {1, 0}, "every must be at least 1, got 0");
  refused("follow_every", {4, 1}, {1.5, -0.5}, "tau must be within [0, 1], got 1.5");
  refused("follow_every", {4, 1}, {0.5, 0}, "rest must be 1 - tau, got 0 and tau 0.5");
  refused("random_uniform", {4}, {1, 1}, "low must be below high, got 1 and 1");
  refused("random_normal", {4}, {0, -1}, "deviation must be within [0, 1e+30], got -1");
  refused("halo32", {11, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {}, "moves must be at most 10, got 11");
  refused("halo8", {1, 1, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0}, {}, "room 5 must be at least 0, got -1");
  refused("random_advance", {0}, {}, "blocks must be at least 1, got 0");
  refused("step_end", {0, 1, 1, 1, 0, 4}, {1, 0}, "scalars must be at least 1, got 0");
  refused("step_end", {1, 1, 32, 1, 0, 4}, {1, 0}, "groups must be at most 31, got 32");
  refused("step_end", {1, 1, 1, 1, -1, 4}, {1, 0}, "blocks must be at least 0, got -1");
  refused("step_end", {1, 1, 1, 1, 0, 4}, {INFINITY, 0},
          "alpha must be finite as a float, got inf");
  Reach reach[max_pointers];
  const int64_t huge = int64_t(1) << 52;
  find_kernel("copy2d")->need(arguments({}, {huge, huge, huge, huge}, {}), reach);
  check(reach[0].bytes == UINT64_MAX, "a size that overflows needs UINT64_MAX bytes");
  find_kernel("fill")->need(arguments({}, {int64_t(1) << 62, 0}, {}), reach);
  check(reach[0].bytes == UINT64_MAX, "a fill that overflows needs UINT64_MAX bytes");
  check(find_kernel("no such kernel") == nullptr, "find_kernel() returns null for an unknown name");
}

// Philox4x32-10 as in its paper, with a counter of 128 bits.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, uint64_t key) {
  for (uint32_t round = 0; round < 10; round++) {
    const uint64_t left = uint64_t{0xD2511F53} * x[0], right = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t k0 = uint32_t(key) + round * 0x9E3779B9,
                   k1 = uint32_t(key >> 32) + round * 0xBB67AE85;
    x = {uint32_t(right >> 32) ^ x[1] ^ k0, uint32_t(right), uint32_t(left >> 32) ^ x[3] ^ k1,
         uint32_t(left)};
  }
  return x;
}

void test_random() {
  // The known answers that its authors published.
  const uint32_t ones = UINT32_MAX;
  check(philox({0, 0, 0, 0}, 0) ==
            std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        "philox of zeros");
  check(philox({ones, ones, ones, ones}, UINT64_MAX) ==
            std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        "philox of ones");
  check(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
            std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
        "philox of pi");
  const auto words = [](uint64_t seed, uint64_t place) {
    return std::vector<int32_t>{int32_t(seed), int32_t(seed >> 32), int32_t(place),
                                int32_t(place >> 32)};
  };
  for (int64_t n : {1, 3, 4, 5, 1031})
    for (uint64_t place : {uint64_t(0), uint64_t(UINT32_MAX) - 3, (uint64_t(7) << 32) + 1}) {
      const uint64_t seed = 0x123456789abcdef0 + uint64_t(n);
      std::vector<int32_t> state = words(seed, place);
      const Floats uniform(n), normal(n);
      launch("random_uniform", {uniform, state}, {n}, {-0.5, 1.5});
      launch("random_normal", {normal, state}, {n}, {2, 3});
      bool same = true;
      std::vector<double> want(n);
      for (int64_t i = 0; i < n; i++) {
        const uint64_t at = place + uint64_t(i / 4);
        const auto x = philox({uint32_t(at), uint32_t(at >> 32), 0, 0}, seed);
        same &= uniform[i] == -0.5f + float(x[i % 4] >> 8) * 0x1p-24f * 2.0f;
        const size_t pair = i % 4 / 2 * 2;
        const double radius = std::sqrt(-2 * std::log(double((x[pair] >> 8) + 1) / 16777216)),
                     angle = double(x[pair + 1] >> 8) / 16777216 * 2 * M_PI;
        want[i] = 2 + 3 * radius * (i % 2 ? std::sin(angle) : std::cos(angle));
      }
      check(same, "random_uniform is philox's");
      close("random_normal", normal, want, 3e-6);
      launch("random_advance", {state}, {(n + 3) / 4}, {});
      check(state == words(seed, place + uint64_t((n + 3) / 4)),
            "random_advance counts in 64 bits");
    }
  // Moments and range of many numbers.
  const int64_t n = 1 << 20;
  std::vector<int32_t> state = words(5, 0);
  const Floats uniform(n), normal(n);
  launch("random_uniform", {uniform, state}, {n}, {0, 1});
  launch("random_normal", {normal, state}, {n}, {0, 1});
  double sum = 0, squares = 0, low = 1, high = 0, mean = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += normal[i], squares += double(normal[i]) * normal[i], mean += uniform[i];
    low = std::min(low, double(uniform[i])), high = std::max(high, double(uniform[i]));
  }
  check(std::fabs(sum / n) < 0.005 && std::fabs(squares / n - 1) < 0.01,
        "random_normal has mean 0 and variance 1");
  check(low >= 0 && low < 1e-5 && high < 1 && high > 1 - 1e-5 && std::fabs(mean / n - 0.5) < 0.002,
        "random_uniform fills [0, 1)");
  // The sum may round up to the end of the range.
  const float next = std::nextafter(1.0f, 2.0f);
  launch("random_uniform", {uniform, state}, {n}, {1, next});
  bool below = true;
  for (int64_t i = 0; i < n; i++) below &= uniform[i] < next;
  check(below, "random_uniform never returns the end of its range");
}

void test_test_kernels() {
  check(find_kernel("fail")->run(nullptr) != nullptr, "fail fails");
  const auto start = std::chrono::steady_clock::now();
  launch("spin", {}, {2000}, {});
  check(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(2),
        "spin is busy for the requested time");
  std::vector<int32_t> word{1};
  launch("latch", {word}, {1000}, {});
  word[0] = 0;
  void* at = word.data();
  const KernelArgs closed = arguments({at}, {5}, {});
  check(find_kernel("latch")->run(&closed) != nullptr, "a latch that nobody opens fails");
}

}  // namespace

//   kernels_harness [brief]
int main(int count, char**) {
  for (const Kernel& kernel : all_kernels())
    check(find_kernel(kernel.name) == &kernel, std::string(kernel.name) + " is listed once");
  IdleCores::use(CorePool::table_of_process());
  test_idle_cores();  // before anything else has started helpers
  test_gemm(count > 1), test_zeros(), test_activations(), test_columns(), test_order_of_sums(),
      test_grids(), test_convert(), test_rows(), test_flat(), test_learners(), test_goal_reward(),
      test_td(), test_random(), test_halo(), test_refusals(), test_test_kernels(), test_ops(),
      test_traced(), test_overlap(), test_batched(), test_products_and_layers();
  std::printf("%zu kernels, products by %s: %d failures\n", all_kernels().size(), gemm_provider(),
              failures.load());
  return failures > 0;
}
