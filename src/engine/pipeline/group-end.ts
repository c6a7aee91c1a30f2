/** Ends a run of a learner group between two means. Only the opener's thread uses it. */

import type { Ending } from '../../shm/ending.ts';
import { Purpose } from '../group/letter.ts';
import type { Ended, Outcome } from '../group/verdict.ts';
import type { Averaging } from './averaging.ts';
import type { PipelineRuntime } from './runtime.ts';

/** Milliseconds after which a waiting opener wakes even if the rank's bell is silent. */
const LOOK_MS = 50;

/**
 * Ends a run between two means. Returns who ended the run and why. This rank's own reason has
 * priority.
 *
 * This rank sends its end to the other ranks, and ends with the next exchange that all ranks reach.
 * If one rank is due for a mean in that exchange, all ranks take the mean. `patient` is called
 * repeatedly. After it returns false, this rank ends the exchange without the missing ranks.
 */
export async function endWithOthers(
  parts: PipelineRuntime,
  averaging: Averaging,
  why: Ending,
  patient: () => boolean,
): Promise<Ended> {
  const { rank, waitUntil, endWait } = averaging.group;
  const { compute } = parts.slots;
  const own = { rank: rank.rank, why };
  if (rank.hasLeft) return own;
  const values = await averaging.read(compute);
  let sent = false;
  let outcome: Outcome | null = null;
  const check = (): Outcome | null => {
    parts.checkRunning();
    const waits = patient();
    if (!sent) {
      const settled = rank.settle(true);
      if (settled === false) return waits ? null : { averages: false, ended: own };
      if (settled !== true) return { averages: false, ended: settled };
      rank.start(Purpose.end, values, averaging.every, why);
      sent = true;
    }
    if (!rank.advance()) {
      if (waits) return null;
      endWait(why);
      if (!rank.advance()) return null;
    }
    return rank.outcome();
  };
  await waitUntil(
    () => {
      outcome = check();
      return outcome !== null;
    },
    { longestMs: LOOK_MS },
  );
  const { averages, ended } = outcome as unknown as Outcome;
  if (!averages) rank.leave();
  else {
    try {
      rank.average(values);
      await averaging.write(compute);
    } catch (error) {
      // The other ranks average with this rank's parameters, but this rank does not have the mean.
      rank.fail(error);
      throw error;
    }
    rank.finish();
    averaging.carried = 0;
  }
  return ended ?? own;
}
