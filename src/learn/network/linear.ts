/** Launches of a linear layer that runs by itself. Plans of traces have launches of their own. */
import type { Stream, Tensor } from '../../device/device.ts';
import { productRulesOf } from '../../device/products.ts';
import { rowStride } from '../checks.ts';
import { activationOf, slopeReadsInput } from '../ops/elementwise.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

/**
 * Enqueues y = f(x · weightᵀ + bias).
 *
 * @param y output, [rows, outputs]
 * @param z output, the input of f, [rows, outputs] with the strides of y, or y itself if it is not
 *   needed
 * @param op number of f in native/kernels/unary.gk, or −1 for none
 */
export function linearForward(
  stream: Stream,
  [y, z]: readonly [Floats, Floats],
  x: Floats,
  [weight, bias]: readonly [Floats, Floats],
  op: number,
): void {
  const [rows, outputs] = y.shape as [number, number];
  const [, inputs] = weight.shape as [number, number];
  const stride = rowStride(y);
  const apart = productRulesOf(stream.device).apart({ batch: 1, m: rows, n: outputs, k: inputs });
  if (apart === null) {
    const from = rowStride(x);
    stream.launch('linear_act', {
      tensors: [y, z, x, x, weight, bias],
      wholes: [1, rows, outputs, inputs, inputs, stride, from, from, 0, 0, 0, op],
    });
    return;
  }
  ops.matmul(stream, y, x, weight, { transB: true });
  stream.launch('bias_act_batched', {
    tensors: [y, z, y, bias],
    wholes: [1, rows, outputs, stride, stride, 0, 0, 0, op],
  });
}

/** Enqueues dy = dy · f′, from the output y of f or from its input z. */
export function activationBackward(
  stream: Stream,
  dy: Floats,
  { y, z }: { y: Floats; z: Floats },
  op: number,
): void {
  if (op < 0) return;
  const [rows, columns] = dy.shape as [number, number];
  const [above, byInput] = [rowStride(dy), slopeReadsInput(op)];
  const from = byInput ? z : y;
  const strides = [rows, columns, above, above, rowStride(from)] as const;
  if (byInput)
    stream.launch('unary_backward', { tensors: [dy, dy, from], wholes: [...strides, op] });
  else
    stream.launch('act_backward', {
      tensors: [dy, dy, from],
      wholes: [...strides, activationOf(op)],
    });
}

/** Enqueues the gradients of weight and bias from the gradient d at the matrix product. */
export function linearGradients(
  stream: Stream,
  [weight, bias]: readonly [Floats, Floats],
  d: Floats,
  x: Floats,
): void {
  const [outputs, inputs] = weight.shape as [number, number];
  const [rows] = d.shape as [number];
  const apart = productRulesOf(stream.device).apart({ batch: 1, m: outputs, n: inputs, k: rows });
  if (apart === null) {
    const from = rowStride(x);
    stream.launch('linear_gradients', {
      tensors: [weight, bias, d, x, x],
      wholes: [1, outputs, inputs, rows, inputs, rowStride(d), from, from, 0, 0, 0],
    });
    return;
  }
  sumColumns(stream, bias, d);
  ops.matmul(stream, weight, d, x, { transA: true });
}

/** Enqueues out[j] = the sum of column j of x. */
export function sumColumns(stream: Stream, out: Floats, x: Floats): void {
  const [rows, columns] = x.shape as [number, number];
  stream.launch('column_sums', {
    tensors: [out, x],
    wholes: [rows, columns, rowStride(x)],
    reals: [1, 0],
  });
}
