// Host forms of the kernels of a linear layer: `linear_act`, `linear_backward` and
// `linear_gradients`. The host's product multiplies, and the loops of other kernels do the rest. So
// the bits are those of these kernels one after the other. Include this file after the kernels.
#pragma once
#include "kernels/gemm.hpp"

namespace hotslot::linear {

// The part of the input X that one place has: its rows and columns, and where they begin in X.
struct Part {
  const float* at;
  int64_t stride, rows, columns, row, column;
};

// Calls `use` with each part of X [rows, inputs], in order.
template <class F>
void each_part(const float* x, const float* x2, int64_t x_stride, int64_t x2_stride, int64_t rows,
               int64_t inputs, int64_t split, const F& use) {
  if (split == inputs) return use(Part{x, x_stride, rows, inputs, 0, 0});
  if (split > 0) {
    use(Part{x, x_stride, rows, split, 0, 0});
    use(Part{x2, x2_stride, rows, inputs - split, 0, split});
  } else {
    use(Part{x, x_stride, -split, inputs, 0, 0});
    use(Part{x2, x2_stride, rows + split, inputs, -split, 0});
  }
}

inline void linear_act(float* y, float* z, const float* x, const float* x2, const float* weight,
                       const float* bias, int64_t batch, int64_t rows, int64_t outputs,
                       int64_t inputs, int64_t split, int64_t y_stride, int64_t x_stride,
                       int64_t x2_stride, int64_t y_batch, int64_t x_batch, int64_t p_batch,
                       int64_t op) {
  // Without z, one loop adds the bias and applies relu or tanh. The built-in product does it for
  // relu, and adds a bias that no tanh follows.
  const int64_t act = z != y          ? GK_ACT_NONE
                      : op == GK_RELU ? GK_ACT_RELU
                      : op == GK_TANH ? GK_ACT_TANH
                                      : GK_ACT_NONE;
  for (int64_t p = 0; p < batch; p++) {
    float *const out = y + p * y_batch, *const sums = z + p * y_batch;
    const float *const w = weight + p * p_batch, *const b = bias + p * p_batch;
    bool finished = false;
    each_part(x + p * x_batch, x2 + p * x_batch, x_stride, x2_stride, rows, inputs, split,
              [&](const Part& part) {
                const bool last = part.column + part.columns == inputs;
                Finish finish;
                if (last && act != GK_ACT_TANH) finish = {b, act == GK_ACT_RELU};
                finished = host_gemm_finished(sums + part.row * y_stride, part.at, w + part.column,
                                              0, 1, part.rows, outputs, part.columns, part.stride,
                                              inputs, y_stride, part.column > 0 ? 1 : 0, finish) &&
                           act != GK_ACT_TANH;
              });
    if (!finished) host::bias_act(sums, sums, b, rows, outputs, y_stride, y_stride, act);
    if (op >= 0 && act == GK_ACT_NONE)
      host::unary(out, sums, rows, outputs, y_stride, y_stride, op);
    else if (z != y)
      host::copy2d(out, sums, rows, outputs, y_stride, y_stride);
  }
}

inline void linear_backward(float* dx, const float* dy, const float* weight, const float* y,
                            int64_t batch, int64_t rows, int64_t inputs, int64_t outputs,
                            int64_t w_stride, int64_t dy_stride, int64_t y_stride, int64_t dx_batch,
                            int64_t dy_batch, int64_t p_batch, int64_t y_batch, int64_t op) {
  for (int64_t p = 0; p < batch; p++) {
    float* const out = dx + p * dx_batch;
    const float* const from = y + p * y_batch;
    Finish finish;
    if (op == GK_RELU) finish.y = from, finish.y_stride = y_stride;
    const bool finished =
        host_gemm_finished(out, dy + p * dy_batch, weight + p * p_batch, 0, 0, rows, inputs,
                           outputs, dy_stride, w_stride, inputs, p > 0 && dx_batch == 0, finish);
    if (op == GK_RELU && finished) continue;
    if (op == GK_RELU || op == GK_TANH)
      host::act_backward(out, out, from, rows, inputs, inputs, inputs, y_stride,
                         op == GK_RELU ? GK_ACT_RELU : GK_ACT_TANH);
    else if (op >= 0)
      host::unary_backward(out, out, from, rows, inputs, inputs, inputs, y_stride, op);
  }
}

inline void linear_gradients(float* dw, float* db, const float* dy, const float* x, const float* x2,
                             int64_t batch, int64_t outputs, int64_t inputs, int64_t rows,
                             int64_t split, int64_t dy_stride, int64_t x_stride, int64_t x2_stride,
                             int64_t dy_batch, int64_t x_batch, int64_t p_batch) {
  for (int64_t p = 0; p < batch; p++) {
    const float* const from = dy + p * dy_batch;
    // The sums come first, because dy is in the cache if it was just computed.
    host::column_sums(db + p * p_batch, from, rows, outputs, dy_stride, 1, 0);
    each_part(x + p * x_batch, x2 + p * x_batch, x_stride, x2_stride, rows, inputs, split,
              [&](const Part& part) {
                host_gemm(dw + p * p_batch + part.column, from + part.row * dy_stride, part.at, 1,
                          0, outputs, part.columns, part.rows, dy_stride, part.stride, inputs, 1,
                          part.row > 0 ? 1 : 0);
              });
  }
}

}  // namespace hotslot::linear
