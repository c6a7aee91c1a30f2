// Argument checks (needs) of the ops' kernels, for the registry. Include this file after the
// kernels, because it uses their constants.
#pragma once
#include "kernels/need.hpp"

namespace hotslot::needs {

// Returns 2n, or the largest number if 2n overflows.
inline int64_t doubled(int64_t n) { return n <= INT64_MAX / 2 ? 2 * n : INT64_MAX; }

// Checks the rows of y (pointer 0) and of x (pointer 1).
inline void rows_of_two(Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  check.matrix(1, rows, columns, check.stride(3, "x_stride", columns));
}

// Checks a pointer's two strides. Whole number i is the distance from one row to the next, and
// whole number i + 1 from one column to the next. A stride of 0 repeats the same element.
inline void steps(Check& check, int pointer, int64_t rows, int64_t columns, int i, const char* row,
                  const char* step) {
  check.at_least(i + 1, step, 0), check.at_most(i + 1, step, 1);
  const int64_t width = check.whole(i + 1) == 0 ? 1 : columns;
  check.matrix(pointer, rows, width,
               check.whole(i) == 0 ? check.at_least(i, row, 0) : check.stride(i, row, width));
}

inline void unary(const KernelArgs&, Check& check) {
  rows_of_two(check);
  check.at_least(4, "op", 0), check.at_most(4, "op", GK_UNARY_LAST);
}

inline void unary_backward(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"dx_stride", "dy_stride", "x_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  for (int i = 0; i < 3; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  check.at_least(5, "op", 0), check.at_most(5, "op", GK_UNARY_LAST);
}

inline void binary(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  steps(check, 1, rows, columns, 3, "a_row", "a_step"),
      steps(check, 2, rows, columns, 5, "b_row", "b_step");
  check.at_least(7, "op", 0), check.at_most(7, "op", GK_BINARY_LAST);
}

inline void where(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  steps(check, 1, rows, columns, 3, "condition_row", "condition_step");
  steps(check, 2, rows, columns, 5, "a_row", "a_step"),
      steps(check, 3, rows, columns, 7, "b_row", "b_step");
}

inline void limits(const KernelArgs& args, Check& check) {
  if (!(args.real[0] <= args.real[1]))
    check.say("low must not be above high, got %g and %g", args.real[0], args.real[1]);
}

inline void clip(const KernelArgs& args, Check& check) {
  rows_of_two(check);
  limits(args, check);
}

inline void binary_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "dx_stride", columns));
  steps(check, 1, rows, columns, 3, "dy_row", "dy_step");
  steps(check, 2, rows, columns, 5, "a_row", "a_step"),
      steps(check, 3, rows, columns, 7, "b_row", "b_step");
  check.at_least(9, "op", GK_SLOPE_MIN), check.at_most(9, "op", GK_SLOPE_HUBER);
}

inline void clip_backward(const KernelArgs& args, Check& check) {
  static const char* const strides[] = {"dx_stride", "dy_stride", "x_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  for (int i = 0; i < 3; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  limits(args, check);
}

// Checks a chain. An output with a stride of 0 is unused, and an input with a stride below 0 has
// one element in each row. The program is not read here. The kernel reads only these tensors,
// whatever the program contains.
inline void chain(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"y0_stride", "y1_stride", "y2_stride", "y3_stride",
                                        "x0_stride", "x1_stride", "x2_stride", "x3_stride",
                                        "x4_stride", "x5_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  for (int i = 0; i < GK_CHAIN_OUTPUTS + GK_CHAIN_INPUTS; i++) {
    const bool output = i < GK_CHAIN_OUTPUTS;
    const int64_t stride = check.whole(2 + i);
    if (!output && stride < 0)
      check.at_least(2 + i, strides[i], INT64_MIN), check.matrix(i, rows, 1, -1 - stride);
    else if (i > 0 && stride == 0)
      check.at_least(2 + i, strides[i], 0), check.matrix(i, output ? 0 : rows, columns, 0);
    else
      check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  }
  check.vector(GK_CHAIN_OUTPUTS + GK_CHAIN_INPUTS, GK_CHAIN_WORDS);
}

