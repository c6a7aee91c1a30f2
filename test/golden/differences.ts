/**
 * How a golden case finds fault: the first difference is thrown, with what was got and what the
 * file says.
 */

/** What was computed is not what the file says. */
export class Difference extends Error {}

/** What may lie between a number and the file's: nothing, unless a rule says more. */
export type Tolerance = (expected: number) => number;
export const exactly: Tolerance = () => 0;
export const relative =
  (part: number): Tolerance =>
  (expected) =>
    part * Math.abs(expected);
/** As `relative`, but not less than that part of 1: for sums that may cancel. */
export const rounded =
  (part: number): Tolerance =>
  (expected) =>
    part * Math.max(1, Math.abs(expected));

const text = (value: unknown): string => (typeof value === 'string' ? `'${value}'` : String(value));

/**
 * Compares one value. NaN is the same as NaN, whatever its sign and payload, and within no
 * tolerance of a number.
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

/** Numbers of a column or a list; a column may be missing. */
export type Numbers = ArrayLike<number> | undefined;

/**
 * Compares element by element, then the lengths; `name` says which element it is where its index
 * alone would not.
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

/** `call` has to throw, and an error of this class; gives it. */
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

/** The columns of a sample by name; one that is not there is undefined. */
export type Columns = Readonly<Record<string, ArrayLike<number> | undefined>>;
export const columnsOf = (sample: object): Columns => sample as Columns;

/** Elements of row `row` of a column with `width` elements a row. */
export function rowOf(column: Numbers, row: number, width: number): number[] | undefined {
  if (column === undefined) return undefined;
  return Array.from({ length: width }, (_, i) => column[row * width + i] as number);
}
