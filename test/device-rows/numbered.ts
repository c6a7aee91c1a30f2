/** Rows in which every element follows from the row's number. */
export const FIELDS = { x: { shape: [] }, y: { shape: [] }, more: { shape: [14] } } as const;

/**
 * Returns the rows [from, from + n). `x` is the row's number, `y` is its negative, and the 14
 * elements of `more` repeat it.
 */
export function numbered(from: number, n: number) {
  const id = Float32Array.from({ length: n }, (_, i) => from + i);
  const more = Float32Array.from({ length: 14 * n }, (_, i) => from + Math.floor(i / 14));
  return { x: id, y: id.map((value) => -value), more };
}
