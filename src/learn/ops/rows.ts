/** Ops on whole rows: reductions, softmax, gather, scatter, matrix products and concatenation. */
import { checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkStream } from '../../device/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { checkFloats, checkMatrix, rowStride } from '../checks.ts';
import { launchesOf, type Operand, shareElements } from './launches.ts';
import { sizes, strideOf } from './operands.ts';

type Floats = Tensor<'float32'>;
type Reduction = (stream: Stream, out: Floats, x: Floats) => void;

/** Reductions by name, with their numbers in native/kernels/reduce_rows.gk. */
export const reductions = { sum: 0, max: 1, min: 2, logSumExp: 3, argmax: 4, argmin: 5 } as const;

/** Returns a view of a tensor as a matrix. A vector becomes a matrix of one row. */
function rowsIn(name: string, tensor: Floats): Floats {
  checkFloats(name, tensor);
  if (tensor.shape.length === 1) {
    const [columns] = tensor.shape as [number];
    return checkMatrix(
      name,
      tensor.view({ shape: [1, columns], strides: [columns, ...tensor.strides] }),
      1,
      columns,
    );
  }
  if (tensor.shape.length !== 2)
    throw rangeError(`${name} must have 1 or 2 dimensions, got ${sizes(tensor.shape)}`);
  return checkMatrix(name, tensor, undefined, tensor.shape[1] as number);
}

/**
 * Returns a tensor as an operand whose rows are the tensor's last dimension. `places` contains the
 * lengths of the other dimensions, and `width` is the length of a row.
 */
function lines(
  op: string,
  name: string,
  tensor: Floats,
): Operand & { places: readonly number[]; width: number; tensor: Floats } {
  checkFloats(`${op}: ${name}`, tensor);
  const [places, width] = [tensor.shape.slice(0, -1), tensor.shape.at(-1)];
  if (width === undefined)
    throw rangeError(`${op}: ${name} must have at least 1 dimension, got a scalar`);
  if (width > 1 && tensor.strides.at(-1) !== 1)
    throw typeError(`${op}: ${name} needs neighboring columns, got strides [${tensor.strides}]`);
  return { name, tensor, strides: tensor.strides.slice(0, -1), width, places };
}

/**
 * Returns, as an operand, a tensor with one element for each row of another tensor. Its shape must
 * be `places`, or `places` followed by 1.
 */
function ones(op: string, name: string, tensor: Floats, places: readonly number[]): Operand {
  checkFloats(`${op}: ${name}`, tensor);
  const { shape, strides } = tensor;
  // If the other tensor is a single vector, `places` is empty. The shapes [], [1] and [1, 1] are
  // then valid.
  const fits = [places, [...places, 1], ...(places.length === 0 ? [[1, 1]] : [])].some(
    (of) => of.length === shape.length && of.every((n, d) => n === shape[d]),
  );
  const wanted = places.length === 0 ? '1' : sizes(places);
  if (!fits)
    throw rangeError(`${op}: ${name} must be ${wanted} or ${wanted}×1, got ${sizes(shape)}`);
  return { name, tensor, strides: strides.slice(0, places.length) };
}

function reduction(name: string, op: number, mean = false): Reduction {
  return (stream, out, x) => {
    checkStream(name, stream);
    const from = lines(name, 'x', x);
    const to = ones(name, 'out', out, from.places);
    if (out.size === 0) return;
    const columns = from.width;
    if (columns === 0) throw rangeError(`${name}: x has rows of no elements`);
    const { rows, steps, each } = launchesOf(name, from.places, [to, from], { columns });
    const wholes = [
      rows,
      columns,
      strideOf(steps[0]!, 1),
      strideOf(steps[1]!, columns),
      op,
    ] as const;
    const reals = [mean ? 1 / columns : 1] as const;
    each(stream, (views) =>
      stream.launch('reduce_rows', { tensors: views as [Floats, Floats], wholes, reals }),
    );
  };
}

/** Reductions: each enqueues out […] from the rows of x […, columns]. */
export const reduce = {
  sum: reduction('sum', reductions.sum),
  mean: reduction('mean', reductions.sum, true),
  max: reduction('max', reductions.max),
  min: reduction('min', reductions.min),
  logSumExp: reduction('logSumExp', reductions.logSumExp),
  /**
   * index of the largest element, or the first of several, as a float. gather() and scatterAdd()
   * accept it
   */
  argmax: reduction('argmax', reductions.argmax),
  /** the same for the smallest element */
  argmin: reduction('argmin', reductions.argmin),
} as const;

