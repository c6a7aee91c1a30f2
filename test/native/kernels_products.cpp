// Tests products and the kernels of a linear layer. The device forms, compiled for the host, must
// have the bits of plain sums in the order that product.gk describes. The host forms must have the
// bits of `gemm`, `bias_act`, `unary`, `act_backward`, `unary_backward` and `column_sums`, one
// after the other.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gk.hpp"
#include "kernels_rig.hpp"

// The form that devices compile, compiled for the host.
namespace device_form {
#include "kernels/functions.gk"
#include "kernels/unary.gk"

#include "kernels/product.gk"
}  // namespace device_form

namespace {

using Term = std::function<float(int64_t)>;

// Returns the sum of a(k) · b(k) for k < n: pieces of 64 fused multiply-adds, added in order.
float sum_of(int64_t n, const Term& a, const Term& b) {
  float sum = 0;
  for (int64_t first = 0; first < n; first += 64) {
    float piece = 0;
    for (int64_t k = first; k < std::min(n, first + 64); k++) piece = std::fma(a(k), b(k), piece);
    sum = sum + piece;
  }
  return sum;
}

void same(const std::string& what, const Floats& got, const Floats& want) {
  for (int64_t i = 0; i < want.n; i++)
    if (!same_bits(got[i], want[i]) && !(std::isnan(got[i]) && std::isnan(want[i]))) {
      char text[200];
      std::snprintf(text, sizeof text, "%s [%lld]: got %.9g, want %.9g", what.c_str(), (long long)i,
                    got[i], want[i]);
      return check(false, text);
    }
}

// Returns buffers of exactly the size that the kernel needs.
std::vector<Floats> buffers_of(const char* name, const std::vector<int64_t>& wholes) {
  const Kernel* kernel = find_kernel(name);
  Reach reach[max_pointers];
  const char* wrong = kernel->need(arguments({}, wholes, {}), reach);
  check(!wrong, std::string(name) + ": " + (wrong ? wrong : ""));
  std::vector<Floats> all;
  for (int i = 0; i < kernel->pointers; i++) all.emplace_back(int64_t(reach[i].bytes / 4));
  return all;
}

// Runs a kernel on parts of buffers.
void run(const char* name, std::vector<const float*> pointers, std::vector<int64_t> wholes,
         std::vector<double> reals = {}) {
  std::vector<void*> at;
  for (const float* pointer : pointers) at.push_back(const_cast<float*>(pointer));
  const KernelArgs args = arguments(at, wholes, reals);
  check(!find_kernel(name)->run(&args), std::string(name) + " runs");
}

constexpr int64_t tanh_op = 9, relu_op = 12;

struct Layer {
  int64_t batch, rows, outputs, inputs, split, gap;
  // All members read the same x, and the gradients at x are added.
  bool one;
  int64_t op;

