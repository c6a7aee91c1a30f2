// Argument checks (needs) of the learners' kernels, for the registry: targets, losses, squashed
// Gaussians, optimizers. Include this file after the kernels, because it uses their constants.
#pragma once
#include "kernels/need.hpp"
#include "kernels/need_ops.hpp"

namespace hotslot::needs {

inline void td_target(const KernelArgs&, Check& check) {
  static const char* const columns[] = {"reward_stride", "done_stride", "truncated_stride"};
  const int64_t rows = check.size(0, "rows"), actions = check.size(1, "actions");
  check.vector(0, rows);
  check.matrix(1, rows, actions, check.stride(2, "value_stride", actions));
  check.matrix(2, rows, actions, check.stride(3, "choice_stride", actions));
  for (int i = 0; i < 3; i++) check.column(3 + i, rows, check.size(4 + i, columns[i]));
  check.within(0, "gamma", 0, 1);
}

inline void td_target_discounts(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), actions = check.size(1, "actions");
  check.vector(0, rows);
  check.matrix(1, rows, actions, check.stride(2, "value_stride", actions));
  check.matrix(2, rows, actions, check.stride(3, "choice_stride", actions));
  check.column(3, rows, check.size(4, "reward_stride"));
  check.column(4, rows, check.size(5, "discount_stride"));
}

// Returns whole number i, after which the rows of an operand repeat. It is an error if the number
// is less than 1 or more than the launch's rows.
inline int64_t repeated(Check& check, int i, const char* name, int64_t rows) {
  check.at_most(i, name, rows);
  return check.size(i, name);
}

inline void td_loss_weighted(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), actions = check.size(1, "actions");
  check.matrix(0, rows, actions, check.stride(2, "dq_stride", actions));
  check.vector(1, doubled(rows));
  check.column(2, rows, check.size(3, "priority_stride"));
  check.matrix(3, rows, actions, check.stride(4, "q_stride", actions));
  check.vector(4, repeated(check, 7, "y_rows", rows));
  const int64_t action_rows = repeated(check, 8, "action_rows", rows),
                weight_rows = repeated(check, 9, "weight_rows", rows);
  check.column(5, action_rows, check.size(5, "action_stride"));
  check.column(6, weight_rows, check.at_least(6, "weight_stride", 0));
  check.within(0, "delta", 0, 1e30), check.finite(1, "scale");
}

inline void td_loss_target(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), actions = check.size(1, "actions");
  const int64_t target_rows = repeated(check, 9, "target_rows", rows),
                action_rows = repeated(check, 10, "action_rows", rows),
                weight_rows = repeated(check, 11, "weight_rows", rows);
  check.matrix(0, rows, actions, actions), check.vector(1, doubled(rows)), check.vector(2, rows);
  check.matrix(3, rows, actions, check.stride(2, "q_stride", actions));
  check.matrix(4, target_rows, actions, check.stride(3, "value_stride", actions));
  check.matrix(5, target_rows, actions, check.stride(4, "choice_stride", actions));
  check.column(6, target_rows, check.size(5, "reward_stride"));
  check.column(7, target_rows, check.size(6, "discount_stride"));
  check.column(8, action_rows, check.size(7, "action_stride"));
  check.column(9, weight_rows, check.at_least(8, "weight_stride", 0));
  check.within(0, "delta", 0, 1e30), check.finite(1, "scale");
}

inline void grad_norm(const KernelArgs&, Check& check) {
  check.vector(0, GK_PARTIALS), check.vector(1, check.size(0, "n"));
}

inline void clip_scale(const KernelArgs&, Check& check) {
  check.vector(0, 4), check.vector(1, GK_PARTIALS);
  check.within(0, "max_norm", 1e-30, 1e30);
}

// Checks that reals i and i + 1 are 1 − beta1 and 1 − beta2, for beta up to 0.999999999.
inline void rests(Check& check, int i) {
  check.within(i, "1 - beta1", 9e-10, 1), check.within(i + 1, "1 - beta2", 9e-10, 1);
}

// Checks the factors and the partials of a step, which are pointers i and i + 2. Real `most` is the
// largest norm, or 0 if the step does not clip.
inline void clipping(Check& check, int i, int most) {
  check.vector(i, 4), check.vector(i + 2, GK_PARTIALS);
  if (check.finite(most, "max_norm") != 0) check.within(most, "max_norm", 1e-30, 1e30);
}

// Checks how many steps after those of the counter a step is.
inline void step_number(Check& check, int i) {
  check.size(i, "ahead"), check.at_most(i, "ahead", INT32_MAX);
}

