/** Ops over whole rows: sums and the like, softmax, single elements by index, products, columns side by side. */
import { checkFlag, checkKeys, shown } from '../../checks.ts';
import { checkStream } from '../../device/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { rangeError, typeError } from '../../errors.ts';
import { checkColumn, checkFloats, checkMatrix, rowStride } from '../checks.ts';

type Floats = Tensor<'float32'>;
type Reduction = (stream: Stream, out: Floats, x: Floats) => void;

/** By number in native/kernels/reduce_rows.gk. */
const reductions = { sum: 0, max: 1, min: 2, logSumExp: 3, argmax: 4 } as const;

/** As rows: a vector is one. */
function rowsIn(name: string, tensor: Floats): Floats {
  checkFloats(name, tensor);
  if (tensor.shape.length === 1) {
    const [columns] = tensor.shape as [number];
    return checkMatrix(name, tensor.view({ shape: [1, columns], strides: [columns, ...tensor.strides] }), 1, columns);
  }
  return checkMatrix(name, tensor, undefined, tensor.shape[1] as number);
}

function reduction(name: string, op: number, mean = false): Reduction {
  return (stream, out, x) => {
    checkStream(name, stream);
    const from = rowsIn(`${name}: x`, x);
    const [rows, columns] = from.shape as [number, number];
    const to = checkColumn(`${name}: out`, out, rows);
    if (rows === 0) return;
    if (columns === 0) throw rangeError(`${name}: x has rows of no elements`);
    const wholes = [rows, columns, rowStride(to), rowStride(from), op] as const;
    stream.launch('reduce_rows', { tensors: [to, from], wholes, reals: [mean ? 1 / columns : 1] });
  };
}

/** out [rows] of x [rows, columns]. */
export const reduce = {
  sum: reduction('sum', reductions.sum),
  mean: reduction('mean', reductions.sum, true),
  max: reduction('max', reductions.max),
  min: reduction('min', reductions.min),
  logSumExp: reduction('logSumExp', reductions.logSumExp),
  /** the first of equals, as a float: what gather() and scatterAdd() take */
  argmax: reduction('argmax', reductions.argmax),
} as const;

const soft =
  (name: string, logarithm: 0 | 1) =>
  (stream: Stream, out: Floats, x: Floats): void => {
    checkStream(name, stream);
    const from = rowsIn(`${name}: x`, x);
    const to = rowsIn(`${name}: out`, out);
    const [rows, columns] = from.shape as [number, number];
    checkMatrix(`${name}: out`, to, rows, columns);
    if (from.size === 0) return;
    const wholes = [rows, columns, rowStride(to), rowStride(from), logarithm] as const;
    stream.launch('softmax_rows', { tensors: [to, from], wholes });
  };

/** out = softmax of each row of x; out may be x. */
export const softmax = soft('softmax', 0);
/** Its logarithm, made without it. */
export const logSoftmax = soft('logSoftmax', 1);

/** out[i] = x[i, index[i]]; NaN where the index is outside the row. `out` is contiguous. */
export function gather(stream: Stream, out: Floats, x: Floats, index: Floats): void {
  checkStream('gather', stream);
  const from = rowsIn('gather: x', x);
  const [rows, columns] = from.shape as [number, number];
  const [to, at] = [checkColumn('gather: out', out, rows), checkColumn('gather: index', index, rows)];
  if (rows > 1 && rowStride(to) !== 1) throw typeError(`gather: out must be contiguous, got strides [${out.strides}]`);
  if (rows === 0) return;
  const wholes = [rows, columns, rowStride(from), rowStride(at)] as const;
  stream.launch('gather_columns', { tensors: [to, from, at], wholes });
}

/** out[i, index[i]] += x[i]; an index outside the row adds nothing. */
export function scatterAdd(stream: Stream, out: Floats, x: Floats, index: Floats): void {
  checkStream('scatterAdd', stream);
  const to = rowsIn('scatterAdd: out', out);
  const [rows, columns] = to.shape as [number, number];
  const [from, at] = [checkColumn('scatterAdd: x', x, rows), checkColumn('scatterAdd: index', index, rows)];
  if (rows === 0) return;
  const wholes = [rows, columns, rowStride(to), rowStride(from), rowStride(at)] as const;
  stream.launch('scatter_columns', { tensors: [to, from, at], wholes });
}

export interface MatmulOptions {
  /** a is stored as [k, m]; default false */
  transA?: boolean;
  /** b is stored as [n, k]; default false */
  transB?: boolean;
  /** factor of the product; default 1 */
  alpha?: number;
  /** factor of what out holds; 0, the default, does not read it */
  beta?: number;
}

/** out [m, n] = alpha · op(a) [m, k] · op(b) [k, n] + beta · out. */
export function matmul(stream: Stream, out: Floats, a: Floats, b: Floats, options: MatmulOptions = {}): void {
  checkStream('matmul', stream);
  checkKeys('matmul', options, ['transA', 'transB', 'alpha', 'beta']);
  const { transA = false, transB = false, alpha = 1, beta = 0 } = options;
  for (const [name, value] of Object.entries({ transA, transB })) checkFlag(`matmul: ${name}`, value);
  for (const [name, value] of Object.entries({ alpha, beta }))
    if (typeof value !== 'number') throw typeError(`matmul: ${name} must be a number, got ${shown(value)}`);
  const [c, left, right] = [rowsIn('matmul: out', out), rowsIn('matmul: a', a), rowsIn('matmul: b', b)];
  const [m, n] = c.shape as [number, number];
  const [rows, inner] = turned(left, transA);
  const [depth, columns] = turned(right, transB);
  if (rows !== m || columns !== n || inner !== depth) {
    const of = (tensor: Floats, trans: boolean) => `${tensor.shape.join('×')}${trans ? ' transposed' : ''}`;
    throw rangeError(`matmul: ${of(a, transA)} by ${of(b, transB)} does not make ${out.shape.join('×')}`);
  }
  if (c.size === 0) return;
  stream.launch('gemm', {
    tensors: [c, left, right],
    wholes: [transA ? 1 : 0, transB ? 1 : 0, m, n, inner, rowStride(left), rowStride(right), rowStride(c)],
    reals: [alpha, beta],
  });
}

const turned = ({ shape }: Floats, trans: boolean): [number, number] => {
  const [rows, columns] = shape as [number, number];
  return trans ? [columns, rows] : [rows, columns];
};

/** out [rows, n1 + n2 + …] = the columns of each part, side by side. */
export function concat(stream: Stream, out: Floats, parts: readonly Floats[]): void {
  checkStream('concat', stream);
  if (!Array.isArray(parts)) throw typeError(`concat: parts must be an array of tensors, got ${shown(parts)}`);
  const to = rowsIn('concat: out', out);
  const [rows, columns] = to.shape as [number, number];
  const from = parts.map((part: Floats, i) => rowsIn(`concat: parts[${i}]`, part));
  const width = from.reduce((sum, { shape }) => sum + (shape[1] as number), 0);
  if (width !== columns || from.some(({ shape }) => shape[0] !== rows))
    throw rangeError(
      `concat: ${from.map(({ shape }) => shape.join('×')).join(' and ')} do not make ${rows}×${columns}`,
    );
  let at = 0;
  for (const part of from) {
    const n = part.shape[1] as number;
    const place = to.view({ shape: [rows, n], offset: at, strides: [rowStride(to), 1] });
    at += n;
    if (part.size > 0)
      stream.launch('copy2d', { tensors: [place, part], wholes: [rows, n, rowStride(to), rowStride(part)] });
  }
}