  int64_t x_rows() const { return split < 0 ? -split : rows; }
  int64_t x2_rows() const { return split < 0 ? rows + split : rows; }
  int64_t x_columns() const { return split < 0 ? inputs : split; }
  int64_t x2_columns() const { return split < 0 ? inputs : inputs - split; }
  int64_t x_stride() const { return x_columns() + gap; }
  int64_t x2_stride() const { return x2_columns() + 2 * gap; }
  int64_t x_batch() const {
    return one ? 0 : std::max(x_rows() * x_stride(), x2_rows() * x2_stride()) + gap;
  }
  int64_t y_stride() const { return outputs + gap; }
  int64_t y_batch() const { return rows * y_stride() + gap; }
  int64_t p_batch() const { return outputs * inputs + outputs + gap; }
  std::string name() const {
    std::string text;
    for (const int64_t each : {batch, rows, outputs, inputs, split, gap, int64_t(one), op})
      text += " " + std::to_string(each);
    return text;
  }
  float at(const Floats& x, const Floats& x2, int64_t p, int64_t i, int64_t k) const {
    if (split < 0 ? i >= -split : k >= split)
      return x2[p * x_batch() + (split < 0 ? i + split : i) * x2_stride() +
                (split < 0 ? k : k - split)];
    return x[p * x_batch() + i * x_stride() + k];
  }
};

void forward_case(const Layer& l) {
  const std::vector<int64_t> wholes = {l.batch,     l.rows,       l.outputs,    l.inputs,
                                       l.split,     l.y_stride(), l.x_stride(), l.x2_stride(),
                                       l.y_batch(), l.x_batch(),  l.p_batch(),  l.op};
  const auto b = buffers_of("linear_act", wholes);
  const Floats &x = b[2], &x2 = b[3], &weight = b[4], &bias = b[5];
  const std::string name = "linear_act" + l.name();
  const int64_t ys = l.y_stride();
  const auto device = [&](const Floats& y, const Floats& z) {
    device_form::linear_act(y.at.get(), z.at.get(), x.at.get(), x2.at.get(), weight.at.get(),
                            bias.at.get(), l.batch, l.rows, l.outputs, l.inputs, l.split, ys,
                            l.x_stride(), l.x2_stride(), l.y_batch(), l.x_batch(), l.p_batch(),
                            l.op);
  };
  const auto host = [&](const Floats& y, const Floats& z) {
    launch("linear_act", {y, z, x, x2, weight, bias}, wholes, {});
  };
  // Members are written with what follows from their z.
  const auto activated = [&](const Floats& y, const Floats& z) {
    for (int64_t p = 0; p < l.batch; p++) {
      const float* const from = &z.at[p * l.y_batch()];
      const char* const kernel = l.op < 0 ? "copy2d" : "unary";
      std::vector<int64_t> sizes = {l.rows, l.outputs, ys, ys};
      if (l.op >= 0) sizes.push_back(l.op);
      run(kernel, {&y.at[p * l.y_batch()], from}, sizes);
    }
  };
  for (const bool on_host : {false, true}) {
    const Floats want_z(b[1]), want_y(b[0]), y(b[0]), z(b[1]), both(b[0]), want(b[0]);
    for (int64_t p = 0; p < l.batch; p++) {
      const float *const w = &weight.at[p * l.p_batch()], *const c = &bias.at[p * l.p_batch()];
      float* const to = &want_z.at[p * l.y_batch()];
      if (!on_host) {
        for (int64_t i = 0; i < l.rows; i++)
          for (int64_t j = 0; j < l.outputs; j++)
            to[i * ys + j] = sum_of(
                                 l.inputs, [&](int64_t k) { return l.at(x, x2, p, i, k); },
                                 [&](int64_t k) { return w[j * l.inputs + k]; }) +
                             c[j];
        continue;
      }
      const float *const first = x.at.get() + p * l.x_batch(), *const second =
                                                                   x2.at.get() + p * l.x_batch();
      run("gemm", {to, first, w},
          {0, 1, l.x_rows(), l.outputs, l.x_columns(), l.x_stride(), l.inputs, ys}, {1, 0});
      if (l.split != l.inputs)
        run("gemm",
            {to + (l.split < 0 ? -l.split * ys : 0), second, w + (l.split < 0 ? 0 : l.split)},
            {0, 1, l.x2_rows(), l.outputs, l.x2_columns(), l.x2_stride(), l.inputs, ys},
            {1, l.split < 0 ? 0.0 : 1.0});
      run("bias_act", {to, to, c}, {l.rows, l.outputs, ys, ys, 0});
    }
    activated(want_y, want_z);
    const std::string form = (on_host ? "host " : "device ") + name;
    on_host ? host(y, z) : device(y, z);
    same(form + ": z", z, want_z), same(form + ": y", y, want_y);
    // With y for z, only y is stored. Elements between rows keep their values.
    on_host ? host(both, both) : device(both, both);
    for (int64_t i = 0; i < want.n; i++) want[i] = want_y[i];
    same(form + " with y for z", both, want);
  }
}

void gradients_case(const Layer& l) {
  const std::vector<int64_t> wholes = {l.batch,     l.outputs,    l.inputs,     l.rows,
                                       l.split,     l.y_stride(), l.x_stride(), l.x2_stride(),
                                       l.y_batch(), l.x_batch(),  l.p_batch()};
  const auto b = buffers_of("linear_gradients", wholes);
  const Floats &dy = b[2], &x = b[3], &x2 = b[4];
  const std::string name = "linear_gradients" + l.name();
  const int64_t ys = l.y_stride();
  for (const bool on_host : {false, true}) {
    const Floats dw(b[0]), db(b[1]), want_dw(b[0]), want_db(b[1]);
    for (int64_t p = 0; p < l.batch; p++) {
      float *const w = &want_dw.at[p * l.p_batch()], *const c = &want_db.at[p * l.p_batch()];
      const float* const d = &dy.at[p * l.y_batch()];
      if (!on_host) {
        for (int64_t j = 0; j < l.outputs; j++) {
          const Term of_dy = [&](int64_t i) { return d[i * ys + j]; };
          c[j] = sum_of(l.rows, of_dy, [](int64_t) { return 1.0f; });
          for (int64_t k = 0; k < l.inputs; k++)
            w[j * l.inputs + k] =
                sum_of(l.rows, of_dy, [&](int64_t i) { return l.at(x, x2, p, i, k); });
        }
        continue;
      }
      run("gemm", {w, d, x.at.get() + p * l.x_batch()},
          {1, 0, l.outputs, l.x_columns(), l.x_rows(), ys, l.x_stride(), l.inputs}, {1, 0});
      if (l.split != l.inputs)
        run("gemm",
            {w + (l.split < 0 ? 0 : l.split), d + (l.split < 0 ? -l.split * ys : 0),
             x2.at.get() + p * l.x_batch()},
            {1, 0, l.outputs, l.x2_columns(), l.x2_rows(), ys, l.x2_stride(), l.inputs},
            {1, l.split < 0 ? 1.0 : 0.0});
      run("column_sums", {c, d}, {l.rows, l.outputs, ys}, {1, 0});
    }
    if (on_host)
      launch("linear_gradients", {dw, db, dy, x, x2}, wholes, {});
    else
      device_form::linear_gradients(dw.at.get(), db.at.get(), dy.at.get(), x.at.get(), x2.at.get(),
                                    l.batch, l.outputs, l.inputs, l.rows, l.split, ys, l.x_stride(),
                                    l.x2_stride(), l.y_batch(), l.x_batch(), l.p_batch());
    const std::string form = (on_host ? "host " : "device ") + name;
    same(form + ": dw", dw, want_dw), same(form + ": db", db, want_db);
  }
}

void backward_case(const Layer& l) {
  const bool added = l.one && l.batch > 1;
  const int64_t op = added ? -1 : l.op, w_stride = l.inputs + l.gap, stride = l.inputs + 2 * l.gap;
  const int64_t dx_batch = added ? 0 : l.rows * l.inputs + l.gap,
                w_batch = l.outputs * w_stride + l.gap, y_batch = l.rows * stride;
  const int64_t ys = l.y_stride();
  const std::vector<int64_t> wholes = {l.batch, l.rows,   l.inputs,    l.outputs, w_stride, ys,
                                       stride,  dx_batch, l.y_batch(), w_batch,   y_batch,  op};
  const auto b = buffers_of("linear_backward", wholes);
  const Floats &dy = b[1], &weight = b[2], &y = b[3];
  const std::string name = "linear_backward" + l.name();
  for (const bool on_host : {false, true}) {
    const Floats dx(b[0]), want(b[0]);
    for (int64_t p = 0; p < l.batch; p++) {
      float* const to = &want.at[p * dx_batch];
      const float *const w = &weight.at[p * w_batch], *const d = &dy.at[p * l.y_batch()];
      const bool more = added && p > 0;
      if (on_host)
        run("gemm", {to, d, w}, {0, 0, l.rows, l.inputs, l.outputs, ys, w_stride, l.inputs},
            {1, more ? 1.0 : 0.0});
      for (int64_t i = 0; !on_host && i < l.rows; i++)
        for (int64_t j = 0; j < l.inputs; j++) {
          const float sum = sum_of(
              l.outputs, [&](int64_t k) { return d[i * ys + k]; },
              [&](int64_t k) { return w[k * w_stride + j]; });
          to[i * l.inputs + j] = more ? to[i * l.inputs + j] + sum : sum;
        }
      const float* const from = y.at.get() + p * y_batch;
      const bool of_output = op == relu_op || op == tanh_op;
      if (op >= 0)
        run(of_output ? "act_backward" : "unary_backward", {to, to, from},
            {l.rows, l.inputs, l.inputs, l.inputs, stride,
             !of_output      ? op
             : op == relu_op ? GK_ACT_RELU
                             : GK_ACT_TANH});
    }
    if (on_host)
      launch("linear_backward", {dx, dy, weight, y}, wholes, {});
    else
      device_form::linear_backward(dx.at.get(), dy.at.get(), weight.at.get(), y.at.get(), l.batch,
                                   l.rows, l.inputs, l.outputs, w_stride, ys, stride, dx_batch,
                                   l.y_batch(), w_batch, y_batch, op);
    same((on_host ? "host " : "device ") + name, dx, want);
  }
}

void layer_case(const Layer& l) { forward_case(l), gradients_case(l), backward_case(l); }

// The device forms of `gemm` and `gemm_batched`.
void product_case(bool ta, bool tb, int64_t batch, int64_t m, int64_t n, int64_t k, double beta) {
  const int64_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 2, ldc = n + 1;
  const int64_t c_batch = m * ldc + 2, a_batch = beta == 0 ? 0 : (ta ? k : m) * lda,
                b_batch = (tb ? n : k) * ldb + 1;
  const float alpha = -0.75f, rest = float(beta);
  const Floats a((batch - 1) * a_batch + (ta ? matrix(k, m, lda) : matrix(m, k, lda))),
      b((batch - 1) * b_batch + (tb ? matrix(n, k, ldb) : matrix(k, n, ldb))),
      c((batch - 1) * c_batch + matrix(m, n, ldc)), want(c);
  for (int64_t p = 0; p < batch; p++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        const float sum = sum_of(
            k, [&](int64_t q) { return a[p * a_batch + (ta ? q * lda + i : i * lda + q)]; },
            [&](int64_t q) { return b[p * b_batch + (tb ? j * ldb + q : q * ldb + j)]; });
        float& to = want[p * c_batch + i * ldc + j];
        const float left = rest * to, right = alpha * sum;
        to = beta == 0 ? right : left + right;
      }
  if (batch == 1)
    device_form::gemm(c.at.get(), a.at.get(), b.at.get(), ta, tb, m, n, k, lda, ldb, ldc, alpha,
                      rest);
  else
    device_form::gemm_batched(c.at.get(), a.at.get(), b.at.get(), ta, tb, batch, m, n, k, lda, ldb,
                              ldc, a_batch, b_batch, c_batch, alpha, rest);
  same("device gemm " + std::to_string(m) + "×" + std::to_string(n) + "×" + std::to_string(k), c,
       want);
}

int64_t drawn(int64_t low, int64_t high) {
  return low + int64_t(generator() % uint64_t(high - low + 1));
}

void test_layers() {
  for (int64_t op = -1; op <= 20; op++) layer_case({2, 3, 5, 7, 7, op % 3 + 1, false, op});
  constexpr int64_t sides[] = {1, 15, 16, 17, 31, 33}, depths[] = {1, 63, 64, 65, 128};
  constexpr int64_t ops[] = {-1, tanh_op, relu_op, 13};
  for (int64_t n = 0; n < 30; n++) {
    const int64_t a = sides[n % 6], b = sides[n / 6], k = depths[(n + n / 6) % 5];
    // The sum of one of the three kernels is over k.
    const int64_t sizes[][3] = {{a, b, k}, {k, a, b}, {a, k, b}};
    for (const auto& s : sizes)
      for (const int64_t split : {s[2], int64_t(1), s[2] - 1, int64_t(-1), 1 - s[0]})
        if (split != 0 && split > -s[0] && (n + split) % 2 == 0)
          layer_case({1 + n % 5 * (n % 2), s[0], s[1], s[2], split, n % 4, n % 3 == 1, ops[n % 4]});
  }
  for (int n = 0; n < 40; n++) {
    const int64_t rows = drawn(1, 40), outputs = drawn(1, 40), inputs = drawn(1, 140);
    int64_t split = drawn(1 - rows, inputs);
    if (split == 0) split = inputs;
    layer_case(
        {drawn(1, 10), rows, outputs, inputs, split, drawn(0, 3), n % 2 == 0, drawn(-1, 20)});
  }
  layer_case({1, 2, 3, 10000, 9999, 0, false, -1});
  layer_case({1, 10000, 2, 3, -1, 1, false, relu_op});
  layer_case({1, 2, 10000, 1, 1, 0, false, -1});
}

// A sum that began with +0 is never −0. An infinite last term is a term once, and not another one
// times zero.
void test_ends() {
  const Floats x(1), weight(1), bias(1), y(1);
  x[0] = 1e-30f, weight[0] = -1e-30f, bias[0] = -0.0f;
  device_form::linear_act(y.at.get(), y.at.get(), x.at.get(), x.at.get(), weight.at.get(),
                          bias.at.get(), 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, -1);
  check(same_bits(y[0], 0.0f), "a sum that began with +0 is +0");
  for (const int64_t k : {3, 64, 65}) {
    const Floats left(k), right(k), one(1);
    for (int64_t i = 0; i < k; i++) left[i] = i == k - 1 ? INFINITY : 1, right[i] = 1;
    device_form::gemm(one.at.get(), left.at.get(), right.at.get(), 0, 0, 1, 1, k, k, 1, 1, 1, 0);
    check(one[0] == INFINITY, "an infinite term gives an infinite sum");
  }
}

void test_products() {
  for (int t = 0; t < 4; t++)
    for (const auto& s : std::vector<std::array<int64_t, 4>>{{1, 1, 1, 1},
                                                             {1, 16, 16, 64},
                                                             {1, 17, 33, 65},
                                                             {1, 31, 15, 130},
                                                             {1, 1, 40, 63},
                                                             {1, 2, 1, 10000},
                                                             {3, 5, 7, 6},
                                                             {10, 17, 3, 70},
                                                             {2, 16, 32, 128}})
      for (const double beta : {0.0, 0.5}) product_case(t & 1, t & 2, s[0], s[1], s[2], s[3], beta);
}

void refused(const char* name, std::vector<int64_t> wholes, const char* part) {
  Reach reach[max_pointers];
  const char* text = find_kernel(name)->need(arguments({}, wholes, {}), reach);
  check(text && std::strstr(text, part), std::string(name) + " is refused with '" + part +
                                             "', said '" + (text ? text : "nothing") + "'");
}

void test_refusals() {
  // Each case changes one argument of a good launch.
  const auto each = [](const char* name, const std::vector<int64_t>& good,
                       const std::vector<std::tuple<int, int64_t, const char*>>& cases) {
    Reach reach[max_pointers];
    const char* const wrong = find_kernel(name)->need(arguments({}, good, {}), reach);
    check(!wrong, std::string(name) + " takes the good arguments: " + (wrong ? wrong : ""));
    for (const auto& [at, value, part] : cases) {
      std::vector<int64_t> wholes(good);
      wholes[size_t(at)] = value;
      refused(name, wholes, part);
    }
  };
  constexpr int64_t large = int64_t(INT32_MAX) + 1;
  each("linear_act", {2, 5, 3, 7, 4, 3, 4, 3, 15, 20, 24, 12},
       {{0, 0, "batch must be at least 1, got 0"},
        {0, large, "batch must be at most 2147483647, got 2147483648"},
        {1, 0, "rows must be at least 1, got 0"},
        {1, large, "rows must be at most 2147483647"},
        {2, large, "outputs must be at most 2147483647"},
        {3, large, "inputs must be at most 2147483647"},
        {3, INT64_MAX, "inputs must be at most 2147483647"},
        {4, 0, "split must be 1 to the 7 inputs, or -1 to -(rows - 1) = -4, got 0"},
        {4, 8, "split must be 1 to the 7 inputs"},
        {4, -5, "split must be 1 to the 7 inputs, or -1 to -(rows - 1) = -4, got -5"},
        {4, INT64_MIN, "split must be 1 to the 7 inputs"},
        {5, 2, "y_stride must be at least the row's 3 elements, got 2"},
        {5, large, "y_stride must be at most 2147483647"},
        {6, 3, "x_stride must be at least the row's 4 elements, got 3"},
        {7, 2, "x2_stride must be at least the row's 3 elements, got 2"},
        {8, 14, "y_batch must be at least the 15 elements of a member, got 14"},
        {9, -1, "x_batch must be at least 0, got -1"},
        {10, -1, "p_batch must be at least 0, got -1"},
        {11, -2, "op must be at least -1, got -2"},
        {11, 21, "op must be at most 20, got 21"}});
  each("linear_backward", {2, 5, 7, 3, 8, 3, 7, 35, 15, 24, 35, 12},
       {{0, 0, "batch must be at least 1"},
        {1, large, "rows must be at most 2147483647"},
        {2, 0, "inputs must be at least 1"},
        {3, large, "outputs must be at most 2147483647"},
        {4, 6, "w_stride must be at least the row's 7 elements, got 6"},
        {5, 2, "dy_stride must be at least the row's 3 elements, got 2"},
        {6, 6, "y_stride must be at least the row's 7 elements, got 6"},
        {7, 34, "dx_batch must be at least the 35 elements of a member, got 34"},
        {7, 0, "op must be -1 if dx_batch is 0, got 12"},
        {7, -1, "dx_batch must be at least"},
        {8, -1, "dy_batch must be at least 0, got -1"},
        {9, -1, "p_batch must be at least 0, got -1"},
        {10, -1, "y_batch must be at least 0, got -1"},
        {11, 21, "op must be at most 20, got 21"}});
  each("linear_gradients", {2, 3, 7, 5, -2, 3, 7, 7, 15, 35, 24},
       {{0, large, "batch must be at most 2147483647"},
        {1, 0, "outputs must be at least 1"},
        {2, large, "inputs must be at most 2147483647"},
        {3, 0, "rows must be at least 1"},
        {4, -5, "split must be 1 to the 7 inputs, or -1 to -(rows - 1) = -4, got -5"},
        {5, 2, "dy_stride must be at least the row's 3 elements, got 2"},
        {6, 6, "x_stride must be at least the row's 7 elements, got 6"},
        {7, 6, "x2_stride must be at least the row's 7 elements, got 6"},
        {8, -1, "dy_batch must be at least 0, got -1"},
        {9, -1, "x_batch must be at least 0, got -1"},
        {10, 20, "p_batch must be at least the 21 elements of a member, got 20"}});
}

// Reaches of one member do not depend on the distances of members, and large ones do not overflow.
void test_reaches() {
  const auto of = [](const char* name, const std::vector<int64_t>& wholes) {
    std::array<Reach, max_pointers> reach;
    const char* const wrong = find_kernel(name)->need(arguments({}, wholes, {}), reach.data());
    check(!wrong, std::string(name) + ": " + (wrong ? wrong : ""));
    return reach;
  };
  const auto one = of("linear_act", {1, 5, 3, 7, 4, 4, 6, 5, 0, 0, 0, 12});
  const auto far = of("linear_act", {1, 5, 3, 7, 4, 4, 6, 5, 99, 99, 99, 12});
  const uint64_t want[] = {19, 19, 28, 23, 21, 3};
  for (size_t i = 0; i < 6; i++)
    check(one[i].bytes == 4 * want[i] && far[i].bytes == one[i].bytes && one[i].step == far[i].step,
          "linear_act reaches one member, pointer " + std::to_string(i));
  check(one[0].step == 16 && one[2].step == 24 && one[3].step == 20,
        "the rows of one member have their strides");
  const auto unread = of("linear_act", {2, 5, 3, 7, 7, 3, 7, 0, 15, 35, 24, 12});
  check(unread[3].bytes == 0 && unread[2].step == 28 && unread[0].step == 12,
        "an x2 that is not read needs no bytes, and members without a gap are rows of one matrix");
  check(unread[4].bytes == 4 * 45 && unread[4].step == 96, "the parameters of members have a gap");
  constexpr int64_t most = INT32_MAX;
  const auto large = of("linear_act", {most, most, most, most, most, most, most, 0,
                                       int64_t(1) << 62, int64_t(1) << 62, int64_t(1) << 62, -1});
  for (const size_t i : {0, 1, 2, 4, 5})
    check(large[i].bytes == UINT64_MAX, "a reach that overflows is UINT64_MAX");
  check(of("linear_backward", {3, 5, 7, 3, 7, 3, 0, 0, 15, 24, 0, -1})[0].bytes == 4 * 35,
        "added gradients need the memory of one member");
  check(of("linear_backward", {3, 5, 7, 3, 7, 3, 0, 0, 15, 24, 0, -1})[3].bytes == 0,
        "without a function, y is not read");
}

void test_tiles() {
  const auto blocks = [](const char* name, const std::vector<int64_t>& wholes) {
    return find_kernel(name)->blocks(Reach{4}, wholes.data(), 256, 1000);
  };
  check(blocks("gemm", {0, 0, 17, 16, 5, 5, 16, 16}) == 2 &&
            blocks("gemm_batched", {0, 0, 3, 1, 33, 5, 5, 33, 33, 0, 0, 33}) == 9 &&
            blocks("gemm", {0, 0, 4096, 4096, 1, 1, 1, 1}) == 1000,
        "a block for each tile of a product");
  check(blocks("linear_act", {3, 17, 1, 8}) == 6 &&
            blocks("linear_gradients", {2, 16, 15, 8}) == 2 &&
            blocks("linear_gradients", {2, 16, 16, 8}) == 4 &&
            blocks("linear_backward", {5, 16, 17, 8, 17, 8, 17, 0}) == 2 &&
            blocks("linear_backward", {5, 16, 17, 8, 17, 8, 17, 272}) == 10,
        "a block for each tile of a layer");
}

}  // namespace

void test_products_and_layers() {
  test_products(), test_layers(), test_ends(), test_refusals(), test_reaches(), test_tiles();
}
