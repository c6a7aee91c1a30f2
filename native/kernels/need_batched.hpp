// Argument checks (needs) of the kernels that compute the members of a batch or of an ensemble, for
// the registry. Include this file after the kernels, because it uses their constants.
#pragma once
#include "kernels/need_conv.hpp"
#include "kernels/need_linear.hpp"
#include "kernels/need_ops.hpp"

namespace hotslot::needs {

inline void column_sums_batched(const KernelArgs&, Check& check) {
  const int64_t batch = product_size(check, 0, "batch"), rows = product_size(check, 1, "rows"),
                columns = product_size(check, 2, "columns");
  if (check.verdict()) return;
  runs(check, 0, batch, columns, {5, "out_batch"}, true);
  matrices(check, 1, batch, rows, columns, {3, "x_stride"}, {4, "x_batch"});
  check.finite(0, "scale"), check.finite(1, "beta");
}

inline void bias_act_batched(const KernelArgs&, Check& check) {
  const int64_t batch = product_size(check, 0, "batch"), rows = product_size(check, 1, "rows"),
                columns = product_size(check, 2, "columns");
  if (check.verdict()) return;
  for (int i = 0; i < 2; i++)
    matrices(check, i, batch, rows, columns, {3, "y_stride"}, {5, "y_batch"}, true);
  matrices(check, 2, batch, rows, columns, {4, "x_stride"}, {6, "x_batch"});
  runs(check, 3, batch, columns, {7, "bias_batch"});
  activation(check, 8);
}

// Checks pointers `first` to `first` + 2: a bias, a weight and a shift of each member. Whole
// numbers `at` and `at` + 1 are member_rows and p_batch.
inline void member_parameters(Check& check, int first, int at) {
  const int64_t rows = product_size(check, 0, "rows"), columns = product_size(check, 1, "columns"),
                member_rows = check.size(at, "member_rows");
  if (check.verdict()) return;
  for (int i = first; i < first + 3; i++)
    runs(check, i, (rows - 1) / member_rows + 1, columns, {at + 1, "p_batch"});
}

inline void norm_act_batched(const KernelArgs& args, Check& check) {
  norm_act(args, check);
  member_parameters(check, 3, 5);
}

inline void norm_act_backward_batched(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                three = times(3, columns);
  check.matrix(0, rows, three, check.stride(2, "out_stride", three));
  check.matrix(1, rows, columns, check.stride(3, "dy_stride", columns));
  check.matrix(2, rows, columns, check.stride(4, "x_stride", columns));
  check.vector(3, doubled(rows));
  activation(check, 5);
  member_parameters(check, 4, 6);
}

}  // namespace hotslot::needs
