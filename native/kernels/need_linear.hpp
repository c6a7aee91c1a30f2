// Argument checks (needs) of the kernels of a linear layer, for the registry. Include this file
// after the kernels, because it uses their constants.
#pragma once
#include "kernels/gemm.hpp"
#include "kernels/need.hpp"

namespace hotslot::needs {

// Returns whole number i, a size of a product.
inline int64_t product_size(Check& check, int i, const char* name) {
  check.at_most(i, name, INT32_MAX);
  return check.size(i, name);
}
// Returns whole number i, the distance between rows of `width` elements.
inline int64_t product_stride(Check& check, int i, const char* name, int64_t width) {
  check.at_most(i, name, INT32_MAX);
  return check.stride(i, name, width);
}

// Returns whole number i, the distance between members of `elements` elements. Members that the
// kernel writes must not overlap.
inline int64_t member_distance(Check& check, int i, const char* name, int64_t batch,
                               int64_t elements, bool written) {
  const int64_t apart = check.at_least(i, name, 0);
  if (written && batch > 1 && apart < elements)
    check.say("%s must be at least the %lld elements of a member, got %lld", name,
              (long long)elements, (long long)apart);
  return apart;
}

// Sets that pointer `pointer` covers a matrix [rows, columns] of each member. `stride` is the whole
// number with the distance between rows, and `apart` the one with the distance between members. If
// the rows of all members have the same distance, they are the rows of one matrix. Else the members
// are one run of elements.
struct Named {
  int at;
  const char* name;
};
inline void matrices(Check& check, int pointer, int64_t batch, int64_t rows, int64_t columns,
                     Named stride, Named apart, bool written = false) {
  const int64_t step = product_stride(check, stride.at, stride.name, columns);
  check.matrix(pointer, rows, columns, step);
  if (check.verdict()) return;
  const int64_t member =
      member_distance(check, apart.at, apart.name, batch, (rows - 1) * step + columns, written);
  if (batch == 1 || member == 0 || check.verdict()) return;
  if (member == rows * step) {
    product_stride(check, stride.at, stride.name, columns);
    return check.matrix(pointer, batch * rows, columns, step);
  }
  check.members(pointer, batch, member, rows, columns, step);
}

// Sets that pointer `pointer` covers `count` adjacent elements of each member, such as parameters.
inline void runs(Check& check, int pointer, int64_t batch, int64_t count, Named apart,
                 bool written = false) {
  check.vector(pointer, count);
  if (check.verdict()) return;
  const int64_t member = member_distance(check, apart.at, apart.name, batch, count, written);
  if (batch == 1 || member == 0 || check.verdict()) return;
  if (member > count) return check.matrix(pointer, batch, count, member);
  const int64_t sizes[] = {batch, count}, steps[] = {member, 1};
  check.dimensions(pointer, 2, sizes, steps);
}

// Sets the reach of the two places of X [rows, inputs]: pointers `first` and first + 1. `at` is the
// whole number `split`, and `strides` is x_stride, before x2_stride. The second place is not read
// if all of X is in the first.
inline void two_places(Check& check, int first, int64_t batch, int64_t rows, int64_t inputs, int at,
                       int strides, Named apart) {
  if (check.verdict()) return;
  const int64_t split = check.whole(at);
  if (split == 0 || split > inputs || split <= -rows)
    check.say("split must be 1 to the %lld inputs, or -1 to -(rows - 1) = %lld, got %lld",
              (long long)inputs, (long long)(1 - rows), (long long)split);
  if (check.verdict()) return;
  const Named x = {strides, "x_stride"}, x2 = {strides + 1, "x2_stride"};
  matrices(check, first, batch, split < 0 ? -split : rows, split < 0 ? inputs : split, x, apart);
  check.vector(first + 1, 0);
  if (split == inputs || check.verdict()) return;
  matrices(check, first + 1, batch, split < 0 ? rows + split : rows,
           split < 0 ? inputs : inputs - split, x2, apart);
}

inline void activation(Check& check, int i) {
  check.at_least(i, "op", GK_NO_UNARY), check.at_most(i, "op", GK_UNARY_LAST);
}

inline void linear_act(const KernelArgs&, Check& check) {
  gemm_provider();  // opens the BLAS before the stream runs
  const int64_t batch = product_size(check, 0, "batch"), rows = product_size(check, 1, "rows"),
                outputs = product_size(check, 2, "outputs"),
                inputs = product_size(check, 3, "inputs");
  if (check.verdict()) return;
  for (int i = 0; i < 2; i++)
    matrices(check, i, batch, rows, outputs, {5, "y_stride"}, {8, "y_batch"}, true);
  two_places(check, 2, batch, rows, inputs, 4, 6, {9, "x_batch"});
  runs(check, 4, batch, outputs * inputs, {10, "p_batch"});
  runs(check, 5, batch, outputs, {10, "p_batch"});
  activation(check, 11);
}

inline void linear_backward(const KernelArgs&, Check& check) {
  gemm_provider();
  const int64_t batch = product_size(check, 0, "batch"), rows = product_size(check, 1, "rows"),
                inputs = product_size(check, 2, "inputs"),
                outputs = product_size(check, 3, "outputs"), op = check.whole(11);
  activation(check, 11);
  if (check.verdict()) return;
  const bool sum = check.whole(7) == 0;
  if (sum && batch > 1 && op != GK_NO_UNARY)
    check.say("op must be -1 if dx_batch is 0, got %lld", (long long)op);
  runs(check, 0, sum ? 1 : batch, rows * inputs, {7, "dx_batch"}, true);
  matrices(check, 1, batch, rows, outputs, {5, "dy_stride"}, {8, "dy_batch"});
  matrices(check, 2, batch, outputs, inputs, {4, "w_stride"}, {9, "p_batch"});
  // Without an activation, y is not read.
  check.vector(3, 0);
  if (op != GK_NO_UNARY) matrices(check, 3, batch, rows, inputs, {6, "y_stride"}, {10, "y_batch"});
}

inline void linear_gradients(const KernelArgs&, Check& check) {
  gemm_provider();
  const int64_t batch = product_size(check, 0, "batch"),
                outputs = product_size(check, 1, "outputs"),
                inputs = product_size(check, 2, "inputs"), rows = product_size(check, 3, "rows");
  if (check.verdict()) return;
  runs(check, 0, batch, outputs * inputs, {10, "p_batch"}, true);
  runs(check, 1, batch, outputs, {10, "p_batch"}, true);
  matrices(check, 2, batch, rows, outputs, {5, "dy_stride"}, {8, "dy_batch"});
  two_places(check, 3, batch, rows, inputs, 4, 6, {9, "x_batch"});
}

// Numbers of tiles.
inline uint64_t linear_act_tiles(const int64_t* wholes) {
  return product_tiles(wholes[0], wholes[1], wholes[2]);
}
inline uint64_t linear_backward_tiles(const int64_t* wholes) {
  return product_tiles(wholes[7] == 0 ? 1 : wholes[0], wholes[1], wholes[2]);
}
inline uint64_t linear_gradients_tiles(const int64_t* wholes) {
  return product_tiles(wholes[0], wholes[1], wholes[2] + 1);
}

}  // namespace hotslot::needs
