/** Ops: calls that check shapes, take strides from the tensors, and launch. */
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
 * `ops.name(stream, out, …)`: float32 on the stream's device. Each only enqueues, so it may be
 * captured. Shapes broadcast as in numpy, and a number may stand for an operand that broadcasts.
 * Throws TypeError for dtypes, RangeError for shapes, naming the two that do not fit, before
 * anything is launched.
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
