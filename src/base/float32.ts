/** Neighbors of numbers in float32, and the ends of boxes there. */

/**
 * A number beyond this does not count as an end: in float32 it is Infinity, or the largest number.
 */
export const OPEN = 3.4e38;

const view = new DataView(new ArrayBuffer(4));

/** Returns the neighbor of a float32 above it (`by` 1) or below (−1). */
export function nextFloat32(value: number, by: 1 | -1): number {
  if (value === 0) return by * 2 ** -149;
  view.setFloat32(0, value);
  view.setInt32(0, view.getInt32(0) + (value > 0 ? by : -by));
  return view.getFloat32(0);
}

/**
 * Returns the least float32 that is not less than an end: an action clamped to it lies within the
 * box that was given.
 */
export function lowEnd(end: number): number {
  const value = Math.fround(end);
  return value < end ? nextFloat32(value, 1) : value;
}

/** Returns the largest float32 that is not more than an end. */
export function highEnd(end: number): number {
  const value = Math.fround(end);
  return value > end ? nextFloat32(value, -1) : value;
}
