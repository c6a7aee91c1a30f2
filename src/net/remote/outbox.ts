/**
 * What collectors of this machine have added and no message has taken yet: a buffer like the
 * learner's, which is emptied.
 */

import type { BellBoard } from '../../shm/bell.ts';
import { stepsOutgoing } from '../../store/lanes/outgoing.ts';
import {
  internalsOfTrajectories,
  type TrajectoryBuffer,
} from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';

export interface Outbox {
  /** bytes of a row on its way */
  readonly rowBytes: number;
  /** of steps; 0 of rows */
  readonly lanes: number;
  /** rung after every add */
  readonly bells: BellBoard;
  /** rows that can be taken now */
  waiting(): number;
  /** Takes rows out, `most` of them at most, to `out`; gives how many. Their room is free then. */
  take(out: Uint8Array, most: number): number;
}

export const outboxOf = (buffer: ReplayBuffer | TrajectoryBuffer): Outbox => {
  if (buffer instanceof ReplayBuffer) return rowsOutbox(buffer);
  return stepsOutbox(buffer);
};

/**
 * The limiter of bufferLike() lets in no row over one that was not taken, so that what is read is
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
