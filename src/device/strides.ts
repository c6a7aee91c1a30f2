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
