/** Finds out whether environments give action masks, before a buffer for them is made. */
import type { EnvironmentSet } from './environment-set.ts';

/** Seed of the episode that givesMasks() begins. */
const SEED = 0;

/**
 * Begins an episode of the first environment, and returns whether it gave a mask. The episode ends
 * with the next play() of the set. Environments with a box of actions are not reset.
 *
 * @throws the errors of reset(), and of an invalid mask
 */
export async function givesMasks(set: EnvironmentSet): Promise<boolean> {
  if (set.spaces.action.kind !== 'discrete') return false;
  const vector = set.play({ nextSeed: (i) => (i === 0 ? SEED : null) });
  await vector.begin();
  return vector.actionMask !== null;
}
