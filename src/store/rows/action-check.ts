/**
 * Checks that the actions of a data set are in the learner's action space. A learner does not
 * notice an action outside of it.
 */
import { outsideBox, outsideIndices } from '../../base/action-space.ts';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/**
 * An action space: `n` discrete actions, or a box. Each bound of the box is one number for all
 * elements, or one number per element.
 */
export type LoadedActions =
  | { readonly n: number }
  | { readonly low: number | ArrayLike<number>; readonly high: number | ArrayLike<number> };

/**
 * Checks actions of `size` elements each, and throws for the first one outside the space. `name`
 * returns a row's name for the error.
 */
export type ActionCheck = (
  values: ArrayLike<number | bigint>,
  size: number,
  name: (row: number) => string,
) => void;

/**
 * Returns a check that throws a RangeError for the first action outside the space, or undefined if
 * `space` is undefined. Throws TypeError or RangeError if `space` is neither { n } nor { low, high
 * }, or if the buffer has no field `actions`.
 */
export function actionCheck(
  space: LoadedActions | undefined,
  fields: readonly { readonly key: string }[],
): ActionCheck | undefined {
  if (space === undefined) return undefined;
  if (typeof space !== 'object' || space === null)
    throw typeError(
      `load: actionSpace must be { n } or { low, high }, got ${describeValue(space)}`,
    );
  if (!fields.some(({ key }) => key === 'actions'))
    throw typeError(
      "load: actionSpace needs a field 'actions', which this buffer lacks; omit actionSpace",
    );
  checkKeys('load: actionSpace', space, 'n' in space ? ['n'] : ['low', 'high']);
  const of =
    'n' in space ? () => outsideIndices(checkCount('load: actionSpace.n', space.n)) : sized(space);
  return (values, size, name) => {
    const wrong = of(size);
    for (let at = 0; at < values.length; at++) {
      const why = wrong(Number(values[at]), at % size);
      if (why !== undefined)
        throw rangeError(`load: actions of ${name(Math.floor(at / size))} ${why}`);
    }
  };
}

/**
 * Returns a function that creates the check for a box and actions of `size` elements. Each bound of
 * the box is one number for all elements, or `size` numbers.
 */
function sized(ends: {
  readonly low: number | ArrayLike<number>;
  readonly high: number | ArrayLike<number>;
}) {
  const side = (key: 'low' | 'high', size: number): number[] => {
    const given = ends[key];
    if (typeof given !== 'number' && given?.length !== size)
      throw rangeError(
        `load: actionSpace.${key} must be a number or ${size} of them, got ${describeValue(given)}`,
      );
    return Array.from({ length: size }, (_, j) => {
      const value = typeof given === 'number' ? given : given[j];
      if (typeof value !== 'number' || Number.isNaN(value))
        throw typeError(`load: actionSpace.${key} must be numbers, got ${describeValue(value)}`);
      return value;
    });
  };
  return (size: number) => outsideBox(side('low', size), side('high', size));
}