const soft =
  (name: string, logarithm: 0 | 1) =>
  (stream: Stream, out: Floats, x: Floats): void => {
    checkStream(name, stream);
    const [to, from] = [lines(name, 'out', out), lines(name, 'x', x)];
    // Tensors with only one row fit even if one of them has more leading dimensions of length 1.
    const single =
      [to, from].every(({ tensor, width }) => tensor.size === width) && to.width === from.width;
    if (sizes(out.shape) !== sizes(x.shape) && !single)
      throw rangeError(
        `${name}: x is ${sizes(x.shape)}, out is ${sizes(out.shape)}: they must be of one shape`,
      );
    if (x.size === 0) return;
    const columns = from.width;
    const { rows, steps, each } = launchesOf(name, from.places, [to, from], { columns });
    const [above, below] = steps.map((of) => strideOf(of, columns)) as [number, number];
    const wholes = [rows, columns, above, below, logarithm] as const;
    each(stream, (views) =>
      stream.launch('softmax_rows', { tensors: views as [Floats, Floats], wholes }),
    );
  };

/** Enqueues the softmax of each row of x. Rows are the last dimension, and `out` may be x. */
export const softmax = soft('softmax', 0);
/**
 * Enqueues the logarithm of the softmax of each row of x. The kernel does not compute the softmax
 * itself.
 */
export const logSoftmax = soft('logSoftmax', 1);

/**
 * Enqueues out[…] = x[…, index[…]], or NaN if the index is outside the row.
 *
 * @param out contiguous float32 […] or […, 1]
 * @param x float32 […, columns] with adjacent columns
 * @param index float32 […] or […, 1], for example from `ops.argmax` or `ops.convert`
 * @throws {TypeError|RangeError} for other dtypes, strides or shapes
 */
export function gather(stream: Stream, out: Floats, x: Floats, index: Floats): void {
  checkStream('gather', stream);
  const from = lines('gather', 'x', x);
  const [to, at] = [
    ones('gather', 'out', out, from.places),
    ones('gather', 'index', index, from.places),
  ];
  if (!out.contiguous)
    throw typeError(`gather: out must be contiguous, got strides [${out.strides}]`);
  if (out.size === 0) return;
  const columns = from.width;
  const { rows, steps, each } = launchesOf('gather', from.places, [to, from, at], {
    columns,
    dense: true,
  });
  const wholes = [rows, columns, strideOf(steps[1]!, columns), strideOf(steps[2]!, 1)] as const;
  each(stream, (views) =>
    stream.launch('gather_columns', { tensors: views as [Floats, Floats, Floats], wholes }),
  );
}

/**
 * Enqueues out[…, index[…]] += x[…]. An index outside the row adds nothing.
 *
 * @param out float32 […, columns] with adjacent columns
 * @param x float32 […] or […, 1]
 * @param index float32 […] or […, 1]
 * @throws {TypeError|RangeError} for other dtypes, strides or shapes
 */
export function scatterAdd(stream: Stream, out: Floats, x: Floats, index: Floats): void {
  checkStream('scatterAdd', stream);
  const to = lines('scatterAdd', 'out', out);
  const [from, at] = [
    ones('scatterAdd', 'x', x, to.places),
    ones('scatterAdd', 'index', index, to.places),
  ];
  if (x.size === 0) return;
  const columns = to.width;
  const { rows, steps, each } = launchesOf('scatterAdd', to.places, [to, from, at], { columns });
  const [first, second, third] = [
    strideOf(steps[0]!, columns),
    strideOf(steps[1]!, 1),
    strideOf(steps[2]!, 1),
  ];
  const wholes = [rows, columns, first, second, third] as const;
  each(stream, (views) =>
    stream.launch('scatter_columns', { tensors: views as [Floats, Floats, Floats], wholes }),
  );
}

export interface MatmulOptions {
  /** whether `a` is stored as [k, m], default false */
  transA?: boolean;
  /** whether `b` is stored as [n, k], default false */
  transB?: boolean;
  /** factor of the product, finite, default 1 */
  alpha?: number;
  /** factor of the previous values of `out`, finite, default 0. With 0, `out` is not read */
  beta?: number;
}

