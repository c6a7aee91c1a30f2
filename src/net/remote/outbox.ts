/**
 * The outbox: rows that collectors of this machine have added and no message has taken yet, in a
 * buffer like the learner's that is emptied.
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
  /** lanes of a buffer of steps, or 0 of a buffer of rows */
  readonly lanes: number;
  /** rung after every add */
  readonly bells: BellBoard;
  /** rows that can be taken now */
  waiting(): number;
  /** Moves at most `most` rows to `out`, frees their memory and returns how many. */
  take(out: Uint8Array, most: number): number;
}

export const outboxOf = (buffer: ReplayBuffer | TrajectoryBuffer): Outbox => {
  if (buffer instanceof ReplayBuffer) return rowsOutbox(buffer);
  return stepsOutbox(buffer);
};

/**
 * The limiter of bufferLike() prevents overwriting a row that was not taken, so rows are read
 * whole.
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
