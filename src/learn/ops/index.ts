/** Ops: calls that check shapes, read strides from the tensors, and launch. */
import type { Stream, Tensor } from '../../device/device.ts';
import { convert } from '../convert.ts';
import { backward, binary, clamp, type Operand, unary, where } from './elementwise.ts';
import { concat, gather, logSoftmax, matmul, reduce, scatterAdd, softmax } from './rows.ts';

type Floats = Tensor<'float32'>;

/** The minimum or maximum of two operands element by element, or of each row of one tensor. */
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
 * Enqueues an operation on float32 tensors: `ops.name(stream, out, …)`. It only launches, so it may
 * be captured. Shapes broadcast as in numpy, and a number may replace an operand that broadcasts.
 * `out` may be an input with the same layout, except in matmul and concat.
 * docs/reference/networks-and-ops.md lists the ops with their shapes.
 *
 * An op checks before it launches. It throws TypeError for dtypes, and RangeError for shapes that
 * do not fit, naming both. It throws RangeError also if it would need more than 4,096 launches.
 * @example
 * ops.mul(stream, y, x, row);
 * ops.tanh(stream, y, y);
 * ops.backward.tanh(stream, dx, dy, x);
 * ops.matmul(stream, product, x, weight, { transB: true });
 */
export const ops = Object.freeze({
  ...unary,
  /** for each unary op f: out = dy · f′(x), as `ops.backward.silu(stream, out, dy, x)` */
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
  softmax,
  logSoftmax,
  gather,
  scatterAdd,
  matmul,
  concat,
});
