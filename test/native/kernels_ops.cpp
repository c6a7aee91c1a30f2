// Compares the kernels of ops with the C library in double. It tests every function over its range
// and at its ends, every kind of broadcast operand, and rows of every length.
#include <functional>

#include "kernels/gk.hpp"
#include "kernels_rig.hpp"

namespace numbers {
#include "kernels/functions.gk"
#include "kernels/unary.gk"
}  // namespace numbers

namespace {

const float inf = INFINITY, nan = NAN;

struct Unary {
  const char* name;
  int64_t op;
  std::function<double(double)> f;
  // The tested range, and the allowed error: in units of the result's last place, and absolute.
  float low, high;
  double ulps, absolute;
};

double phi(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const Unary unaries[] = {
    {"abs", GK_ABS, [](double x) { return std::fabs(x); }, -1e9f, 1e9f, 0, 0},
    {"neg", GK_NEG, [](double x) { return -x; }, -1e9f, 1e9f, 0, 0},
    {"sign", GK_SIGN, [](double x) { return double(x > 0) - double(x < 0); }, -2, 2, 0, 0},
    {"square", GK_SQUARE, [](double x) { return x * x; }, -1e9f, 1e9f, 0.5, 0},
    {"sqrt", GK_SQRT, [](double x) { return std::sqrt(x); }, 0, 1e9f, 0.5, 0},
    {"rsqrt", GK_RSQRT, [](double x) { return 1 / std::sqrt(x); }, 1e-9f, 1e9f, 1.5, 0},
    {"reciprocal", GK_RECIPROCAL, [](double x) { return 1 / x; }, -4, 4, 0.5, 0},
    {"exp", GK_EXP, [](double x) { return std::exp(x); }, -87, 88.7f, 2, 0},
    {"exp near zero", GK_EXP, [](double x) { return std::exp(x); }, -1, 1, 2, 0},
    {"exp of subnormal results", GK_EXP, [](double x) { return std::exp(x); }, -104, -87, 0,
     1.5e-45},
    {"log", GK_LOG, [](double x) { return std::log(x); }, 1e-38f, 3e38f, 2, 0},
    {"log near one", GK_LOG, [](double x) { return std::log(x); }, 0.5f, 2, 2, 0},
    {"log of subnormals", GK_LOG, [](double x) { return std::log(x); }, 1e-44f, 1e-38f, 2, 0},
    {"tanh", GK_TANH, [](double x) { return std::tanh(x); }, -12, 12, 0, 3e-7},
    {"sigmoid", GK_SIGMOID, sigmoid, -80, 80, 4, 0},
    {"softplus", GK_SOFTPLUS, softplus, -80, 80, 5, 0},
    {"relu", GK_RELU, [](double x) { return std::max(x, 0.0); }, -2, 2, 0, 0},
    {"silu", GK_SILU, [](double x) { return x * sigmoid(x); }, -80, 80, 5, 0},
    {"gelu", GK_GELU, [](double x) { return x * phi(x); }, -6, 6, 62, 1e-12},
    {"geluTanh", GK_GELU_TANH, gelu_tanh, -6, 6, 60, 1e-12},
    {"elu", GK_ELU, [](double x) { return x > 0 ? x : std::expm1(x); }, -30, 30, 5, 0},
    {"log1p", GK_LOG1P, [](double x) { return std::log1p(x); }, -0.9f, 3, 3, 0},
    {"log1p of large numbers", GK_LOG1P, [](double x) { return std::log1p(x); }, 0, 3e38f, 3, 0},
    {"log1p of small numbers", GK_LOG1P, [](double x) { return std::log1p(x); }, -1e-5f, 1e-5f, 3,
     0},
    {"sin", GK_SIN, [](double x) { return std::sin(x); }, -30, 30, 1, 0},
    {"cos", GK_COS, [](double x) { return std::cos(x); }, -30, 30, 1, 0},
    {"floor", GK_FLOOR, [](double x) { return std::floor(x); }, -0.99f, 0.99f, 0, 0},
};

float run_one(int64_t op, float x) {
  Floats in(1), out(1);
  in[0] = x;
  launch("unary", {out, in}, {1, 1, 1, 1, op}, {});
  return out[0];
}

void test_unaries() {
  for (const Unary& each : unaries) {
    const int64_t rows = 67, columns = 129, ys = 131, xs = 130;
    Floats x(matrix(rows, columns, xs)), y(matrix(rows, columns, ys));
    std::uniform_real_distribution<float> uniform(each.low, each.high);
    for (int64_t i = 0; i < x.n; i++) x[i] = uniform(generator);
    const Floats before(y);
    launch("unary", {y, x}, {rows, columns, ys, xs, each.op}, {});
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = 0; j < columns; j++) {
        const float got = y[i * ys + j];
        const double want = each.f(double(x[i * xs + j])),
                     last = std::ldexp(1.0, std::ilogb(want == 0 ? 1.0 : want) - 23);
        if (std::fabs(got - want) <= each.ulps * last + each.absolute + 1e-300) continue;
        char text[160];
        std::snprintf(text, sizeof text, "%s of %.9g is %.9g, not %.9g", each.name, x[i * xs + j],
                      got, want);
        return check(false, text);
      }
      for (int64_t j = columns; j < ys && i * ys + j < y.n; j++)
        check(y[i * ys + j] == before[i * ys + j], "nothing is written between rows");
    }
    const Floats in_place(x);
    launch("unary", {in_place, in_place}, {rows, columns, xs, xs, each.op}, {});
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++)
        if (!same_bits(in_place[i * xs + j], y[i * ys + j]))
          wrong(std::string(each.name) + " in place");
    // The slope, compared with difference quotients of the reference.
    const Floats dy(matrix(rows, columns, ys)), dx(matrix(rows, columns, columns));
    launch("unary_backward", {dx, dy, x}, {rows, columns, columns, ys, xs, each.op}, {});
    const bool corners = each.op == GK_ABS || each.op == GK_SIGN || each.op == GK_RELU ||
                         each.op == GK_ELU || each.op == GK_FLOOR;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        const double at = x[i * xs + j], h = 1e-5 * std::max(std::fabs(at), 1e-3),
                     above = dy[i * ys + j];
        if (corners && std::fabs(at) < 2 * h) continue;
        const double slope = (each.f(at + h) - each.f(at - h)) / (2 * h), want = above * slope,
                     got = dx[i * columns + j];
        if (std::fabs(slope) > 1e-30 && std::fabs(slope) < 1e30 &&
            !(std::fabs(got - want) <= 2e-5 * std::max(std::fabs(want), 1e-2)))
          wrong(std::string("the slope of ") + each.name, at, got, want);
      }
    check(std::isnan(run_one(each.op, nan)), std::string(each.name) + " of NaN is NaN");
  }
  // The ends of the ranges.
  const std::vector<std::array<float, 3>> ends = {
      {GK_EXP, -inf, 0},        {GK_EXP, inf, inf},      {GK_EXP, 0, 1},
      {GK_EXP, -1000, 0},       {GK_EXP, 89, inf},       {GK_LOG, 0, -inf},
      {GK_LOG, inf, inf},       {GK_LOG, 1, 0},          {GK_TANH, inf, 1},
      {GK_TANH, -inf, -1},      {GK_SIGMOID, -inf, 0},   {GK_SIGMOID, inf, 1},
      {GK_SOFTPLUS, -inf, 0},   {GK_SOFTPLUS, inf, inf}, {GK_RELU, -inf, 0},
      {GK_SQRT, inf, inf},      {GK_RECIPROCAL, 0, inf}, {GK_ELU, -inf, -1},
      {GK_ELU, inf, inf},       {GK_ABS, -inf, inf},     {GK_SIGN, -inf, -1},
      {GK_ELU, 0, 0},           {GK_GELU, inf, inf},     {GK_SILU, inf, inf},
      {GK_LOG1P, -1, -inf},     {GK_LOG1P, inf, inf},    {GK_SIN, 0, 0},
      {GK_COS, 0, 1},           {GK_FLOOR, -2.5f, -3},   {GK_FLOOR, 2.5f, 2},
      {GK_FLOOR, 1e30f, 1e30f}, {GK_FLOOR, -inf, -inf},
  };
  for (const auto& [op, x, want] : ends) {
    const float got = run_one(int64_t(op), x);
    check(got == want || (op == GK_TANH && std::fabs(got - want) <= 3e-7f),
          "operation " + std::to_string(int(op)) + " of " + std::to_string(x) + " is " +
              std::to_string(got));
  }
  check(std::isnan(run_one(GK_LOG, -1)) && std::isnan(run_one(GK_SQRT, -1)),
        "log and sqrt of a negative number are NaN");
  check(!std::signbit(run_one(GK_ABS, -0.0f)), "abs of -0 is +0");
  check(std::signbit(run_one(GK_FLOOR, -0.0f)) && std::signbit(run_one(GK_SIN, -0.0f)),
        "floor and sin of -0 are -0");
  check(std::isnan(run_one(GK_LOG1P, -1.5f)) && std::isnan(run_one(GK_SIN, inf)) &&
            std::isnan(run_one(GK_COS, -inf)),
        "log1p below -1, and sin and cos of infinity, are NaN");
}

