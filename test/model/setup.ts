/** What one run of the checker models. */
import type { Grain } from './program.ts';
import type { Role } from './roles.ts';

export interface Setup {
  /** number of slots in the ring */
  depth: 1 | 2 | 3;
  /** number of sequences to complete, at least depth + 1 so that every slot is used again */
  ticks: number;
  /** the roles of each thread; the requester is always on pack's thread */
  placement: Role[][];
  /**
   * a stop at any moment; the death of one thread at any moment, which has a successor; or neither
   */
  faults?: readonly ('stop' | 'death')[];
  /**
   * whether a client asks for each tick with `startPrepare`, waits for it and launches the learner
   * itself; there is no replay role then
   */
  client?: boolean;
  /**
   * whether requests wait for a collector's rows, as with the rate limiter; otherwise every request
   * is admitted
   */
  gated?: boolean;
  /**
   * How a native sleeper learns of a completion. `rings`: the CPU device rings its bell. `rounds`:
   * on a GPU it queries in rounds, so the model wakes it once an event that it waits for is done.
   * `never`: the device hangs in the first graph, and only a stop ends the wait.
   */
  completion?: 'rings' | 'rounds' | 'never';
  broken?: Mutation;
  /** how finely threads are modelled; `access` by default */
  grain?: Grain;
}

/** One rule of the protocol that is broken on purpose. */
export type Mutation =
  | `no ring: ${string} to ${string}`
  | 'bell read after the scan'
  | 'stop looked at before the bell is read'
  | 'no ring on restart'
  | 'launch mark missing'
  | 'drain that ignores a stop'
  | 'mark read before the stream is drained'
  | 'JavaScript park with events pending'
  | 'flag looked at before the count is added'
  | 'every sleeper notified in JavaScript'
  | 'bell rung before the state is stored'
  | 'stop rung before it is stored'
  | 'state stored before the rows'
  | 'state stored before the event is recorded'
  | 'event recorded before the copy'
  | 'spent recorded before the launch'
  | 'Free stored before the journal'
  | 'Free stored before the device is done'
  | 'youngest Ready slot first'
  | 'request cleared from the header after the move'
  | 'request cleared from the header before the move'
  | 'client says that it waits after it looked';

/**
 * Emits the ring of the bell of `to`'s thread into the ringer's program. `from` is the ringer's
 * name in mutations.
 */
export type Ring = (from: string, to: Role | 'client') => void;
