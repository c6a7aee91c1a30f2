/** Ops on tensors. Each op checks shapes, reads the tensors' strides, and launches kernels. */
import type { Stream, Tensor } from '../../device/device.ts';
import { convert } from '../convert.ts';
import { backward, binary, clamp, type Operand, unary, where } from './elementwise.ts';
import { concat, gather, logSoftmax, matmul, reduce, scatterAdd, softmax } from './rows.ts';

type Floats = Tensor<'float32'>;

/**
 * Signature of min and max. With two operands they compare element by element, and with one tensor
 * they reduce each row.
 */
interface Extreme {
  (stream: Stream, out: Floats, x: Floats): void;
  (stream: Stream, out: Floats, a: Operand, b: Operand): void;
}

const extreme =
  (name: 'min' | 'max'): Extreme =>
  (stream: Stream, out: Floats, a: Operand, b?: Operand): void => {
    if (b === undefined) reduce[name](stream, out, a as Floats);
    else binary[name](stream, out, a, b);
  };

/**
 * Enqueues an operation on float32 tensors: `ops.name(stream, out, …)`. It only launches kernels,
 * so a graph can capture it. Shapes broadcast as in numpy, and a number may replace an operand that
 * broadcasts. `out` may be an input with the same layout, except in matmul and concat.
 * docs/reference/networks-and-ops.md lists the ops with their shapes.
 *
 * An op checks its arguments before it launches. It throws TypeError for other dtypes, and
 * RangeError for shapes that do not fit. The error names both shapes. An op also throws RangeError
 * if it would need more than 4,096 launches.
 * @example
 * ops.mul(stream, y, x, row);
 * ops.tanh(stream, y, y);
 * ops.backward.tanh(stream, dx, dy, x);
 * ops.matmul(stream, product, x, weight, { transB: true });
 */
export const ops = Object.freeze({
  ...unary,
  /**
   * backward pass of each unary op f: out = dy · f′(x), such as
   * `ops.backward.silu(stream, out, dy, x)`
   */
  backward: Object.freeze(backward),
  ...binary,
  min: extreme('min'),
  max: extreme('max'),
  where,
  clamp,
  convert,
  sum: reduce.sum,
  mean: reduce.mean,
  logSumExp: reduce.logSumExp,
  argmax: reduce.argmax,
  argmin: reduce.argmin,
  softmax,
  logSoftmax,
  gather,
  scatterAdd,
  matmul,
  concat,
});