const std::function<float(float, float)> binaries[] = {
    [](float a, float b) { return a + b; },
    [](float a, float b) { return a - b; },
    [](float a, float b) { return a * b; },
    [](float a, float b) { return a / b; },
    [](float a, float b) { return std::isnan(a) || std::isnan(b) ? nan : std::min(a, b); },
    [](float a, float b) { return std::isnan(a) || std::isnan(b) ? nan : std::max(a, b); },
    [](float a, float b) { return float(a == b); },
    [](float a, float b) { return float(a != b); },
    [](float a, float b) { return float(a < b); },
    [](float a, float b) { return float(a <= b); },
    [](float a, float b) { return float(a > b); },
    [](float a, float b) { return float(a >= b); },
    // JavaScript defines fewer powers than C.
    [](float a, float b) {
      const bool none = std::isnan(b) || (std::fabs(a) == 1 && std::isinf(b));
      return none ? nan : float(std::pow(double(a), double(b)));
    },
    [](float a, float b) {
      const float size = std::fabs(a);
      return size <= b ? 0.5f * size * size : b * (size - 0.5f * b);
    },
};

constexpr int64_t pow = 12;

bool same_number(float a, float b) {
  return same_bits(a, b) || (std::isnan(a) && std::isnan(b)) || (a == 0 && b == 0);
}