// Checks that reals i and i + 1 are tau and 1 − tau. A device has rounded both to floats, so the
// check has a tolerance.
inline void toward(const KernelArgs& args, Check& check, int i) {
  check.within(i, "tau", 0, 1);
  if (!(std::fabs(args.real[i + 1] - (1 - args.real[i])) <= 1e-6))
    check.say("rest must be 1 - tau, got %g and tau %g", args.real[i + 1], args.real[i]);
}

// Checks how a step of n elements moves a target: pointer `target`, whole numbers from `first`
// on and reals from `tau` on.
inline void followed(const KernelArgs& args, Check& check, int target, int first, int tau) {
  const int64_t n = check.size(0, "n"), start = check.at_least(first, "first", 0),
                count = check.size(first + 1, "count");
  if (n > 0 && count > 0 && start > n - count)
    check.say("first + count must be at most n, got %lld + %lld and n %lld", (long long)start,
              (long long)count, (long long)n);
  check.vector(target, count);
  check.size(first + 2, "every"), check.at_most(first + 2, "every", INT32_MAX);
  toward(args, check, tau);
}

// Checks a step of Adam without its target. Pointer `factors` is followed by the gradient, the
// partials, the counter and the learning rate.
inline void adam_step(Check& check, int factors) {
  const int64_t n = check.size(0, "n");
  for (int i = 0; i < 3; i++) check.vector(i, n);
  clipping(check, factors, 5), check.vector(factors + 1, n);
  check.vector(factors + 3, 1), check.vector(factors + 4, 1);
  step_number(check, 1);
  rests(check, 0), check.within(2, "eps", 0, 1), check.within(3, "decay", 0, 1e6),
      check.within(4, "pull", 0, 1e6);
}

inline void adam(const KernelArgs&, Check& check) { adam_step(check, 3); }

inline void adam_follow(const KernelArgs& args, Check& check) {
  adam_step(check, 4), followed(args, check, 3, 2, 6);
}

// Checks a step of SGD without its target. Pointer `factors` is followed by the gradient and the
// partials, and whole number `nesterov` is a flag.
inline void sgd_step(Check& check, int factors, int nesterov) {
  const int64_t n = check.size(0, "n");
  check.vector(0, n), check.vector(1, n);
  clipping(check, factors, 2), check.vector(factors + 1, n);
  check.at_least(nesterov, "nesterov", 0), check.at_most(nesterov, "nesterov", 1);
  check.within(0, "momentum", 0, 1), check.within(1, "decay", 0, 1e6);
}

inline void sgd(const KernelArgs&, Check& check) { sgd_step(check, 2, 1), check.vector(5, 1); }

inline void sgd_follow(const KernelArgs& args, Check& check) {
  sgd_step(check, 3, 5), check.vector(6, 1), check.vector(7, 1);
  step_number(check, 1), followed(args, check, 2, 2, 3);
}

// Checks the form and the correction of a squashed Gaussian, which are whole numbers `form` and
// `form` + 1. Also checks its reals.
inline void squashing(Check& check, int form) {
  check.at_least(form, "form", 0), check.at_most(form, "form", GK_STD_LAST);
  check.at_least(form + 1, "correction", 0), check.at_most(form + 1, "correction", GK_CORRECT_LAST);
  check.within(1, "high", check.finite(0, "low"), 3e38), check.within(2, "mean_limit", 0, 3e38);
}

// Checks a sampling kernel. Pointer 1 has one log-probability for each row if `summed`, else one
// for each element.
inline void squashed_sample(Check& check, bool summed) {
  const int64_t rows = check.size(0, "rows"), n = check.size(1, "n"), terms = summed ? 1 : n;
  check.matrix(0, rows, n, check.stride(2, "action_stride", n));
  check.matrix(1, rows, terms, terms);
  check.matrix(2, rows, doubled(n), check.stride(3, "out_stride", doubled(n)));
  check.matrix(3, rows, n, n), check.vector(4, doubled(n));
  squashing(check, 4);
}

inline void squashed_gaussian(const KernelArgs&, Check& check) { squashed_sample(check, false); }

inline void squashed_gaussian_rows(const KernelArgs&, Check& check) {
  squashed_sample(check, true);
}

inline void squashed_gaussian_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), n = check.size(1, "n");
  check.matrix(0, rows, doubled(n), check.stride(2, "d_out_stride", doubled(n)));
  check.matrix(1, rows, doubled(n), check.stride(3, "out_stride", doubled(n)));
  check.matrix(2, rows, n, n), check.vector(3, doubled(n));
  check.matrix(4, rows, n, check.stride(4, "d_action_stride", n));
  check.column(5, rows, check.at_least(5, "d_log_prob_stride", 0));
  squashing(check, 6), check.finite(3, "scale");
}

