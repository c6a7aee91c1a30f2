/** Ops: calls that check shapes, take strides from the tensors, and launch. */
import type { Stream, Tensor } from '../../device/device.ts';
import { convert } from '../convert.ts';
import { backward, binary, clamp, unary, where } from './elementwise.ts';
import { concat, gather, logSoftmax, matmul, reduce, scatterAdd, softmax } from './rows.ts';

type Floats = Tensor<'float32'>;

/** Of two tensors element by element, or of each row of one. */
function extreme(name: 'min' | 'max') {
  return (stream: Stream, out: Floats, a: Floats, b?: Floats): void => {
    if (b === undefined) reduce[name](stream, out, a);
    else binary[name](stream, out, a, b);
  };
}

/**
 * `ops.name(stream, out, …)`: float32 on the stream's device. Each only launches, so it may be captured. What is said again where
 * shapes differ follows numpy: a row, a column, one number. Throws TypeError for dtypes and strides, RangeError for shapes, naming
 * both sides, before anything is launched.
 */
export const ops = Object.freeze({
  ...unary,
  /** of each unary op f: out = dy · f′(x), as `ops.backward.silu(stream, out, dy, x)` */
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