/**
 * Enqueues out = alpha · a · b + beta · out, for out [m, n], a [m, k] and b [k, n].
 *
 * @param out float32 with adjacent columns. A vector counts as one row
 * @param a float32 with adjacent columns, or a vector, which counts as one row. It may not share
 *   elements with `out`
 * @param b float32, as `a`. It may not share elements with `out`
 * @throws {TypeError} for other dtypes, strides or options
 * @throws {RangeError} for shapes that do not fit, which the error names, or for shared elements
 */
export function matmul(
  stream: Stream,
  out: Floats,
  a: Floats,
  b: Floats,
  options: MatmulOptions = {},
): void {
  checkStream('matmul', stream);
  checkKeys('matmul', options, ['transA', 'transB', 'alpha', 'beta']);
  const { transA = false, transB = false, alpha = 1, beta = 0 } = options;
  for (const [name, value] of Object.entries({ transA, transB }))
    checkFlag(`matmul: ${name}`, value);
  for (const [name, value] of Object.entries({ alpha, beta }))
    if (typeof value !== 'number')
      throw typeError(`matmul: ${name} must be a number, got ${describeValue(value)}`);
  const [c, left, right] = [
    rowsIn('matmul: out', out),
    rowsIn('matmul: a', a),
    rowsIn('matmul: b', b),
  ];
  const [m, n] = c.shape as [number, number];
  const [rows, inner] = turned(left, transA);
  const [depth, columns] = turned(right, transB);
  if (rows !== m || columns !== n || inner !== depth) {
    const of = (tensor: Floats, trans: boolean) =>
      `${tensor.shape.join('×')}${trans ? ' transposed' : ''}`;
    throw rangeError(
      `matmul: ${of(a, transA)} by ${of(b, transB)} does not make ${out.shape.join('×')}`,
    );
  }
  if (c.size === 0) return;
  stream.launch('gemm', {
    tensors: [c, left, right],
    wholes: [
      transA ? 1 : 0,
      transB ? 1 : 0,
      m,
      n,
      inner,
      rowStride(left),
      rowStride(right),
      rowStride(c),
    ],
    reals: [alpha, beta],
  });
}

const turned = ({ shape }: Floats, trans: boolean): [number, number] => {
  const [rows, columns] = shape as [number, number];
  return trans ? [columns, rows] : [rows, columns];
};

/**
 * Enqueues the concatenation of the parts' columns, in order: out is [rows, n₁ + n₂ + …].
 *
 * @param parts float32 [rows, nᵢ] with adjacent columns
 * @throws {TypeError|RangeError} for other dtypes, strides or shapes, or a part that shares
 *   elements with `out` at different indices
 */
export function concat(stream: Stream, out: Floats, parts: readonly Floats[]): void {
  checkStream('concat', stream);
  if (!Array.isArray(parts))
    throw typeError(`concat: parts must be an array of tensors, got ${describeValue(parts)}`);
  const to = rowsIn('concat: out', out);
  const [rows, columns] = to.shape as [number, number];
  const from = parts.map((part: Floats, i) => rowsIn(`concat: parts[${i}]`, part));
  const width = from.reduce((sum, { shape }) => sum + (shape[1] as number), 0);
  if (width !== columns || from.some(({ shape }) => shape[0] !== rows))
    throw rangeError(
      `concat: ${from.map(({ shape }) => shape.join('×')).join(' and ')} do not make ${rows}×${columns}`,
    );
  const whole: Operand = { name: 'out', tensor: to, strides: [rowStride(to)], width: columns };
  let at = 0;
  const places = from.map((part) => {
    const n = part.shape[1] as number;
    const place = to.view({ shape: [rows, n], offset: at, strides: [rowStride(to), 1] });
    at += n;
    return place;
  });
  from.forEach((part, i) => {
    if (part.size === 0) return;
    const lies = {
      name: `parts[${i}]`,
      tensor: part,
      strides: [rowStride(part)],
      width: part.shape[1] as number,
    };
    const inPlace =
      part.byteOffset === places[i]!.byteOffset &&
      (rows === 1 || rowStride(part) === rowStride(to));
    // Otherwise the copy of one part could overwrite elements of another part before they are read.
    if (!inPlace && shareElements(whole, lies, [rows], [rows]))
      throw rangeError(`concat: out and parts[${i}] share elements: write to a tensor of its own`);
  });
  for (const [i, part] of from.entries()) {
    const wholes = [rows, part.shape[1] as number, rowStride(to), rowStride(part)] as const;
    if (part.size > 0) stream.launch('copy2d', { tensors: [places[i] as Floats, part], wholes });
  }
}