inline void reduce_rows(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.at_most(1, "columns", INT32_MAX);
  check.size(1, "columns");
  check.column(0, rows, check.size(2, "out_stride"));
  check.matrix(1, rows, columns, check.stride(3, "x_stride", columns));
  check.at_least(4, "op", GK_ROW_SUM), check.at_most(4, "op", GK_ROW_ARGMIN);
  check.finite(0, "scale");
}

inline void sum_long(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), pieces = check.size(1, "pieces"),
                piece = check.size(2, "piece");
  check.at_most(1, "pieces", GK_PIECES), check.at_most(2, "piece", INT32_MAX);
  check.column(0, rows, check.size(3, "out_stride"));
  check.matrix(1, rows, times(pieces, piece), check.stride(4, "x_stride", times(pieces, piece)));
  check.finite(0, "scale");
}

// Checks a sum and its program. The kernel reads only these tensors, whatever the program contains.
inline void sum_chain(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(1, "rows"), columns = check.size(2, "columns");
  check.at_least(0, "kind", GK_SUM_COLUMN), check.at_most(0, "kind", GK_SUM_ROWS);
  check.at_most(1, "rows", INT32_MAX), check.at_most(2, "columns", INT32_MAX);
  check.at_least(3, "outputs", 1), check.at_most(3, "outputs", GK_CHAIN_OUTPUTS);
  for (int i = 0; i < GK_CHAIN_OUTPUTS; i++) check.vector(i, i < check.whole(3) ? 1 : 0);
  const int at = GK_CHAIN_OUTPUTS;
  if (check.whole(0) == GK_SUM_COLUMN)
    check.column(at, rows, columns);
  else
    check.matrix(at, rows, columns, columns);
  for (int i = 1; i < GK_CHAIN_INPUTS; i++) check.vector(at + i, 1);
  check.vector(at + GK_CHAIN_INPUTS, GK_CHAIN_WORDS);
  check.finite(0, "factor");
}

inline void layer_norm(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  check.vector(1, doubled(rows));
  check.matrix(2, rows, columns, check.stride(3, "x_stride", columns));
  check.vector(3, columns), check.vector(4, columns);
  check.within(0, "eps", 1e-30, 1);
}

inline void layer_norm_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  check.matrix(0, rows, columns, check.stride(2, "dx_stride", columns));
  check.matrix(1, rows, columns, check.stride(3, "terms_stride", columns));
  check.matrix(2, rows, columns, check.stride(4, "dy_stride", columns));
  check.matrix(3, rows, columns, check.stride(5, "x_stride", columns));
  check.vector(4, doubled(rows)), check.vector(5, columns);
}

inline void norm_act(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  check.vector(1, doubled(rows));
  check.matrix(2, rows, columns, check.stride(3, "x_stride", columns));
  for (int i = 3; i < 6; i++) check.vector(i, columns);
  check.at_least(4, "op", GK_NO_UNARY), check.at_most(4, "op", GK_UNARY_LAST);
  check.within(0, "eps", 1e-30, 1);
}

inline void norm_act_backward(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"dx_stride", "terms_stride", "dy_stride", "x_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  for (int i = 0; i < 4; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  check.vector(4, doubled(rows));
  for (int i = 5; i < 8; i++) check.vector(i, columns);
  check.at_least(6, "op", GK_NO_UNARY), check.at_most(6, "op", GK_UNARY_LAST);
}

inline void softmax_rows(const KernelArgs&, Check& check) {
  rows_of_two(check);
  check.at_most(1, "columns", INT32_MAX);
  check.at_least(4, "logarithm", 0), check.at_most(4, "logarithm", 1);
}

inline void softmax_rows_backward(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"dx_stride", "dy_stride", "y_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  for (int i = 0; i < 3; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  check.at_least(5, "logarithm", 0), check.at_most(5, "logarithm", 1);
}

inline void scatter_columns(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "out_stride", columns));
  check.column(1, rows, check.size(3, "x_stride"));
  check.column(2, rows, check.size(4, "index_stride"));
}

}  // namespace hotslot::needs
