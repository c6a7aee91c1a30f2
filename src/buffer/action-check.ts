/** Compares the actions of a data set with the learner's action space. A learner does not notice an action outside of it. */
import { checkCount, checkKeys, shown } from '../checks.ts';
import { rangeError, typeError } from '../errors.ts';
import { highEnd, lowEnd, neighbour } from '../float32.ts';

/** One of n actions, or a box; its ends are one number for all, or one for each. */
export type LoadedActions =
  | { readonly n: number }
  | { readonly low: number | ArrayLike<number>; readonly high: number | ArrayLike<number> };

/** Looks at some actions, `size` numbers each. `name`: of a row. */
export type ActionCheck = (values: ArrayLike<number | bigint>, size: number, name: (row: number) => string) => void;

/** What is wrong with number `j` of an action, in words; undefined where the space has it. */
export type ActionSpace = (value: number, j: number) => string | undefined;

/**
 * Throws RangeError for the first of the actions that the space does not have. Undefined without a space. Throws TypeError or RangeError
 * if `space` is neither { n } nor { low, high }, or if the buffer has no field `actions` that it could be compared with.
 */
export function actionCheck(
  space: LoadedActions | undefined,
  fields: readonly { readonly key: string }[],
): ActionCheck | undefined {
  if (space === undefined) return undefined;
  if (typeof space !== 'object' || space === null)
    throw typeError(`load: actionSpace must be { n } or { low, high }, got ${shown(space)}`);
  if (!fields.some(({ key }) => key === 'actions'))
    throw typeError("load: actionSpace is compared with the field 'actions', and this buffer has none: leave it out");
  checkKeys('load: actionSpace', space, 'n' in space ? ['n'] : ['low', 'high']);
  const of = 'n' in space ? () => indices(checkCount('load: actionSpace.n', space.n)) : sized(space);
  return (values, size, name) => {
    const wrong = of(size);
    for (let at = 0; at < values.length; at++) {
      const why = wrong(Number(values[at]), at % size);
      if (why !== undefined) throw rangeError(`load: actions of ${name(Math.floor(at / size))} ${why}`);
    }
  };
}

/** The indices from 0 to n − 1. */
export const indices =
  (n: number): ActionSpace =>
  (value) =>
    Number.isInteger(value) && value >= 0 && value < n
      ? undefined
      : `is ${value}: an action is an index from 0 to ${n - 1}`;

/** A box by its ends, of which float32 may make a neighbour without the box. */
export function box(low: readonly number[], high: readonly number[]): ActionSpace {
  const least = low.map((each) => neighbour(lowEnd(each), -1));
  const most = high.map((each) => neighbour(highEnd(each), 1));
  return (value, j) =>
    value >= least[j]! && value <= most[j]!
      ? undefined
      : `holds ${value} as number ${j}: the box is ${low[j]} to ${high[j]}. Scale the actions, or give the learner their box`;
}

/** The same of ends that are one number for all, or a number for each of an action's `size`. */
function sized(ends: { readonly low: number | ArrayLike<number>; readonly high: number | ArrayLike<number> }) {
  const side = (key: 'low' | 'high', size: number): number[] => {
    const given = ends[key];
    if (typeof given !== 'number' && given?.length !== size)
      throw rangeError(`load: actionSpace.${key} must be a number or ${size} of them, got ${shown(given)}`);
    return Array.from({ length: size }, (_, j) => {
      const value = typeof given === 'number' ? given : given[j];
      if (typeof value !== 'number' || Number.isNaN(value))
        throw typeError(`load: actionSpace.${key} must be numbers, got ${shown(value)}`);
      return value;
    });
  };
  return (size: number) => box(side('low', size), side('high', size));
}
