// Compares each batched kernel with its unbatched kernel, launched for one member after the other,
// over drawn shapes. All bits must be equal, also those between rows and between members.
#include "kernels/gk.hpp"
#include "kernels_rig.hpp"

namespace batched_numbers {
#include "kernels/functions.gk"
#include "kernels/unary.gk"
}  // namespace batched_numbers

namespace {

int64_t below(int64_t n) { return int64_t(generator() % uint64_t(n)); }

// The strides of a batch of matrices. Half of the batches have gaps between their rows, and half
// have gaps between their members.
struct Batch {
  Batch(int64_t batch, int64_t rows, int64_t columns)
      : stride(columns + below(2) * below(6)),
        each(matrix(rows, columns, stride)),
        apart(below(2) ? rows * stride : each + below(6)),
        total((batch - 1) * apart + each) {}
  int64_t stride, each, apart, total;
};

Floats part(const Floats& all, int64_t from, int64_t n) {
  Floats own(n);
  std::copy_n(&all[from], n, &own[0]);
  return own;
}
void put(const Floats& all, int64_t from, const Floats& own) {
  std::copy_n(&own[0], own.n, &all[from]);
}

void equal(const std::string& name, const Floats& got, const Floats& want) {
  for (int64_t i = 0; i < got.n; i++) {
    if (same_bits(got[i], want[i]) || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    char text[160];
    std::snprintf(text, sizeof text, "%s [%lld]: got %.9g, want %.9g", name.c_str(), (long long)i,
                  got[i], want[i]);
    return check(false, text);
  }
}

void awkward(const Floats& x) {
  for (int64_t i = 0; i < x.n; i++) {
    const uint32_t dice = generator() % 64;
    x[i] = dice == 0   ? NAN
           : dice == 1 ? INFINITY
           : dice == 2 ? -INFINITY
           : dice < 6  ? -0.0f
                       : x[i] * 3;
  }
}

// Draws a batch, rows and columns. The first shapes are the smallest ones.
std::array<int64_t, 3> drawn(int round, int64_t most_rows, int64_t most_columns) {
  if (round < 8)
    return {round & 1 ? 10 : 1, round & 2 ? most_rows : 1, round & 4 ? most_columns : 1};
  return {1 + below(10), 1 + below(most_rows), 1 + below(most_columns)};
}

void test_sums() {
  for (int round = 0; round < 60; round++) {
    const auto [batch, rows, columns] = drawn(round, 600, 300);
    const Batch of(batch, rows, columns);
    const bool shared = round % 5 == 4;
    const int64_t x_batch = shared ? 0 : of.apart, out_batch = columns + below(3);
    const Floats x(shared ? of.each : of.total), out((batch - 1) * out_batch + columns), want(out);
    if (round % 2) awkward(x);
    for (double beta : {0.0, 0.5}) {
      for (int64_t p = 0; p < batch; p++) {
        const Floats own = part(x, p * x_batch, of.each), sums = part(want, p * out_batch, columns);
        launch("column_sums", {sums, own}, {rows, columns, of.stride}, {0.25, beta});
        put(want, p * out_batch, sums);
      }
      launch("column_sums_batched", {out, x}, {batch, rows, columns, of.stride, x_batch, out_batch},
             {0.25, beta});
      equal("column_sums_batched", out, want);
    }
  }
}

// Every member of the batch must have the bits of bias_act, or of bias_act and then unary.
void test_bias() {
  for (int round = 0; round < 100; round++) {
    const auto [batch, rows, columns] = drawn(round, 30, 70);
    const int64_t op = round < 22 ? round - 1 : below(GK_UNARY_LAST + 2) - 1;
    const Batch from(batch, rows, columns), to(batch, rows, columns);
    const bool shared = round % 5 == 4;
    const int64_t x_batch = shared ? 0 : from.apart, b_batch = round % 7 ? columns + below(3) : 0;
    const Floats x(shared ? from.each : from.total), bias((batch - 1) * b_batch + columns),
        y(to.total), z(to.total), want(y), sums(z), only(y);
    if (round % 2) awkward(x);
    // Computes member p of `want` and of `sums` from a matrix with this stride.
    const auto member = [&, batch = batch, rows = rows, columns = columns](
                            int64_t p, const Floats& own, int64_t stride) {
      const Floats b = part(bias, p * b_batch, columns), t = part(sums, p * to.apart, to.each),
                   f = part(want, p * to.apart, to.each);
      launch("bias_act", {t, own, b}, {rows, columns, to.stride, stride, GK_ACT_NONE}, {});
      if (op == GK_NO_UNARY)
        launch("copy2d", {f, t}, {rows, columns, to.stride, to.stride}, {});
      else
        launch("unary", {f, t}, {rows, columns, to.stride, to.stride, op}, {});
      if (op == GK_RELU || op == GK_TANH) {
        const Floats same(f);
        const int64_t act = op == GK_RELU ? GK_ACT_RELU : GK_ACT_TANH;
        launch("bias_act", {same, own, b}, {rows, columns, to.stride, stride, act}, {});
        equal("unary after bias_act", f, same);
      }
      put(sums, p * to.apart, t), put(want, p * to.apart, f);
    };
    const std::vector<int64_t> wholes = {batch,    rows,    columns, to.stride, from.stride,
                                         to.apart, x_batch, b_batch, op};
    const std::string name = "bias_act_batched of op " + std::to_string(op);
    for (int64_t p = 0; p < batch; p++) member(p, part(x, p * x_batch, from.each), from.stride);
    launch("bias_act_batched", {y, z, x, bias}, wholes, {});
    equal(name, y, want), equal(name + ", z", z, sums);
    launch("bias_act_batched", {only, only, x, bias}, wholes, {});
    equal(name + " without z", only, want);
    // x may be y, z, or both.
    std::vector<int64_t> alike = wholes;
    alike[4] = to.stride, alike[6] = to.apart;
    const Floats start(to.total), both(start), in_y(start), in_z(start), other_z(start),
        other_y(start);
    put(want, 0, start), put(sums, 0, start);
    for (int64_t p = 0; p < batch; p++) member(p, part(start, p * to.apart, to.each), to.stride);
    launch("bias_act_batched", {both, both, both, bias}, alike, {});
    launch("bias_act_batched", {in_y, other_z, in_y, bias}, alike, {});
    launch("bias_act_batched", {other_y, in_z, in_z, bias}, alike, {});
    equal(name + " in place", both, want), equal(name + " over x", in_y, want);
    equal(name + " with z over x", other_y, want), equal(name + ", z over x", in_z, sums);
    equal(name + ", z beside y over x", other_z, sums);
  }
}

// Row i must have the bits of a launch with the parameters of its member.
void test_norms() {
  for (int round = 0; round < 60; round++) {
    const auto [batch, member_rows, columns] = drawn(round, 9, 200);
    // The last member may have fewer rows.
    const int64_t rows = batch * member_rows - below(member_rows), s = columns + below(3),
                  op = below(GK_UNARY_LAST + 2) - 1,
                  p_batch = round % 6 ? 3 * columns + below(4) : 0;
    const int64_t parameters = (batch - 1) * p_batch + columns, three = 3 * columns + below(4);
    const Floats x(matrix(rows, columns, s)), bias(parameters), weight(parameters),
        shift(parameters), y(x), kept(2 * rows), want(y), statistics(kept), dy(x),
        out(matrix(rows, 3 * columns, three)), wanted(out);
    if (round % 3 == 2) awkward(x);
    launch("norm_act_batched", {y, kept, x, bias, weight, shift},
           {rows, columns, s, s, op, member_rows, p_batch}, {1e-5});
    launch("norm_act_backward_batched", {out, dy, x, kept, bias, weight, shift},
           {rows, columns, three, s, s, op, member_rows, p_batch}, {});
    const Floats untouched(dy);
    for (int64_t p = 0; p < batch; p++) {
      const int64_t first = p * member_rows, n = std::min(member_rows, rows - first),
                    each = matrix(n, columns, s), at = p * p_batch;
      const Floats own = part(x, first * s, each), b = part(bias, at, columns),
                   w = part(weight, at, columns), off = part(shift, at, columns),
                   to = part(want, first * s, each), stats = part(statistics, 2 * first, 2 * n),
                   d = part(dy, first * s, each);
      launch("norm_act", {to, stats, own, b, w, off}, {n, columns, s, s, op}, {1e-5});
      put(want, first * s, to), put(statistics, 2 * first, stats);
      const Floats dx(matrix(n, columns, columns)), terms(dx);
      launch("norm_act_backward", {dx, terms, d, own, stats, b, w, off},
             {n, columns, columns, columns, s, s, op}, {});
      for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++) {
          float* const row = &wanted[(first + i) * three];
          row[j] = dx[i * columns + j], row[columns + j] = terms[i * columns + j];
          row[2 * columns + j] = d[i * s + j];
        }
    }
    const std::string name = "of op " + std::to_string(op);
    equal("norm_act_batched " + name, y, want), equal("what it keeps", kept, statistics);
    equal("norm_act_backward_batched " + name, out, wanted);
  }
}

// Checks whether two pointers of a launch may be the same tensor.
void test_same_tensors() {
  const auto clashes = [](const char* name, std::vector<int64_t> wholes, std::vector<double> reals,
                          size_t i, size_t j) {
    const Kernel* kernel = find_kernel(name);
    Reach reach[max_pointers];
    check(kernel->need(arguments({}, wholes, reals), reach) == nullptr, name);
    uintptr_t at[max_pointers];
    for (size_t k = 0; k < max_pointers; k++) at[k] = (k + 1) << 30;
    at[j] = at[i];
    return clash(*kernel, at, reach).written >= 0;
  };
  const std::vector<int64_t> alike = {2, 3, 5, 6, 6, 20, 20, 5, 12};
  for (const auto& [i, j] : {std::array<size_t, 2>{0, 1}, {0, 2}, {1, 2}})
    check(!clashes("bias_act_batched", alike, {}, i, j), "y, z and x may be the same tensor");
  check(clashes("bias_act_batched", alike, {}, 0, 3), "the bias may not be y");
  // The same number of bytes, but other rows: 8 + 7 + 5 = 2 · 7 + 6 elements.
  for (const auto& [i, j] : {std::array<size_t, 2>{0, 2}, {1, 2}}) {
    check(clashes("bias_act_batched", {2, 2, 5, 5, 7, 10, 8, 5, 12}, {}, i, j),
          "x of other strides may not be written over");
    check(clashes("bias_act_batched", {2, 2, 5, 7, 8, 12, 11, 5, 12}, {}, i, j),
          "x of other gaps may not be written over");
  }
  check(clashes("norm_act_batched", {4, 5, 5, 5, 12, 2, 5}, {1e-5}, 0, 2), "y may not be x");
  check(clashes("column_sums_batched", {2, 3, 5, 5, 15, 5}, {1, 0}, 0, 1), "out may not be x");
}

}  // namespace

void test_batched() { test_sums(), test_bias(), test_norms(), test_same_tensors(); }
