/** Strides of arrays: for each dimension, the distance in elements from one index to the next. */

/** Returns row-major strides in elements. */
export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i] as number;
  }
  return strides;
}

/** Returns row-major strides in which a dimension of length 1 has stride 0. */
export const denseStrides = (shape: readonly number[]): number[] =>
  rowMajor(shape).map((stride, d) => (shape[d] === 1 ? 0 : stride));

/** Returns whether strides are row-major. The stride of a dimension of length 1 does not matter. */
export const isDense = (shape: readonly number[], strides: readonly number[]): boolean =>
  rowMajor(shape).every((stride, d) => shape[d] === 1 || strides[d] === stride);

/** Row distance of a dense array, whose rows may have any length. */
const DENSE = -1;
/** Row distance of an array whose elements are not in evenly spaced rows. */
const NO_ROWS = -2;

/**
 * Writes an array's layout into `to` from index `at` on, and returns the next index. The first
 * number is the bytes from row to row, or DENSE or NO_ROWS. The second is the bytes that are
 * contiguous, such as those of a row. `bytes` is the size of an element.
 *
 * A dense array gets its row distance instead of DENSE if exactly two of its dimensions have a
 * length other than 1.
 */
export function layOut(
  shape: readonly number[],
  strides: readonly number[],
  bytes: number,
  to: Float64Array,
  at: number,
): number {
  let run = 1;
  let wide = 0;
  let i = shape.length - 1;
  for (; i >= 0; i--) {
    const length = shape[i] as number;
    if (length === 1) continue;
    if (strides[i] !== run) break;
    run *= length;
    wide++;
  }
  let step = DENSE;
  // Outer dimensions count as more rows if their elements continue at the same distance as the
  // rows.
  for (let next = -1; i >= 0 && step !== NO_ROWS; i--) {
    const length = shape[i] as number;
    if (length === 1) continue;
    const stride = strides[i] as number;
    if (next < 0) step = stride * bytes;
    else if (stride !== next) step = NO_ROWS;
    next = next < 0 ? stride * length : next * length;
  }
  if (step === DENSE && wide === 2)
    step = (strides[shape.findIndex((length) => length !== 1)] as number) * bytes;
  to[at] = step;
  to[at + 1] = run * bytes;
  return at + 2;
}

/** Copies the elements of a strided array in row-major order. */
export function gatherStrided(
  from: Float32Array,
  to: Float32Array,
  shape: readonly number[],
  strides: readonly number[],
): void {
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0; i < to.length; i++) {
    let at = 0;
    for (let d = 0; d < shape.length; d++) at += (index[d] as number) * (strides[d] as number);
    to[i] = from[at] as number;
    for (let d = shape.length - 1; d >= 0; d--) {
      index[d] = (index[d] as number) + 1;
      if ((index[d] as number) < (shape[d] as number)) break;
      index[d] = 0;
    }
  }
}
