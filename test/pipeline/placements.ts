/**
 * Declares tests that are the same on every placement of the actors. A short run makes a dozen of
 * them on all placements. It makes the others where few threads are opened, because opening a
 * thread takes an eighth of a second of a core. `test:all` makes all of them.
 */
import { itAll } from '../rig/setting.ts';
import { SPREAD } from './fixture.ts';

export const placements = { inline: 'inline', auto: 'auto', 'a thread per role': SPREAD } as const;
export type Placement = (typeof placements)[keyof typeof placements];

/**
 * Returns how to declare a test that a short run makes only on `inline` and `auto`. On these
 * placements it is declared by `otherwise`.
 */
export const upToAuto = (placement: unknown, otherwise: typeof itAll | typeof it = it) =>
  (placement === SPREAD ? itAll : otherwise) as typeof itAll;

/** Returns how to declare a test that a short run makes only on the placement `short`. */
export const onlyOn = (
  short: Placement,
  placement: unknown,
  otherwise: typeof itAll | typeof it = it,
) => (placement === short ? otherwise : itAll) as typeof itAll;
