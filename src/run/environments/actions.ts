/** Checks actions against the action space before environments receive them. */

import { describeValue } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import { nextFloat32 } from '../../base/float32.ts';
import { neverRestarted } from '../collectors/never-restarted.ts';
import { legalCount } from './masks.ts';
import type { Spaces } from './spaces.ts';

/** The legal actions by which takeActions() checks. */
export interface LegalActions {
  /** count × n bytes, 1 for a legal action */
  readonly mask: Uint8Array;
  /** Returns the step that an environment is about to take, for errors. */
  when(environment: number): string;
}

/** Number of legal actions that an error lists. */
const LISTED = 8;

/**
 * Copies the actions of `count` environments to `into`. Throws a RangeError for an action outside
 * the space, and for an illegal one. Environments without a legal action take 0: their episodes are
 * over.
 */
export function takeActions(
  actions: ArrayLike<number>,
  into: Float32Array | Int32Array,
  { action }: Spaces,
  count: number,
  name: (environment: number) => string,
  legal?: LegalActions,
): void {
  const { length } = into;
  if (typeof actions?.length !== 'number' || actions.length !== length) {
    const each = action.kind === 'discrete' ? 'one' : action.size;
    throw rangeError(
      `actions must be ${length} numbers, ${each} for each of ${count} environments; got ${describeValue(actions)}`,
    );
  }
  if (action.kind === 'discrete') {
    const { n } = action;
    const mask = legal?.mask;
    for (let i = 0; i < length; i++) {
      const value = actions[i] as number;
      const isAction = value >= 0 && value < n && Number.isInteger(value);
      if (isAction && (mask === undefined || mask[i * n + value] === 1)) into[i] = value;
      else if (mask !== undefined && legalCount(mask, i, n) === 0) into[i] = 0;
      else if (!isAction)
        throw rangeError(`action ${value} for ${name(i)}: its actions are 0 to ${n - 1}`);
      else throw illegal(value, legal as LegalActions, i, n, name(i));
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

function illegal(
  action: number,
  { mask, when }: LegalActions,
  i: number,
  n: number,
  name: string,
): Error {
  const row = mask.subarray(i * n, (i + 1) * n);
  const all = [...row.keys()].filter((at) => row[at] === 1);
  const more = all.length > LISTED ? ` and ${all.length - LISTED} more` : '';
  return neverRestarted(
    rangeError(
      `action ${action} for ${name}${when(i)}, is illegal: legal are ${all.slice(0, LISTED).join(', ')}${more}; a policy gets them as act(obs, n, { mask }), n × ${n} bytes`,
    ),
  );
}
