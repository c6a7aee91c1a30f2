/** Compares the actions of a data set with the learner's action space. A learner does not notice an action outside of it. */
import { checkCount, checkKeys, shown } from '../checks.ts';
import { rangeError, typeError } from '../errors.ts';
import { highEnd, lowEnd, neighbour } from '../float32.ts';

/** One of n actions, or a box; its ends are one number for all, or one for each. */
export type LoadedActions =
  | { readonly n: number }
  | { readonly low: number | ArrayLike<number>; readonly high: number | ArrayLike<number> };

/** Throws RangeError for the first of some actions, `size` numbers each, that the space does not have. `name`: of a row. */
export type ActionCheck = (values: ArrayLike<number | bigint>, size: number, name: (row: number) => string) => void;

/**
 * Undefined without a space. Throws TypeError or RangeError if `space` is neither { n } nor { low, high }, or if the buffer has no field
 * `actions` that it could be compared with.
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
  return 'n' in space ? indices(space) : box(space);
}

function indices(space: { readonly n: number }): ActionCheck {
  checkKeys('load: actionSpace', space, ['n']);
  const n = checkCount('load: actionSpace.n', space.n);
  return (values, size, name) => {
    for (let at = 0; at < values.length; at++) {
      const value = Number(values[at]);
      if (!(Number.isInteger(value) && value >= 0 && value < n))
        throw rangeError(
          `load: actions of ${name(Math.floor(at / size))} is ${value}: an action is an index from 0 to ${n - 1}`,
        );
    }
  };
}

function box(space: {
  readonly low: number | ArrayLike<number>;
  readonly high: number | ArrayLike<number>;
}): ActionCheck {
  checkKeys('load: actionSpace', space, ['low', 'high']);
  const end = (key: 'low' | 'high', j: number, size: number): number => {
    const ends = space[key];
    if (typeof ends !== 'number' && ends?.length !== size)
      throw rangeError(`load: actionSpace.${key} must be a number or ${size} of them, got ${shown(ends)}`);
    const value = typeof ends === 'number' ? ends : ends[j];
    if (typeof value !== 'number' || Number.isNaN(value))
      throw typeError(`load: actionSpace.${key} must be numbers, got ${shown(value)}`);
    return value;
  };
  return (values, size, name) => {
    const low = Array.from({ length: size }, (_, j) => end('low', j, size));
    const high = Array.from({ length: size }, (_, j) => end('high', j, size));
    // What float32 makes of an end may be its neighbour without the box.
    const least = low.map((each) => neighbour(lowEnd(each), -1));
    const most = high.map((each) => neighbour(highEnd(each), 1));
    for (let at = 0; at < values.length; at++) {
      const [value, j] = [Number(values[at]), at % size];
      if (!(value >= least[j]! && value <= most[j]!))
        throw rangeError(
          `load: actions of ${name(Math.floor(at / size))} holds ${value} as number ${j}: the box is ${low[j]} to ${high[j]}. ` +
            'Scale the actions, or give the learner their box',
        );
    }
  };
}