// Checks the number of atoms (whole number `atoms`) and the reals low and high, from real `low` on.
// Returns the number of atoms.
inline int64_t support(Check& check, int atoms, int low) {
  check.at_most(atoms, "atoms", 1 << 20);
  if (!(check.finite(low, "low") < check.finite(low + 1, "high")))
    check.say("low must be below high");
  return check.at_least(atoms, "atoms", 2);
}

inline void categorical_project(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), atoms = support(check, 1, 0);
  check.matrix(0, rows, atoms, atoms), check.vector(1, rows), check.matrix(2, rows, atoms, atoms);
  const int64_t reward_rows = repeated(check, 5, "reward_rows", rows),
                discount_rows = repeated(check, 6, "discount_rows", rows),
                cost_rows = repeated(check, 7, "cost_rows", rows);
  check.column(3, reward_rows, check.size(2, "reward_stride"));
  check.column(4, discount_rows, check.size(3, "discount_stride"));
  check.column(5, cost_rows, check.at_least(4, "cost_stride", 0));
}

inline void categorical_target(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), atoms = support(check, 1, 0);
  check.at_most(1, "atoms", GK_ATOMS);
  check.matrix(0, rows, atoms, atoms), check.vector(1, rows);
  check.matrix(2, rows, atoms, check.stride(2, "logits_stride", atoms));
  const int64_t reward_rows = repeated(check, 6, "reward_rows", rows),
                discount_rows = repeated(check, 7, "discount_rows", rows),
                cost_rows = repeated(check, 8, "cost_rows", rows);
  check.column(3, reward_rows, check.size(3, "reward_stride"));
  check.column(4, discount_rows, check.size(4, "discount_stride"));
  check.column(5, cost_rows, check.at_least(5, "cost_stride", 0));
  check.vector(6, 1);
}

inline void categorical_loss(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), atoms = support(check, 1, 2);
  check.matrix(0, rows, atoms, check.stride(2, "d_stride", atoms));
  check.vector(1, doubled(rows));
  check.column(2, rows, check.size(3, "off_stride"));
  check.matrix(3, rows, atoms, check.stride(4, "logits_stride", atoms));
  check.matrix(4, repeated(check, 6, "target_rows", rows), atoms, atoms);
  const int64_t weight_rows = repeated(check, 7, "weight_rows", rows);
  check.column(5, weight_rows, check.at_least(5, "weight_stride", 0));
  check.finite(0, "least"), check.finite(1, "scale");
}

inline void categorical_mean(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), atoms = support(check, 1, 0);
  check.column(0, rows, check.size(2, "mean_stride"));
  check.matrix(1, rows, atoms, check.stride(3, "logits_stride", atoms));
}

inline void categorical_mean_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), atoms = support(check, 1, 0);
  check.matrix(0, rows, atoms, check.stride(2, "d_stride", atoms));
  check.column(1, rows, check.at_least(3, "d_mean_stride", 0));
  check.matrix(2, rows, atoms, check.stride(4, "logits_stride", atoms));
  check.column(3, rows, check.size(5, "mean_stride"));
}

inline void step_end(const KernelArgs&, Check& check) {
  const int64_t scalars = check.size(0, "scalars"), counters = check.size(1, "counters"),
                groups = check.size(2, "groups");
  check.at_most(0, "scalars", 1 << 20), check.at_most(1, "counters", 1 << 20);
  check.at_most(2, "groups", 31);
  check.at_least(3, "due", 0), check.at_most(3, "due", INT32_MAX);
  check.at_least(4, "blocks", 0);
  check.vector(0, scalars), check.vector(1, scalars), check.vector(2, counters);
  check.vector(3, 4), check.vector(4, check.size(5, "size"));
  check.vector(5, scalars * GK_SUM_WORDS + counters * groups);
  check.finite(0, "alpha"), check.finite(1, "beta");
}

inline void count_non_finite(const KernelArgs&, Check& check) {
  const int64_t n = check.size(0, "n"), parts = check.size(1, "parts");
  check.at_most(0, "n", INT32_MAX);
  check.vector(0, doubled(parts)), check.vector(1, n), check.vector(2, parts), check.vector(3, 1);
  check.size(2, "every"), check.at_most(2, "every", INT32_MAX);
}

inline void moments(const KernelArgs&, Check& check) {
  const int64_t columns = check.size(0, "columns");
  for (int i = 0; i < 5; i++) check.vector(i, columns);
  check.items(5, 1, 8), check.size(1, "rows");
  check.at_least(2, "after", 0), check.at_most(2, "after", 1);
  check.at_least(3, "outside", 0), check.at_most(3, "outside", 1);
  check.within(0, "start", 0, 1), check.within(1, "eps", 1e-30, 1);
}

inline void moments_advance(const KernelArgs&, Check& check) {
  check.items(0, 1, 8), check.size(0, "rows");
}

}  // namespace hotslot::needs
