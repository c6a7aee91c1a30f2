/**
 * Comparisons of a golden case. Each throws at the first difference, with the computed value and
 * the file's.
 */

/** Thrown if a computed value differs from the file's. */
export class Difference extends Error {}

/** Returns how far a number may be from the file's. The default is 0. */
export type Tolerance = (expected: number) => number;
export const exactly: Tolerance = () => 0;
export const relative =
  (part: number): Tolerance =>
  (expected) =>
    part * Math.abs(expected);
/** Like `relative`, but at least that part of 1, for sums whose terms may cancel. */
export const rounded =
  (part: number): Tolerance =>
  (expected) =>
    part * Math.max(1, Math.abs(expected));

const text = (value: unknown): string => (typeof value === 'string' ? `'${value}'` : String(value));

/**
 * Compares one value. NaN equals NaN, with any sign and payload, and no tolerance makes it equal to
 * a number.
 */
export function same(
  what: string,
  got: unknown,
  expected: unknown,
  tolerance: Tolerance = exactly,
): void {
  if (got === expected && got !== undefined) return;
  if (Number.isNaN(got) && Number.isNaN(expected)) return;
  if (typeof got === 'number' && typeof expected === 'number') {
    if (Math.abs(got - expected) <= tolerance(expected)) return;
  }
  throw new Difference(`${what} is ${text(got)}, expected ${text(expected)}`);
}

/** Numbers of a column or a list, or undefined for a missing column. */
export type Numbers = ArrayLike<number> | undefined;

/**
 * Compares each element, then the lengths. `name` names an element in the error text; its index in
 * brackets by default.
 */
export function sameList(
  what: string,
  got: Numbers,
  expected: Numbers,
  {
    tolerance = exactly,
    name = (i) => `[${i}]`,
  }: { tolerance?: Tolerance; name?: (i: number) => string } = {},
): void {
  if (got === undefined || expected === undefined)
    throw new Difference(`${what} is missing${got === undefined ? '' : ' in the file'}`);
  const both = Math.min(got.length, expected.length);
  for (let i = 0; i < both; i++) same(`${what}${name(i)}`, got[i], expected[i], tolerance);
  same(`${what}: the number of elements`, got.length, expected.length);
}

/** Throws unless `call` throws an error of this class. Returns that error. */
export function refused(
  what: string,
  call: () => unknown,
  kind: new (text: string) => Error = Error,
): Error {
  let error: unknown;
  try {
    call();
  } catch (thrown) {
    error = thrown;
  }
  if (error === undefined) throw new Difference(`${what} was not refused`);
  if (error instanceof kind) return error;
  throw new Difference(`${what} was refused by a ${text(error)}, expected a ${kind.name}`);
}

/** The columns of a sample by name. A column that the sample lacks is undefined. */
export type Columns = Readonly<Record<string, ArrayLike<number> | undefined>>;
export const columnsOf = (sample: object): Columns => sample as Columns;

/** Returns the elements of row `row` of a column with `width` elements per row. */
export function rowOf(column: Numbers, row: number, width: number): number[] | undefined {
  if (column === undefined) return undefined;
  return Array.from({ length: width }, (_, i) => column[row * width + i] as number);
}
