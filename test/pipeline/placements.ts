/**
 * Tests that are the same on every placement of the actors. A short run makes a dozen of them on
 * all placements, and the rest where few threads are opened, since each thread costs an eighth of a
 * second of a core. `test:all` makes the others.
 */
import { itAll } from '../rig/setting.ts';
import { SPREAD } from './fixture.ts';

export const placements = { inline: 'inline', auto: 'auto', 'a thread per role': SPREAD } as const;
export type Placement = (typeof placements)[keyof typeof placements];

/**
 * How a test is made that a short run has on `inline` and `auto`; `otherwise` is how it makes
 * those.
 */
export const upToAuto = (placement: unknown, otherwise: typeof itAll | typeof it = it) =>
  (placement === SPREAD ? itAll : otherwise) as typeof itAll;

/** The same for a test that a short run has on one placement alone. */
export const onlyOn = (
  short: Placement,
  placement: unknown,
  otherwise: typeof itAll | typeof it = it,
) => (placement === short ? otherwise : itAll) as typeof itAll;
