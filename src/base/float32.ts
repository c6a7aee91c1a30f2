/** Computes neighbors of float32 numbers, and the ends of boxes in float32. */

/**
 * A box end whose magnitude is greater than this counts as unbounded. In float32, such an end would
 * be Infinity or the largest finite number.
 */
export const OPEN = 3.4e38;

const view = new DataView(new ArrayBuffer(4));

/** Returns the next float32 above `value` (`by` = 1) or below it (`by` = −1). */
export function nextFloat32(value: number, by: 1 | -1): number {
  if (value === 0) return by * 2 ** -149;
  view.setFloat32(0, value);
  view.setInt32(0, view.getInt32(0) + (value > 0 ? by : -by));
  return view.getFloat32(0);
}

/**
 * Returns the smallest float32 that is not less than the lower end of a box. An action that is
 * clamped to the result is inside the box.
 */
export function lowEnd(end: number): number {
  const value = Math.fround(end);
  return value < end ? nextFloat32(value, 1) : value;
}

/** Returns the largest float32 that is not greater than the upper end of a box. */
export function highEnd(end: number): number {
  const value = Math.fround(end);
  return value > end ? nextFloat32(value, -1) : value;
}
