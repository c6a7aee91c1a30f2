/** Creates the descriptors of a transformer: one per quantity, in the order of the buffer. */

import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { HaloExchangeSpec, quarterTurns } from './spec.ts';

/** A descriptor: the specification of a scalar's array, or of the two arrays of a vector. */
export type Components =
  | readonly [HaloExchangeSpec]
  | readonly [HaloExchangeSpec, HaloExchangeSpec];

/**
 * Returns the descriptors of the quantities, which are vectors if `y` is given. Throws TypeError
 * for elements that are not HaloExchangeSpecs, for mixed dtypes, and for vectors of integers.
 * Throws RangeError for an empty list, for lists of different length, and for components with
 * different rotation.
 */
export function components(
  x: readonly HaloExchangeSpec[],
  y: readonly HaloExchangeSpec[] | null,
): Components[] {
  for (const [name, list] of [
    ['x', x],
    ['y', y ?? x],
  ] as const) {
    if (!Array.isArray(list))
      throw typeError(`${name} is an array of HaloExchangeSpecs, got ${describeValue(list)}`);
    const stray = list.findIndex((each) => !(each instanceof HaloExchangeSpec));
    if (stray >= 0)
      throw typeError(
        `${name}[${stray}] must be a HaloExchangeSpec, got ${describeValue(list[stray])}`,
      );
  }
  const [first] = x;
  if (!first) throw rangeError('a transformer needs at least one HaloExchangeSpec, got none');
  if (y && y.length !== x.length)
    throw rangeError(
      `a vector has as many y as x components; got ${x.length} of x and ${y.length} of y`,
    );
  const { dtype } = first.specification;
  for (const each of [...x, ...(y ?? [])]) {
    const other = each.specification.dtype;
    if (other !== dtype) throw typeError(`one buffer holds one dtype; got ${dtype} and ${other}`);
  }
  if (!y) return x.map((each) => [each] as const);
  if (dtype !== 'float32' && dtype !== 'float64')
    throw typeError(
      `the components of a vector must be float32 or float64, because turning changes their signs; got ${dtype}`,
    );
  return x.map((each, i) => {
    const other = y[i] as HaloExchangeSpec;
    if (quarterTurns(each.packClockwiseRotation) !== quarterTurns(other.packClockwiseRotation))
      throw rangeError(
        `x[${i}] and y[${i}] turn together; got packClockwiseRotation ${each.packClockwiseRotation} and ${other.packClockwiseRotation}`,
      );
    return [each, other] as const;
  });
}
