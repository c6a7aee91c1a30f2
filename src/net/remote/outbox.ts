/**
 * The outbox of a host: the rows that collectors of this machine have added and that are not in a
 * message yet. It is a buffer with the learner's layout, from which messages take the rows.
 */

import type { BellBoard } from '../../shm/bell.ts';
import { stepsOutgoing } from '../../store/lanes/outgoing.ts';
import {
  internalsOfTrajectories,
  type TrajectoryBuffer,
} from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';

export interface Outbox {
  /** bytes of a row in a message */
  readonly rowBytes: number;
  /** lanes of a buffer of steps, or 0 for a buffer of rows */
  readonly lanes: number;
  /** bells that are rung after every add */
  readonly bells: BellBoard;
  /** Returns how many rows can be taken now. */
  waiting(): number;
  /** Moves at most `most` rows to `out`, frees their memory, and returns the number of rows. */
  take(out: Uint8Array, most: number): number;
}

export const outboxOf = (buffer: ReplayBuffer | TrajectoryBuffer): Outbox => {
  if (buffer instanceof ReplayBuffer) return rowsOutbox(buffer);
  return stepsOutbox(buffer);
};

/**
 * Returns the outbox of a buffer of rows. No row is overwritten while it is read, because the
 * limiter of bufferLike() makes collectors wait until the row is taken.
 */
function rowsOutbox(buffer: ReplayBuffer): Outbox {
  const { bells, ledger } = internalsOfBuffer(buffer);
  let taken = 0;
  return {
    rowBytes: buffer.rowBytes,
    lanes: 0,
    bells,
    waiting: () => buffer.ptr - taken,
    take(out, most) {
      const rows = Math.min(most, buffer.ptr - taken);
      if (rows === 0) return 0;
      ledger.read(0, taken, rows, out);
      taken += rows;
      buffer.limiter?.countSamples(rows);
      return rows;
    },
  };
}

function stepsOutbox(buffer: TrajectoryBuffer): Outbox {
  const outgoing = stepsOutgoing(buffer);
  return {
    rowBytes: outgoing.rowBytes,
    lanes: buffer.lanes,
    bells: internalsOfTrajectories(buffer).bells,
    waiting: () => outgoing.waiting(),
    take(out, most) {
      const { rows, steps } = outgoing.take(out, most);
      if (steps > 0) buffer.limiter?.countSamples(steps);
      return rows;
    },
  };
}