// Returns a random number that is often equal on both sides, and sometimes infinite or NaN.
float some_number() {
  const uint32_t dice = generator() % 16;
  return dice == 0   ? nan
         : dice == 1 ? inf
         : dice < 4  ? 1.0f
                     : std::uniform_real_distribution<float>(-2, 2)(generator);
}

// How an operand is broadcast: a full matrix, one row, one column, or one number.
struct Said {
  int64_t row, step, bytes;
};
std::vector<Said> ways(int64_t rows, int64_t columns) {
  const int64_t wide = columns + 2;
  return {{wide, 1, matrix(rows, columns, wide)},
          {0, 1, columns},
          {3, 0, matrix(rows, 1, 3)},
          {0, 0, 1}};
}

void test_binaries() {
  for (const auto& s : odd_sizes) {
    const int64_t rows = s[0], columns = s[1], ys = columns + 3;
    for (const Said& u : ways(rows, columns))
      for (const Said& v : ways(rows, columns)) {
        const Floats a(u.bytes), b(v.bytes), y(matrix(rows, columns, ys)), c(v.bytes);
        for (int64_t i = 0; i < a.n; i++) a[i] = some_number();
        for (int64_t i = 0; i < b.n; i++) b[i] = some_number();
        const auto at = [](const Floats& f, const Said& said, int64_t i, int64_t j) {
          return f[i * said.row + j * said.step];
        };
        for (int64_t op = 0; op < int64_t(std::size(binaries)); op++) {
          launch("binary", {y, a, b}, {rows, columns, ys, u.row, u.step, v.row, v.step, op}, {});
          for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
              const float want = binaries[op](at(a, u, i, j), at(b, v, i, j)), got = y[i * ys + j];
              const bool near = op == pow && std::fabs(got / want - 1) < 1e-5f;
              if (!near && !same_number(got, want))
                wrong("binary", op, rows, columns, i, j, y[i * ys + j], want);
            }
        }
        for (int64_t i = 0; i < c.n; i++) c[i] = i % 3 == 0 ? 0.0f : i % 3 == 1 ? -1.0f : nan;
        launch("where", {y, c, a, b},
               {rows, columns, ys, v.row, v.step, u.row, u.step, v.row, v.step}, {});
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++) {
            const float want = at(c, v, i, j) != 0 ? at(a, u, i, j) : at(b, v, i, j);
            if (!same_number(y[i * ys + j], want)) wrong("where", rows, columns, i, j);
          }
      }
    const Floats x(matrix(rows, columns, ys)), y(matrix(rows, columns, ys));
    for (int64_t i = 0; i < x.n; i++) x[i] = some_number();
    launch("clip", {y, x}, {rows, columns, ys, ys}, {-0.5, double(inf)});
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        const float v = x[i * ys + j];
        check(same_number(y[i * ys + j], v < -0.5f ? -0.5f : v), "clip");
      }
  }
}

