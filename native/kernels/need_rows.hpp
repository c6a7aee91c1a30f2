// Argument checks (needs) of the kernels that copy, select, sort and draw, for the registry.
// Include this file after the kernels, because it uses their constants.
#pragma once
#include <utility>

#include "kernels/need.hpp"
#include "kernels/need_conv.hpp"
#include "kernels/need_ops.hpp"

namespace hotslot::needs {

// Returns a + b for numbers that are not negative, or the largest number if a + b overflows.
inline int64_t plus(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

// Checks that no two indices of a tensor meet in one element. In ascending order, each stride must
// be at least the reach of the dimensions with smaller strides.
inline void apart(Check& check, const int64_t* sizes, const int64_t* strides,
                  const char* const* names) {
  int order[4] = {0, 1, 2, 3};
  for (int end = 3; end > 0; end--)
    for (int i = 0; i < end; i++)
      if (strides[order[i]] > strides[order[i + 1]]) std::swap(order[i], order[i + 1]);
  int64_t reach = 1;
  for (const int d : order) {
    if (sizes[d] <= 1) continue;
    if (strides[d] < reach)
      check.say(
          "%s must be at least %lld, the reach of the dimensions of smaller strides, got %lld",
          names[d], (long long)reach, (long long)strides[d]);
    reach = plus(reach, times(sizes[d] - 1, strides[d]));
  }
}

inline void copy4d(const KernelArgs& args, Check& check) {
  static const char* const sizes[] = {"n0", "n1", "n2", "n3"};
  static const char* const strides[] = {"y0", "y1", "y2", "y3"};
  for (int d = 0; d < 4; d++) check.size(d, sizes[d]);
  for (int d = 0; d < 4; d++) check.at_least(4 + d, strides[d], 0);
  apart(check, args.whole, args.whole + 4, strides);
  check.dimensions(0, 4, args.whole, args.whole + 4);
  check.dimensions(1, 4, args.whole, args.whole + 8);
  check.finite(0, "beta");
}

inline void take_rows(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                table_rows = check.size(2, "table_rows"), apart = check.at_least(6, "apart", 0);
  check.matrix(0, rows, columns, check.stride(3, "out_stride", columns));
  check.matrix(1, plus(times(rows - 1, apart), table_rows), columns,
               check.stride(4, "table_stride", columns));
  check.column(2, rows, check.size(5, "index_stride"));
}

inline void take_rows_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                table_rows = check.size(2, "table_rows");
  check.matrix(0, table_rows, columns, check.stride(3, "d_table_stride", columns));
  check.matrix(1, rows, columns, check.stride(4, "dy_stride", columns));
  check.column(2, rows, check.size(5, "index_stride"));
  check.finite(0, "beta");
}

inline void pick_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), n = check.size(1, "n"),
                inner = check.size(2, "inner"), width = times(n, inner);
  check.matrix(0, rows, width, check.stride(3, "dx_stride", width));
  check.matrix(1, rows, inner,
               check.whole(4) == 0 ? check.at_least(4, "dy_stride", 0)
                                   : check.stride(4, "dy_stride", inner));
  check.column(2, rows, check.size(5, "index_stride"));
  check.finite(0, "beta");
}

inline void cumsum(const KernelArgs&, Check& check) {
  const int64_t outer = check.size(0, "outer"), n = check.size(1, "n"),
                inner = check.size(2, "inner"), all = times(times(outer, n), inner);
  check.vector(0, all), check.vector(1, all);
  check.at_least(3, "reverse", 0), check.at_most(3, "reverse", 1);
}

inline void rank_rows(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", GK_RANK_COLUMNS);
  check.matrix(0, rows, columns, check.stride(2, "ranks_stride", columns));
  check.matrix(1, rows, columns, check.stride(3, "x_stride", columns));
}

inline void scatter_along_rows(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"y_stride", "x_stride", "index_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  for (int i = 0; i < 3; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
}

inline void gather_along_rows(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                n = check.size(2, "n");
  check.matrix(0, rows, columns, check.stride(3, "y_stride", columns));
  check.matrix(1, rows, n, check.stride(4, "x_stride", n));
  check.matrix(2, rows, columns, check.stride(5, "index_stride", columns));
}

inline void categorical_draw(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.vector(0, rows);
  check.matrix(1, rows, columns, check.stride(2, "logits_stride", columns));
  check.vector(2, rows);
}

// The words are uint32. A tensor of another type has no bits to unpack.
inline void unpack_bits(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                words = (columns - 1) / 32 + 1;
  check.matrix(0, rows, columns, check.stride(2, "out_stride", columns));
  check.matrix(1, rows, words, check.stride(3, "words_stride", words), &element_types[GK_UINT32]);
}

}  // namespace hotslot::needs
