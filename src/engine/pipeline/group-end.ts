/** Ends a run of a learner group that no tick's mean ends. The opener's thread only. */

import type { Ending } from '../../shm/ending.ts';
import { Purpose } from '../group/letter.ts';
import type { Ended, Outcome } from '../group/verdict.ts';
import type { Averaging } from './averaging.ts';
import type { PipelineRuntime } from './runtime.ts';

/** How often a waiting opener looks up from the rank's bell. */
const LOOK_MS = 50;

/**
 * Ends a run between two means: this rank sends that to the others, and ends with the exchange that
 * they come to next. If one of them is due for a mean there, all take it. `patient` is asked now
 * and then: once it is false, this rank ends the exchange without the missing ones. Returns who
 * ended the run, with this rank's own reason first.
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
      // The others have this rank's part, and it has not theirs.
      rank.fail(error);
      throw error;
    }
    rank.finish();
    averaging.carried = 0;
  }
  return ended ?? own;
}
