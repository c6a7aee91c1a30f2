// Compares the kernels of learners with a reference in double: squashed Gaussians, distributions
// over atoms, running statistics, Adam. Compares the kernels of steps with single launches.
#include <array>
#include <cstring>

#include "kernels_rig.hpp"

namespace {

double hold(double x, double low, double high) { return std::min(std::max(x, low), high); }

// One component of a squashed Gaussian: its action and its log-probability.
struct Squashed {
  double scale, middle, low, high, limit;
  int64_t form, correction;
  double action(double mean, double raw, double noise) const {
    return std::tanh(inner(mean, raw, noise)) * scale + middle;
  }
  double log_std(double raw) const {
    return form == 1 ? low + 0.5 * (high - low) * (std::tanh(raw) + 1) : hold(raw, low, high);
  }
  double inner(double mean, double raw, double noise) const {
    return hold(mean, -limit, limit) + std::exp(log_std(raw)) * noise;
  }
  double log_prob(double mean, double raw, double noise) const {
    const double y = std::tanh(inner(mean, raw, noise)), gap = 1 - y * y;
    const double corrections[] = {std::log(scale * gap + 1e-6), std::log(gap + 1e-6),
                                  std::log(gap + 1e-6) + std::log(scale + 1e-6),
                                  std::log(gap) + std::log(scale)};
    return -noise * noise / 2 - log_std(raw) - 0.5 * std::log(2 * M_PI) - corrections[correction];
  }
};

bool near(double got, double want, double tolerance) {
  return std::fabs(got - want) <= tolerance * std::max(1.0, std::fabs(want));
}

void squashed(int64_t form, int64_t correction, int64_t n) {
  const int64_t rows = 5, as = n + 2, os = 2 * n + 1, ds = 2 * n + 3, us = n + 1;
  const double low = -2, high = 0.5, limit = 0.9, scale = 0.5, h = 1e-6;
  const Floats action(matrix(rows, n, as)), terms(rows * n), out(matrix(rows, 2 * n, os)),
      noise(rows * n), box(2 * n), d_out(matrix(rows, 2 * n, ds)), d_action(matrix(rows, n, us)),
      d_log(rows), row_action(action.n), log_prob(rows), sums(rows);
  for (int64_t i = 0; i < out.n; i++) out[i] *= 2.5f;
  for (int64_t j = 0; j < n; j++) box[j] = 0.2f + std::fabs(box[j]);
  launch("squashed_gaussian", {action, terms, out, noise, box}, {rows, n, as, os, form, correction},
         {low, high, limit});
  launch("reduce_rows", {sums, terms}, {rows, n, 1, n, 0}, {1});
  launch("squashed_gaussian_rows", {row_action, log_prob, out, noise, box},
         {rows, n, as, os, form, correction}, {low, high, limit});
  launch("squashed_gaussian_backward", {d_out, out, noise, box, d_action, d_log},
         {rows, n, ds, os, us, 1, form, correction}, {low, high, limit, scale});
  for (int64_t i = 0; i < rows; i++) {
    if (!same_bits(log_prob[i], sums[i])) wrong("squashed log-probability", form, correction, i);
    for (int64_t j = 0; j < n; j++) {
      const Squashed of{box[j], box[n + j], low, high, limit, form, correction};
      const double mean = out[i * os + j], raw = out[i * os + n + j], e = noise[i * n + j];
      if (!near(action[i * as + j], of.action(mean, raw, e), 1e-6))
        wrong("squashed action", form, i, j);
      if (!same_bits(row_action[i * as + j], action[i * as + j]))
        wrong("squashed action of a row", form, i, j);
      if (!near(terms[i * n + j], of.log_prob(mean, raw, e), 4e-6))
        wrong("squashed terms", form, correction, i, j);
      // The functions have no derivative at corners.
      if (std::fabs(std::fabs(mean) - limit) < 1e-4 || std::fabs(raw - low) < 1e-4 ||
          std::fabs(raw - high) < 1e-4)
        continue;
      const auto loss = [&](double by_mean, double by_raw) {
        return d_action[i * us + j] * of.action(mean + by_mean, raw + by_raw, e) +
               scale * d_log[i] * of.log_prob(mean + by_mean, raw + by_raw, e);
      };
      const double of_mean = (loss(h, 0) - loss(-h, 0)) / (2 * h),
                   of_raw = (loss(0, h) - loss(0, -h)) / (2 * h);
      if (!near(d_out[i * ds + j], of_mean, 3e-6))
        wrong("squashed d mean", form, correction, i, j, of_mean);
      if (!near(d_out[i * ds + n + j], of_raw, 3e-6))
        wrong("squashed d log_std", form, correction, i, j, of_raw);
    }
  }
}

void categorical(int64_t atoms, double least) {
  const int64_t rows = 7, ls = atoms + 2, ds = atoms + 1;
  const double low = -1.5, high = 2.5, gap = (high - low) / double(atoms - 1);
  const Floats projected(rows * atoms), mean(rows), probs(rows * atoms),
      rewards(matrix(rows, 1, 2)), discounts(rows), cost(1), logits(matrix(rows, atoms, ls)),
      d(matrix(rows, atoms, ds)), terms(2 * rows), off(matrix(rows, 1, 3)), weights(rows),
      value(matrix(rows, 1, 2)), d_value(rows), d_logits(rows * atoms);
  for (int64_t i = 0; i < logits.n; i++) logits[i] *= 5;
  for (int64_t i = 0; i < rows; i++) {
    rewards[2 * i] *= 3, discounts[i] = i == 0 ? 0 : std::fabs(discounts[i]);
    double sum = 0;
    for (int64_t k = 0; k < atoms; k++)
      sum += probs[i * atoms + k] = std::fabs(probs[i * atoms + k]);
    for (int64_t k = 0; k < atoms; k++) probs[i * atoms + k] = float(probs[i * atoms + k] / sum);
  }
  // Targets that are exactly an atom, the last one among them.
  rewards[2] = float(low), rewards[0] = float(high);
  const std::vector<double> ends = {low, high};
  launch("categorical_project", {projected, mean, probs, rewards, discounts, cost},
         {rows, atoms, 2, 1, 0, rows, rows, 1}, ends);
  launch("categorical_loss", {d, terms, off, logits, projected, weights},
         {rows, atoms, ds, 3, ls, 1, rows, rows}, {least, 0.5, low, high});
  launch("categorical_mean", {value, logits}, {rows, atoms, 2, ls}, ends);
  launch("categorical_mean_backward", {d_logits, d_value, logits, value},
         {rows, atoms, atoms, 1, ls, 2}, ends);
  for (int64_t i = 0; i < rows; i++) {
    std::vector<double> want(static_cast<size_t>(atoms)), p(static_cast<size_t>(atoms));
    double average = 0, whole = 0, loss = 0, mass = 0, expected = 0;
    for (int64_t k = 0; k < atoms; k++) {
      const double z = hold(rewards[2 * i] + discounts[i] * (low + double(k) * gap - cost[0]), low,
                            high),
                   at = (z - low) / gap, left = std::min(std::floor(at), double(atoms - 2));
      want[size_t(left)] += probs[i * atoms + k] * (1 - (at - left));
      want[size_t(left) + 1] += probs[i * atoms + k] * (at - left);
      average += probs[i * atoms + k] * z;
      whole += std::exp(double(logits[i * ls + k]));
    }
    for (int64_t k = 0; k < atoms; k++) {
      p[size_t(k)] = std::exp(double(logits[i * ls + k])) / whole;
      const double ln = std::log(p[size_t(k)]), t = projected[i * atoms + k];
      loss -= t * std::max(ln, least), mass += ln < least ? 0 : t,
          expected += p[size_t(k)] * (low + double(k) * gap);
    }
    if (!near(mean[i], average, 3e-6)) wrong("categorical_project mean", i, mean[i], average);
    if (!near(terms[2 * i], weights[i] * loss, 4e-6)) wrong("categorical loss", i, loss);
    if (!near(off[3 * i], loss, 4e-6)) wrong("categorical off", i, loss);
    if (!near(terms[2 * i + 1], expected, 3e-6)) wrong("categorical mean of the loss", i, expected);
    if (!near(value[2 * i], expected, 3e-6)) wrong("categorical mean", i, value[2 * i], expected);
    for (int64_t k = 0; k < atoms; k++) {
      const double ln = std::log(p[size_t(k)]), t = ln < least ? 0 : projected[i * atoms + k];
      const double slope = 0.5 * weights[i] * (p[size_t(k)] * mass - t);
      if (!near(projected[i * atoms + k], want[size_t(k)], 1e-5)) wrong("projected", i, k, atoms);
      // If the logarithm is close to the floor, both slopes are right.
      if (std::fabs(ln - least) > 1e-3 && !near(d[i * ds + k], slope, 3e-6))
        wrong("categorical d", i, k, slope);
      const double pull = d_value[i] * p[size_t(k)] * (low + double(k) * gap - expected);
      if (!near(d_logits[i * atoms + k], pull, 3e-6)) wrong("categorical mean d", i, k, pull);
    }
  }
}

// Operands that repeat must give the bits of launches of one row. With a discount of 0 the target
// is the reward alone, and a NaN reward makes the distribution NaN. A target above the last atom
// gives it the whole mass.
void categorical_operands(int64_t atoms) {
  const int64_t rows = 12, reward_rows = 4, discount_rows = 3, cost_rows = 6;
  const Floats probs(rows * atoms), rewards(matrix(reward_rows, 1, 2)),
      discounts(matrix(discount_rows, 1, 3)), cost(matrix(cost_rows, 1, 2)),
      projected(rows * atoms), mean(rows);
  launch("categorical_project", {projected, mean, probs, rewards, discounts, cost},
         {rows, atoms, 2, 3, 2, reward_rows, discount_rows, cost_rows}, {-3, 4});
  const Floats p(atoms), reward(1), discount(1), off(1), out(atoms), middle(1);
  const auto one = [&] {
    launch("categorical_project", {out, middle, p, reward, discount, off},
           {1, atoms, 1, 1, 1, 1, 1, 1}, {-3, 4});
  };
  for (int64_t i = 0; i < rows; i++) {
    std::copy_n(probs.at.get() + i * atoms, atoms, p.at.get());
    reward[0] = rewards[i % reward_rows * 2], discount[0] = discounts[i % discount_rows * 3];
    off[0] = cost[i % cost_rows * 2];
    one();
    for (int64_t j = 0; j < atoms; j++)
      if (!same_bits(projected[i * atoms + j], out[j])) wrong("repeated operands", atoms, i, j);
    if (!same_bits(mean[i], middle[0])) wrong("the mean of repeated operands", atoms, i);
  }

  std::fill_n(p.at.get(), atoms, NAN);
  reward[0] = 5, discount[0] = 0, off[0] = NAN;
  one();
  for (int64_t j = 0; j < atoms; j++)
    if (out[j] != float(j == atoms - 1)) wrong("a discount of 0", atoms, j, out[j]);
  check(middle[0] == 4, "a discount of 0 selects the reward");
  std::fill_n(p.at.get(), atoms, 0.25f);
  reward[0] = NAN;
  one();
  check(std::isnan(out[0]) && std::isnan(middle[0]), "a NaN reward gives NaN");
}

// A target of logits must have the bits of softmax_rows, of the product of costs and of
// categorical_project.
void categorical_target(int64_t atoms) {
  const int64_t rows = 12, ls = atoms + 3;
  for (const auto& own : std::vector<std::array<int64_t, 4>>{
           {0, 12, 12, 1}, {1, 12, 12, 12}, {2, 4, 3, 12}, {1, 1, 5, 6}}) {
    const auto [apart, reward_rows, discount_rows, cost_rows] = own;
    const Floats logits(matrix(rows, atoms, ls)), rewards(matrix(reward_rows, 1, 2)),
        discounts(matrix(discount_rows, 1, 3)), cost(matrix(cost_rows, 1, apart)), factor(1),
        probs(rows * atoms), product(cost_rows), projected(rows * atoms), mean(rows),
        projected2(rows * atoms), mean2(rows);
    for (int64_t i = 0; i < logits.n; i++) logits[i] *= 9;
    for (int64_t j = 0; j < atoms; j++) logits[ls + j] = -INFINITY;
    logits[2 * ls] = NAN, logits[3 * ls + 1] = -INFINITY, discounts[0] = 0, factor[0] = 0.37f;
    launch("softmax_rows", {probs, logits}, {rows, atoms, atoms, ls, 0}, {});
    launch("binary", {product, cost, factor}, {cost_rows, 1, 1, apart, 0, 0, 0, 2}, {});
    launch("categorical_project", {projected, mean, probs, rewards, discounts, product},
           {rows, atoms, 2, 3, apart == 0 ? 0 : 1, reward_rows, discount_rows, cost_rows}, {-3, 4});
    launch("categorical_target", {projected2, mean2, logits, rewards, discounts, cost, factor},
           {rows, atoms, ls, 2, 3, apart, reward_rows, discount_rows, cost_rows}, {-3, 4});
    const auto same = [](float a, float b) {
      return same_bits(a, b) || (std::isnan(a) && std::isnan(b));
    };
    for (int64_t i = 0; i < rows; i++) {
      if (!same(mean[i], mean2[i])) wrong("categorical_target mean", atoms, i);
      for (int64_t j = i * atoms; j < (i + 1) * atoms; j++)
        if (!same(projected[j], projected2[j])) wrong("categorical_target", atoms, i, j);
    }
  }
}

void test_moments(int64_t form) {
  const int64_t columns = 19;
  const double start = form ? 0 : 1e-4, eps = 1e-2;
  const Floats mean(columns), variance(columns), factor(columns), batch_mean(columns),
      batch_variance(columns);
  std::vector<int64_t> count{0};
  std::vector<double> m(columns, 0), v(columns, 1);
  for (int64_t j = 0; j < columns; j++) mean[j] = 0, variance[j] = 1;
  double seen = start;
  for (int64_t rows : {4, 1, 16, 3}) {
    const double more = double(rows), all = seen + more;
    for (int64_t j = 0; j < columns; j++) {
      batch_mean[j] = batch_mean[j] * 1.5f + 0.1f, batch_variance[j] = std::fabs(batch_variance[j]);
      double &mj = m[size_t(j)], &vj = v[size_t(j)];
      const double before = batch_mean[j] - mj, moved = mj + before * more / all;
      const double apart = form ? batch_mean[j] - moved : before;
      vj = (vj * seen + batch_variance[j] * more + apart * apart * seen * more / all) / all;
      mj = moved;
    }
    launch("moments", {mean, variance, factor, batch_mean, batch_variance, count},
           {columns, rows, form, form}, {start, eps});
    launch("moments_advance", {count}, {rows}, {});
    seen = all;
    for (int64_t j = 0; j < columns; j++) {
      const double vj = v[size_t(j)],
                   want = form ? 1 / (std::sqrt(vj) + eps) : 1 / std::sqrt(vj + eps);
      if (!near(mean[j], m[size_t(j)], 1e-6)) wrong("moments mean", j, rows);
      if (!near(variance[j], vj, 2e-6)) wrong("moments variance", j, rows, variance[j], vj);
      if (!near(factor[j] / want, 1, 1e-5)) wrong("moments factor", j, rows, factor[j], want);
    }
  }
  check(count[0] == 24, "moments_advance counts 24 rows");
}

void test_count_non_finite() {
  const int64_t n = 500;
  const Floats x(n);
  std::vector<int32_t> found(8, 0), ends{3, 3, 260, 500}, counter{4};
  const std::vector<int64_t> wholes{n, 4, 2};
  x[2] = NAN, x[3] = INFINITY, x[259] = -INFINITY, x[499] = NAN;
  launch("count_non_finite", {found, x, ends, counter}, wholes, {});
  check(found == std::vector<int32_t>{1, 5, 0, 0, 2, 5, 1, 5},
        "every part counts its non-finite elements");
  counter[0] = 5;
  launch("count_non_finite", {found, x, ends, counter}, wholes, {});
  check(found[0] == 1, "count_non_finite waits for its turn");
  counter[0] = 6, x[2] = 1;
  launch("count_non_finite", {found, x, ends, counter}, wholes, {});
  check(found == std::vector<int32_t>{1, 5, 0, 0, 4, 5, 2, 5},
        "the step of the first non-finite element stays");
}

// Adam adds its weight decay to the gradient (`pull`). AdamW subtracts it from the parameters
// (`decay`).
void test_adam(double decay, double pull) {
  const int64_t n = 1031;
  const double lr = 0.01, b1 = 0.9, b2 = 0.999, eps = 1e-8;
  const Floats p(n), m(n), v(n), factors(4), partial(256), rate(1);
  rate[0] = float(lr);
  std::fill_n(m.at.get(), n, 0.0f), std::fill_n(v.at.get(), n, 0.0f);
  std::vector<double> wp = as_double(p), wm(n), wv(n);
  std::vector<int32_t> steps{0};
  for (int t = 1; t <= 10; t++) {
    const Floats g(n);
    launch("grad_norm", {partial, g}, {n}, {});
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += double(g[i]) * g[i];
    const double norm = std::sqrt(squares), most = t % 2 ? 0 : norm / 2;
    for (int64_t i = 0; i < n; i++) {
      const double d = (t % 2 ? 1 : 0.5) * g[i] + pull * wp[i];
      wp[i] *= 1 - lr * decay;
      wm[i] = b1 * wm[i] + (1 - b1) * d;
      wv[i] = b2 * wv[i] + (1 - b2) * d * d;
      wp[i] -= lr / (1 - std::pow(b1, t)) * wm[i] /
               (std::sqrt(wv[i]) / std::sqrt(1 - std::pow(b2, t)) + eps);
    }
    launch("adam", {p, m, v, factors, g, partial, steps, rate}, {n, 1},
           {1 - b1, 1 - b2, eps, decay, pull, most});
    check(steps[0] == t - 1, "adam does not write the counter");
    steps[0]++;
  }
  close("adam", p, wp, 2e-6), close("adam m", m, wm, 1e-6), close("adam v", v, wv, 1e-6);
}

// A scalar of a table of step_end. `runs` is false if the kernel must refuse the sum.
struct StepSum {
  int32_t kind, group, offset, rows, columns;
  float factor;
  bool runs = true;
};

// Returns a sum of step_end, by launches that sum one by one.
float sum_of(const Floats& x, const StepSum& sum) {
  const bool column = sum.kind == 1;
  const Floats own(column ? matrix(sum.rows, 1, sum.columns) : int64_t(sum.rows) * sum.columns),
      pieces(sum.rows), out(1);
  std::copy_n(x.at.get() + sum.offset, own.n, own.at.get());
  if (column) {
    launch("column_sums", {out, own}, {sum.rows, 1, sum.columns}, {sum.factor, 0});
  } else {
    launch("reduce_rows", {pieces, own}, {sum.rows, sum.columns, 1, sum.columns, 0}, {1});
    launch("reduce_rows", {out, pieces}, {1, sum.rows, 1, sum.rows, 0}, {sum.factor});
  }
  return out[0];
}

// Compares step_end with launches that sum, add and count one by one, for 31 groups.
void test_step_end(double beta, int32_t due) {
  constexpr int64_t size = 9000;
  constexpr int32_t end = size - 1, most = INT32_MAX, least = INT32_MIN;
  const StepSum sums[] = {
      {0, 0, 0, 1, 1, 1, false},
      {3, 0, 0, 1, 1, 1, false},
      {1, 0, 1, 2049, 2, 1 / 2049.0f},
      {2, 1, 7, 1, 1000, -0.5f},
      {2, 0, 3, 37, 240, 0.25f},
      {2, 30, 0, 100, 3, 1},
      {1, 30, 0, 8, 1, 3},
      {1, 14, 0, 8, 1, 3},
      // No step has these groups.
      {1, 31, 0, 8, 1, 3, false},
      {1, -1, 0, 8, 1, 3, false},
      // These sums end at the last element of x, or one element beyond it.
      {1, 0, 7, 1125, 8, 1},
      {1, 0, 8, 1125, 8, 1, false},
      {2, 0, 360, 36, 240, 1},
      {2, 0, 361, 36, 240, 1, false},
      {1, 0, end, 1, most, 1},
      {2, 0, end, 1, 1, 1},
      {1, 0, end + 1, 1, 1, 1, false},
      {2, 0, end + 1, 1, 1, 1, false},
      // These sums begin before x.
      {1, 0, -1, 4, 1, 1, false},
      {2, 0, -1, 4, 1, 1, false},
      {1, 0, least, 1, 1, 1, false},
      // These sums have no elements, or a negative number of rows or columns.
      {2, 0, 0, 0, 4, 1, false},
      {2, 0, 0, 4, 0, 1, false},
      {1, 0, 0, 4, 0, 1, false},
      {2, 0, 0, -2, -3, 1, false},
      {1, 0, end, 2, -1, 1, false},
      {1, 0, least, least, least, 1, false},
      // The product of these sizes is close to the limit of 64 bits.
      {1, 0, most, most, most, 1, false},
      {2, 0, most, most, most, 1, false},
      {2, 0, 0, most, most, 1, false},
  };
  constexpr int64_t count = std::size(sums), groups = 31;
  const Floats x(size), out(count), numbers(count);
  if (beta == 0) std::fill_n(out.at.get(), count, NAN);
  const Floats want(numbers), want_out(out);
  std::vector<int32_t> table, by(3 * groups);
  for (const StepSum& sum : sums) {
    int32_t factor;
    std::memcpy(&factor, &sum.factor, 4);
    for (int32_t word : {sum.kind, sum.group, sum.offset, sum.rows, sum.columns, factor})
      table.push_back(word);
  }
  by[0] = 1, by[30] = 4, by[groups] = 5, by[groups + 1] = 100, by[groups + 30] = 2,
  by[2 * groups] = -1;
  table.insert(table.end(), by.begin(), by.end());
  for (int64_t i = 0; i < count; i++)
    if (sums[i].runs && due >> sums[i].group & 1) want[i] = sum_of(x, sums[i]);
  launch("axpby", {want_out, want}, {count}, {0.25, beta});
  std::vector<int32_t> counters{most, 10, least}, want_counters = counters, state{1, 2, -2, 3},
                                                  want_state = state;
  for (int64_t c = 0; c < 3; c++)
    for (int64_t g = 0; g < groups; g++)
      if (due >> g & 1)
        want_counters[c] = int32_t(uint32_t(want_counters[c]) + uint32_t(by[c * groups + g]));
  launch("random_advance", {want_state}, {7}, {});
  launch("step_end", {out, numbers, counters, state, x, table}, {count, 3, groups, due, 7, size},
         {0.25, beta});
  for (int64_t i = 0; i < count; i++)
    if (!same_bits(numbers[i], want[i]) || !same_bits(out[i], want_out[i]))
      wrong("step_end", i, int64_t(beta * 4), due);
  check(counters == want_counters, "step_end counts the groups that are due");
  check(due != (1 << 30 | 1) || counters == std::vector<int32_t>{least + 4, 17, most},
        "counters of step_end wrap around");
  check(state == want_state, "step_end advances the generator");
}

// The factors of a step, in floats: rate / (1 − beta1^t) and 1 / sqrt(1 − beta2^t).
std::array<float, 2> factors_of(int32_t t, float rate, float rest1, float rest2) {
  float d1 = 0, d2 = 0;
  for (; t > 0; t /= 2) {
    if (t % 2) d1 += rest1 * (1 - d1), d2 += rest2 * (1 - d2);
    rest1 *= 2 - rest1, rest2 *= 2 - rest2;
  }
  return {rate / d1, 1 / std::sqrt(d2)};
}

// At some of these steps 1 − beta^t would have no digit left in floats, at others it is 1. With m
// and v of 1 and a gradient of 0, the step of one parameter is factors[0] / factors[1] up to b1 and
// the root of b2.
void test_adam_factors() {
  for (double beta : {0.0, 0.9, 0.999, 0.999999, 0.999999999})
    for (int32_t t : {1, 2, 3, 7, 1000, 123457, 1 << 20, (1 << 30) + 1, INT32_MAX})
      for (int32_t ahead : {1, 2, 6}) {
        if (ahead > t) continue;
        const float lr = 0.01f, rest = float(1 - beta);
        const auto [step, unbias] = factors_of(t, lr, rest, rest);
        const std::string when =
            " at step " + std::to_string(t) + " with beta " + std::to_string(beta);
        const double left = beta == 0 ? 1 : -std::expm1(t * std::log(beta));
        check(std::fabs(step * left / lr - 1) < 1e-6 &&
                  std::fabs(unbias * std::sqrt(left) - 1) < 1e-6,
              "the reference of the factors" + when);
        const Floats p(1), m(1), v(1), factors(4), g(1), partial(256), rate(1);
        const float before = p[0], d = g[0];
        m[0] = 1, v[0] = 1, rate[0] = lr;
        const float mean = (1 - rest) * 1.0f + rest * d, spread = (1 - rest) * 1.0f + rest * d * d;
        std::vector<int32_t> steps{t - ahead};
        launch("adam", {p, m, v, factors, g, partial, steps, rate}, {1, ahead},
               {1 - beta, 1 - beta, 1e-8, 0, 0, 0});
        check(same_bits(p[0], 1.0f * before - step * mean / (std::sqrt(spread) * unbias + 1e-8f)),
              "adam has the bits of its factors" + when);
      }
}

// Draws numbers for a step: signed zeros and subnormal numbers are among the gradients.
struct DrawnStep {
  explicit DrawnStep(int64_t n)
      : p(n), m(n), v(n), g(n), partial(256), factors(4), rate(1), steps{0} {
    const float odd[] = {0.0f, -0.0f, 1e-42f, 3.0f};
    for (int64_t i = 0; i < n; i++) {
      v[i] = std::fabs(v[i]);
      if (generator() % 7 == 0) g[i] = odd[generator() % 4];
      if (generator() % 11 == 0) p[i] = odd[generator() % 4];
      // This parameter never had a gradient.
      if (i % 9 == 8) m[i] = v[i] = g[i] = 0;
    }
    rate[0] = 0.05f;
    launch("grad_norm", {partial, g}, {n}, {});
  }
  Floats p, m, v, g, partial, factors, rate;
  std::vector<int32_t> steps;
};

bool equal_bits(const Floats& a, const Floats& b) {
  return a.n == b.n && std::memcmp(a.at.get(), b.at.get(), size_t(a.n) * 4) == 0;
}

// Each kernel of a step has the bits of the launches that it replaces, and of its arithmetic
// element by element. A step with a target has those of the step and of follow_every.
void test_steps(int64_t n, double most, int64_t option) {
  const std::string which = " of " + std::to_string(n) + ", clipped to " + std::to_string(most) +
                            ", option " + std::to_string(option);
  const DrawnStep start(n);
  const Floats norm(start.factors);
  if (most > 0) launch("clip_scale", {norm, start.partial}, {}, {most});
  const float clip = most > 0 ? norm[2] : 1.0f;

  const double decay = option == 1 ? 0.1 : 0, pull = option == 2 ? 0.1 : 0;
  const std::vector<double> reals{0.1, 0.001, option == 3 ? 0 : 1e-8, decay, pull, most};
  const int64_t ahead = option + 1;
  DrawnStep adam(start);
  adam.steps[0] = 41;
  launch("adam",
         {adam.p, adam.m, adam.v, adam.factors, adam.g, adam.partial, adam.steps, adam.rate},
         {n, ahead}, reals);
  check(adam.steps[0] == 41 && equal_bits(adam.factors, norm),
        "adam writes the factors of clip_scale, and no counter" + which);
  const auto [step, unbias] = factors_of(int32_t(41 + ahead), start.rate[0], 0.1f, 0.001f);
  const float keep = 1 - start.rate[0] * float(decay), rest1 = 0.1f, rest2 = 0.001f;
  for (int64_t i = 0; i < n; i++) {
    const float d = clip * start.g[i] + float(pull) * start.p[i];
    const float mean = (1 - rest1) * start.m[i] + rest1 * d,
                spread = (1 - rest2) * start.v[i] + rest2 * d * d,
                size = std::sqrt(spread) * unbias + float(reals[2]);
    const float p = keep * start.p[i] - (size == 0 && mean == 0 ? 0 : step * mean / size);
    if (!same_bits(adam.p[i], p) || !same_bits(adam.m[i], mean) || !same_bits(adam.v[i], spread))
      return check(false, "adam has the bits of its arithmetic" + which);
  }

  const double momentum = option == 0 ? 0 : 0.9, pulled = option == 2 ? 0 : 0.01;
  const int64_t nesterov = option > 1;
  DrawnStep sgd(start);
  launch("sgd", {sgd.p, sgd.m, sgd.factors, sgd.g, sgd.partial, sgd.rate}, {n, nesterov},
         {momentum, pulled, most});
  check(equal_bits(sgd.factors, norm), "sgd writes the factors of clip_scale" + which);
  // By launches: the slope, the direction, and the step along it.
  const Floats slope(start.g), direction(start.m), moved(start.p);
  if (most > 0)
    for (int64_t i = 0; i < n; i++) slope[i] = slope[i] * clip;
  if (pulled > 0) launch("axpby", {slope, moved}, {n}, {pulled, 1});
  launch("axpby", {direction, slope}, {n}, {1, momentum});
  if (nesterov) launch("axpby", {slope, direction}, {n}, {momentum, 1});
  for (int64_t i = 0; i < n; i++)
    moved[i] = moved[i] - (nesterov ? slope : direction)[i] * start.rate[0];
  check(equal_bits(sgd.p, moved) && equal_bits(sgd.m, direction),
        "sgd has the bits of single launches" + which);

  for (const auto& [from, count] :
       {std::pair<int64_t, int64_t>{0, n}, {n / 3, (n + 1) / 2}, {n - 1, 1}})
    for (double tau : {1.0, 0.005, 0.0})
      for (int64_t every : {1, 3, 5}) {
        const std::string what = which + ", from " + std::to_string(from) + " tau " +
                                 std::to_string(tau) + " every " + std::to_string(every);
        const Floats target(count), wanted(count), part(count);
        std::copy_n(target.at.get(), count, wanted.at.get());
        // A target that is copied is not read.
        if (tau == 1 && (41 + ahead) % every == 0) target[0] = NAN;
        std::vector<int32_t> now{int32_t(41 + ahead)};
        const auto follow = [&](const Floats& p) {
          std::copy_n(p.at.get() + from, count, part.at.get());
          const Floats out(wanted);
          launch("follow_every", {out, part, now}, {count, every}, {tau, 1 - tau});
          return out;
        };
        std::vector<double> all(reals);
        all.insert(all.end(), {tau, 1 - tau});
        DrawnStep one(start);
        one.steps[0] = 41;
        const Floats moved_by_adam(target);
        launch("adam_follow",
               {one.p, one.m, one.v, moved_by_adam, one.factors, one.g, one.partial, one.steps,
                one.rate},
               {n, ahead, from, count, every}, all);
        check(equal_bits(one.p, adam.p) && equal_bits(one.m, adam.m) && equal_bits(one.v, adam.v) &&
                  equal_bits(one.factors, norm) && one.steps[0] == 41 &&
                  equal_bits(moved_by_adam, follow(adam.p)),
              "adam_follow has the bits of adam and follow_every" + what);
        DrawnStep two(start);
        two.steps[0] = 41;
        launch("sgd_follow",
               {two.p, two.m, target, two.factors, two.g, two.partial, two.steps, two.rate},
               {n, ahead, from, count, every, nesterov}, {momentum, pulled, most, tau, 1 - tau});
        check(equal_bits(two.p, sgd.p) && equal_bits(two.m, sgd.m) &&
                  equal_bits(two.factors, norm) && two.steps[0] == 41 &&
                  equal_bits(target, follow(sgd.p)),
              "sgd_follow has the bits of sgd and follow_every" + what);
      }
}

}  // namespace

void test_learners() {
  for (double beta : {0.0, 0.5})
    for (int32_t due : {0, 1, 3, 1 << 30 | 1, INT32_MAX}) test_step_end(beta, due);
  for (int64_t form : {0, 1})
    for (int64_t correction : {0, 1, 2, 3})
      for (int64_t n : {1, 3, 17, 32, 33, 70}) squashed(form, correction, n);
  for (int64_t atoms : {2, 5, 51, 101}) categorical(atoms, -1e30), categorical(atoms, -3);
  for (int64_t atoms : {2, 5, 32, 51, 101, 600, 1024}) categorical_target(atoms);
  for (int64_t atoms : {2, 24, 51}) categorical_operands(atoms);
  test_moments(0), test_moments(1), test_count_non_finite();
  test_adam(0, 0), test_adam(0.1, 0), test_adam(0, 0.1), test_adam_factors();
  for (int64_t n : {1, 2, 33, 1031, 2500})
    for (double most : {0.0, 0.5, 1e3})
      for (int64_t option : {0, 1, 2, 3}) test_steps(n, most, option);
}