// A long sum must have the bits of the sums of its pieces, followed by their sum.
void test_long_sums() {
  for (int64_t pieces : {1, 4, 33, 1024})
    for (int64_t piece : {1, 16, 45, 512}) {
      const int64_t rows = 3, n = pieces * piece, xs = n + 5;
      const Floats x(matrix(rows, n, xs)), out(matrix(rows, 1, 2)), parts(pieces), whole(1);
      // Only the first row has NaN and infinite elements, because most of its sums are NaN.
      for (int64_t j = 0; j < n; j++) x[j] = some_number();
      launch("sum_long", {out, x}, {rows, pieces, piece, 2, xs}, {0.3});
      for (int64_t i = 0; i < rows; i++) {
        const Floats row(n);
        for (int64_t j = 0; j < n; j++) row[j] = x[i * xs + j];
        launch("reduce_rows", {parts, row}, {pieces, piece, 1, piece, 0}, {1});
        launch("reduce_rows", {whole, parts}, {1, pieces, 1, pieces, 0}, {0.3});
        check(same_bits(out[2 * i], whole[0]), "sum_long");
      }
    }
}

void test_reductions() {
  test_long_sums();
  for (int64_t rows : {1, 3, 17})
    for (int64_t columns : {1, 2, 31, 32, 33, 64, 101, 513}) {
      const int64_t xs = columns + 1, os = 2;
      const Floats x(matrix(rows, columns, xs)), out(matrix(rows, 1, os));
      for (int64_t i = 0; i < x.n; i++)
        x[i] = std::uniform_real_distribution<float>(-20, 20)(generator);
      const auto reduced = [&](int64_t op, double scale,
                               const std::function<double(const float*)>& f, double tolerance) {
        launch("reduce_rows", {out, x}, {rows, columns, os, xs, op}, {scale});
        for (int64_t i = 0; i < rows; i++) {
          const double want = scale * f(&x[i * xs]);
          if (!(std::fabs(out[i * os] - want) <= tolerance * std::max(1.0, std::fabs(want))))
            wrong("reduce_rows", op, rows, columns, i, out[i * os], want);
        }
      };
      const auto most = [&](const float* r) { return double(*std::max_element(r, r + columns)); };
      const auto exps = [&](const float* r) {
        double sum = 0, off = most(r);
        for (int64_t j = 0; j < columns; j++) sum += std::exp(double(r[j]) - off);
        return sum;
      };
      reduced(
          0, 1.0 / double(columns),
          [&](const float* r) {
            double sum = 0;
            for (int64_t j = 0; j < columns; j++) sum += r[j];
            return sum;
          },
          2e-6);
      reduced(1, 1, most, 0);
      reduced(
          2, 1, [&](const float* r) { return double(*std::min_element(r, r + columns)); }, 0);
      reduced(
          3, 1, [&](const float* r) { return most(r) + std::log(exps(r)); }, 1e-6);
      reduced(
          4, 1, [&](const float* r) { return double(std::max_element(r, r + columns) - r); }, 0);
      reduced(
          5, 1, [&](const float* r) { return double(std::min_element(r, r + columns) - r); }, 0);
      for (int64_t logarithm : {0, 1}) {
        const Floats y(matrix(rows, columns, xs + 1)), same(x);
        launch("softmax_rows", {y, x}, {rows, columns, xs + 1, xs, logarithm}, {});
        launch("softmax_rows", {same, same}, {rows, columns, xs, xs, logarithm}, {});
        for (int64_t i = 0; i < rows; i++) {
          const float* r = &x[i * xs];
          const double off = most(r), sum = exps(r);
          for (int64_t j = 0; j < columns; j++) {
            const double want = logarithm ? r[j] - off - std::log(sum) : std::exp(r[j] - off) / sum;
            const float got = y[i * (xs + 1) + j];
            if (!(std::fabs(got - want) <= 1e-6 * std::max(1.0, std::fabs(want))))
              wrong("softmax", logarithm, i, j, got, want);
            check(same_bits(same[i * xs + j], got), "softmax_rows in place");
          }
        }
      }
      // A row with NaN, and a row whose sum of exponentials is 0.
      x[(rows - 1) * xs + columns / 2] = nan;
      for (int64_t op : {0, 1, 2, 3}) {
        launch("reduce_rows", {out, x}, {rows, columns, os, xs, op}, {1});
        check(std::isnan(out[(rows - 1) * os]), "a row with NaN is NaN");
      }
      const Floats nothing(columns), one(1);
      for (int64_t j = 0; j < columns; j++) nothing[j] = -inf;
      launch("reduce_rows", {one, nothing}, {1, columns, 1, columns, 3}, {1});
      check(one[0] == -inf, "log-sum-exp of a row of -inf is -inf");
      const Floats shares(columns);
      for (int64_t logarithm : {0, 1}) {
        launch("softmax_rows", {shares, nothing}, {1, columns, columns, columns, logarithm}, {});
        for (int64_t j = 0; j < columns; j++)
          check(shares[j] == (logarithm ? -inf : 0), "the softmax of a row of -inf is 0");
      }
    }
}

