/** Checks actions against the action space before environments receive them. */

import { describeValue } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import { nextFloat32 } from '../../base/float32.ts';
import type { Spaces } from './spaces.ts';

/**
 * Copies the actions of `count` environments to `into`. Throws a RangeError for an action outside
 * the space.
 */
export function takeActions(
  actions: ArrayLike<number>,
  into: Float32Array | Int32Array,
  { action }: Spaces,
  count: number,
  name: (environment: number) => string,
): void {
  const { length } = into;
  if (typeof actions?.length !== 'number' || actions.length !== length) {
    const each = action.kind === 'discrete' ? 'one' : action.size;
    throw rangeError(
      `actions must be ${length} numbers, ${each} for each of ${count} environments; got ${describeValue(actions)}`,
    );
  }
  if (action.kind === 'discrete') {
    for (let i = 0; i < length; i++) {
      const value = actions[i] as number;
      if (!(value >= 0 && value < action.n && Number.isInteger(value)))
        throw rangeError(`action ${value} for ${name(i)}: its actions are 0 to ${action.n - 1}`);
      into[i] = value;
    }
    return;
  }
  const { low, high, size } = action;
  for (let i = 0, j = 0; i < length; i++) {
    let value = Math.fround(actions[i] as number);
    const [least, most] = [low[j] as number, high[j] as number];
    // The bounds were rounded to float32, towards the inside of the box. So an action at the user's
    // own bound may be one float32 outside, and is moved to the rounded bound.
    if (value < least && value >= nextFloat32(least, -1)) value = least;
    if (value > most && value <= nextFloat32(most, 1)) value = most;
    if (!(value >= least && value <= most))
      throw rangeError(
        `action ${value} for ${name(Math.floor(i / size))}: number ${j} of its actions is ${least} to ${most}`,
      );
    into[i] = value;
    if (++j === size) j = 0;
  }
}
