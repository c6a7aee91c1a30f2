/** Shapes of expressions: broadcasting as in numpy, axes, and strides of views. */
import { checkCount, describeValue } from '../../base/checks.ts';

/** A shape of rank 0 to 4. In types, a tuple of literals where the compiler can know them. */
export type Shape = readonly number[];

export const MAX_RANK = 4;

/** Throws an error with this text. It has the line of the user's program. */
export type Refuse = (text: string) => never;

export const sizeOf = (shape: Shape): number => shape.reduce((size, length) => size * length, 1);

/** Returns a shape as in the text of an error: [3, 4]. */
export const shown = (shape: Shape): string => `[${shape.join(', ')}]`;

export const equalShapes = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((length, d) => length === b[d]);

/** Checks a shape that the user passed, and returns a frozen copy. */
export function checkedShape(what: string, shape: unknown, refuse: Refuse): number[] {
  if (!Array.isArray(shape))
    refuse(`${what} takes a shape such as [128, 4], got ${describeValue(shape)}`);
  const lengths = Array.from(shape as ArrayLike<unknown>);
  if (lengths.length > MAX_RANK)
    refuse(`${what}: expressions have at most ${MAX_RANK} dimensions, got ${lengths.length}`);
  for (const [d, length] of lengths.entries())
    if (!Number.isSafeInteger(length) || (length as number) < 1)
      refuse(
        `${what}: the length of dimension ${d} must be a whole number of at least 1, got ${describeValue(length)}`,
      );
  if (sizeOf(lengths as number[]) >= 2 ** 31)
    refuse(`${what}: ${shown(lengths as number[])} has 2^31 elements or more`);
  return lengths as number[];
}

/** Returns the shape to which all operands broadcast. */
export function broadcastShapes(op: string, shapes: readonly Shape[], refuse: Refuse): number[] {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, d) => {
    let found = 1;
    for (const shape of shapes) {
      const length = shape[shape.length - rank + d] ?? 1;
      if (length === 1 || length === found) continue;
      if (found !== 1)
        refuse(
          `${op}: ${shapes.map(shown).join(' and ')} do not broadcast: ${found} and ${length} meet, and neither is 1`,
        );
      found = length;
    }
    return found;
  });
}

/** Returns an axis as an index from 0. A negative axis counts from the end. */
export function axisOf(op: string, axis: unknown, rank: number, refuse: Refuse): number {
  if (typeof axis !== 'number' || !Number.isInteger(axis))
    refuse(`${op}: an axis is a whole number, got ${describeValue(axis)}`);
  const index = (axis as number) < 0 ? (axis as number) + rank : (axis as number);
  if (index < 0 || index >= rank)
    refuse(`${op}: there is no axis ${axis} in an expression of ${rank} dimensions`);
  return index;
}

/** Returns axes in ascending order, or all axes if `axis` is undefined. */
export function axesOf(op: string, axis: unknown, rank: number, refuse: Refuse): number[] {
  if (axis === undefined) return Array.from({ length: rank }, (_, d) => d);
  if (Array.isArray(axis) && axis.length === 0)
    refuse(`${op}: axis names no axis; leave it out to reduce all of them`);
  const axes = Array.from(Array.isArray(axis) ? axis : [axis]).map((each) =>
    axisOf(op, each, rank, refuse),
  );
  if (new Set(axes).size < axes.length) refuse(`${op}: an axis is named twice in [${axis}]`);
  return axes.sort((a, b) => a - b);
}

/** Returns the strides with which a view of `shape` is read over the shape to which it broadcasts. */
export function spreadStrides(shape: Shape, strides: readonly number[], over: Shape): number[] {
  const missing = over.length - shape.length;
  return over.map((_, d) => (d < missing || shape[d - missing] === 1 ? 0 : strides[d - missing]!));
}

/**
 * Returns the strides of a view of another shape with the same elements in row-major order, or null
 * if no strides give that order.
 */
export function reshapedStrides(
  shape: Shape,
  strides: readonly number[],
  to: Shape,
): number[] | null {
  const from = shape
    .map((length, d) => ({ length, step: strides[d]! }))
    .filter((d) => d.length > 1);
  const into = to.map((length, d) => ({ length, d })).filter(({ length }) => length > 1);
  const result = to.map(() => 0);
  for (let i = 0, j = 0; i < from.length; ) {
    const [first, start] = [i, j];
    let [old, made] = [from[i++]!.length, into[j++]!.length];
    while (old !== made) {
      if (made < old) made *= into[j++]!.length;
      else old *= from[i++]!.length;
    }
    for (let k = first; k + 1 < i; k++)
      if (from[k]!.step !== from[k + 1]!.step * from[k + 1]!.length) return null;
    let step = from[i - 1]!.step;
    for (let k = j - 1; k >= start; k--) {
      result[into[k]!.d] = step;
      step *= into[k]!.length;
    }
  }
  return result;
}

/** Returns a count that the user passed, or refuses it with the user's line. */
export function countOf(name: string, value: unknown, least: number, refuse: Refuse): number {
  try {
    return checkCount(name, value, least);
  } catch (error) {
    return refuse((error as Error).message);
  }
}