void test_scatter() {
  const int64_t rows = 33, columns = 5, os = 7, is = 2;
  const Floats out(matrix(rows, columns, os)), x(rows), index(matrix(rows, 1, is));
  for (int64_t i = 0; i < rows; i++) index[i * is] = i % 9 == 8 ? nan : float(i % 9) - 1;
  std::vector<double> want = as_double(out);
  for (int64_t i = 0; i < rows; i++)
    if (const float a = index[i * is]; a >= 0 && a < columns)
      want[size_t(i * os + int64_t(a))] += x[i];
  launch("scatter_columns", {out, x, index}, {rows, columns, os, 1, is}, {});
  close("scatter_columns", out, want, 1e-7);
}

void test_layer_norm() {
  for (int64_t rows : {1, 7})
    for (int64_t n : {1, 2, 31, 64, 101}) {
      const int64_t ys = n + 2, xs = n + 1, ts = n + 3;
      const Floats x(matrix(rows, n, xs)), y(matrix(rows, n, ys)), kept(2 * rows), weight(n),
          bias(n), dy(matrix(rows, n, ys)), dx(matrix(rows, n, xs)), terms(matrix(rows, n, ts));
      launch("layer_norm", {y, kept, x, weight, bias}, {rows, n, ys, xs}, {1e-5});
      launch("layer_norm_backward", {dx, terms, dy, x, kept, weight}, {rows, n, xs, ts, ys, xs},
             {});
      const Floats same(dy);
      launch("layer_norm_backward", {same, terms, same, x, kept, weight}, {rows, n, ys, ts, ys, xs},
             {});
      for (int64_t i = 0; i < rows; i++) {
        double mean = 0, variance = 0, sum = 0, along = 0;
        for (int64_t j = 0; j < n; j++) mean += x[i * xs + j] / double(n);
        for (int64_t j = 0; j < n; j++) variance += std::pow(x[i * xs + j] - mean, 2) / double(n);
        const double rest = 1 / std::sqrt(variance + 1e-5);
        const auto unit = [&](int64_t j) { return (x[i * xs + j] - mean) * rest; };
        for (int64_t j = 0; j < n; j++) {
          sum += double(dy[i * ys + j]) * weight[j] / double(n);
          along += double(dy[i * ys + j]) * weight[j] * unit(j) / double(n);
        }
        for (int64_t j = 0; j < n; j++) {
          const double d = dy[i * ys + j], want = rest * (d * weight[j] - sum - unit(j) * along);
          const double scale = n == 1 ? 1e-2 : 2e-5 * std::max(1.0, rest);
          // The rounding of the mean counts `rest` times.
          const double rounding = 2e-6 * std::max(1.0, 0.1 * rest);
          if (!(std::fabs(y[i * ys + j] - (unit(j) * weight[j] + bias[j])) <= rounding))
            wrong("layer_norm", rows, n, i, j);
          if (!(std::fabs(dx[i * xs + j] - want) <= scale))
            wrong("layer_norm_backward", rows, n, i, j, dx[i * xs + j], want);
          if (!(std::fabs(terms[i * ts + j] - d * unit(j)) <= rounding))
            wrong("terms", rows, n, i, j);
          check(same_bits(same[i * ys + j], dx[i * xs + j]), "layer_norm_backward in place");
        }
      }
    }
}

