/** Steps between the elements of an array, in elements. */

/** Row-major strides in elements. */
export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i] as number;
  }
  return strides;
}

/** Dense: rows may be counted in it as one likes. */
const DENSE = -1;
/** Its elements are no rows at one distance. */
const NO_ROWS = -2;

/**
 * How an array lies in memory, into `to` from `at` on: elements from one row to the next (or one of
 * the two above), and elements that lie together, as a row's do; both times `bytes`, the size of an
 * element. An array of two dimensions that count has rows even when it is dense. Returns where it
 * stopped.
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
  // Dimensions beyond the rows fold into one with them where they go on at the rows' distance.
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

/** Elements of a strided array in row-major order. */
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