// One kernel must give the bits of bias, normalization and activation in sequence.
void test_norm_act() {
  for (int64_t op : {-1, 9, 10, 12, 13, 14, 15, 16})
    for (int64_t n : {1, 33, 200}) {
      const int64_t rows = 3, ys = n + 1, xs = n + 2, ts = n + 3;
      const Floats x(matrix(rows, n, xs)), bias(n), weight(n), shift(n), t(matrix(rows, n, xs)),
          z(matrix(rows, n, ys)), kept(rows * 2), y(matrix(rows, n, ys)), also(rows * 2),
          own(matrix(rows, n, ys)), dy(matrix(rows, n, ys)), d(matrix(rows, n, ys)),
          terms(matrix(rows, n, ts)), dx(matrix(rows, n, xs)), same(matrix(rows, n, ts));
      launch("bias_act", {t, x, bias}, {rows, n, xs, xs, 0}, {});
      launch("layer_norm", {z, kept, t, weight, shift}, {rows, n, ys, xs}, {1e-5});
      if (op >= 0) launch("unary", {own, z}, {rows, n, ys, ys, op}, {});
      const Floats& wanted = op < 0 ? z : own;
      launch("norm_act", {y, also, x, bias, weight, shift}, {rows, n, ys, xs, op}, {1e-5});
      std::copy_n(dy.at.get(), dy.n, d.at.get());
      if (op >= 0) launch("unary_backward", {d, d, z}, {rows, n, ys, ys, ys, op}, {});
      const Floats below(matrix(rows, n, xs)), all(matrix(rows, n, ts));
      launch("layer_norm_backward", {below, all, d, t, kept, weight}, {rows, n, xs, ts, ys, xs},
             {});
      // dx may be x itself.
      std::copy_n(x.at.get(), x.n, dx.at.get());
      launch("norm_act_backward", {dx, terms, dy, dx, also, bias, weight, shift},
             {rows, n, xs, ts, ys, xs, op}, {});
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
          check(same_bits(y[i * ys + j], wanted[i * ys + j]), "norm_act " + std::to_string(op));
          check(same_bits(dy[i * ys + j], d[i * ys + j]),
                "norm_act_backward's dy " + std::to_string(op));
          check(same_bits(terms[i * ts + j], all[i * ts + j]),
                "norm_act_backward's terms " + std::to_string(op));
          check(same_bits(dx[i * xs + j], below[i * xs + j]),
                "norm_act_backward's dx " + std::to_string(op));
        }
      for (int64_t i = 0; i < 2 * rows; i++)
        check(same_bits(kept[i], also[i]), "norm_act keeps the statistics that layer_norm keeps");
    }
}

void test_patches() {
  const int64_t forms[][7] = {
      {3, 2, 7, 6, 3, 2, 2}, {1, 1, 1, 1, 1, 1, 1}, {4, 3, 5, 9, 1, 4, 1}, {2, 1, 9, 8, 4, 4, 3}};
  for (const auto& [rows, channels, height, width, kh, kw, stride] : forms)
    for (int64_t padding = 0; padding < std::min(kh, kw); padding++) {
      const int64_t high = (height + 2 * padding - kh) / stride + 1,
                    wide = (width + 2 * padding - kw) / stride + 1;
      const int64_t k = channels * kh * kw, places = rows * high * wide,
                    xs = channels * height * width + 2;
      const Floats out(k * places), x(matrix(rows, xs - 2, xs)), d(k * places),
          dx(matrix(rows, xs - 2, xs));
      const std::vector<int64_t> wholes = {rows, channels, height,  width, kh,
                                           kw,   stride,   padding, xs};
      launch("patches", {out, x}, wholes, {});
      launch("patches_backward", {dx, d}, wholes, {});
      double above = 0, below = 0;
      for (int64_t i = 0; i < k * places; i++) {
        const int64_t of = i / places, place = i % places, row = place / (high * wide),
                      kx = of % kw, ky = of / kw % kh;
        const int64_t y = place / wide % high * stride + ky - padding,
                      at = place % wide * stride + kx - padding;
        const bool inside = y >= 0 && y < height && at >= 0 && at < width;
        const float want = inside ? x[row * xs + (of / (kh * kw) * height + y) * width + at] : 0;
        if (out[i] != want) wrong("patches", rows, stride, padding, i);
        above += double(want) * d[i];
      }
      // The backward kernel is the transposed map, so both inner products must be equal.
      for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < xs - 2; i++) below += double(x[row * xs + i]) * dx[row * xs + i];
      if (!(std::fabs(above - below) <= 1e-5 * double(k * places)))
        wrong("patches_backward", above, below);
    }
}

void test_planes() {
  const int64_t rows = 3, channels = 4, places = 7, all = channels * places;
  for (int64_t act = 0; act < 3; act++) {
    const Floats y(matrix(rows, all, all + 3)), z(rows * all), bias(channels), dz(rows * all),
        dy(matrix(rows, all, all + 1));
    launch("planes", {y, z, bias}, {rows, channels, places, all + 3, act}, {});
    launch("planes_backward", {dz, dy, y}, {rows, channels, places, all + 1, all + 3, act}, {});
    for (int64_t row = 0; row < rows; row++)
      for (int64_t c = 0; c < channels; c++)
        for (int64_t p = 0; p < places; p++) {
          const int64_t from = (c * rows + row) * places + p;
          const double sum = double(z[from]) + bias[c], got = y[row * (all + 3) + c * places + p];
          const double want = act == 1 ? std::max(sum, 0.0) : act == 2 ? std::tanh(sum) : sum;
          if (!(std::fabs(got - want) <= 1e-6)) wrong("planes", act, row, c, p);
          const double slope = act == 1 ? double(got > 0) : act == 2 ? 1 - got * got : 1;
          if (!(std::fabs(dz[from] - slope * dy[row * (all + 1) + c * places + p]) <= 1e-6))
            wrong("planes_backward", act, row, c, p);
        }
  }
}

}  // namespace

void test_ops() {
  test_unaries(), test_binaries(), test_reductions(), test_scatter(), test_layer_norm(),
      test_norm_act(), test_patches(), test_planes();
}
