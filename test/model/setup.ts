/** What is modelled in one run of the checker. */
import type { Grain } from './program.ts';
import type { Role } from './roles.ts';

export interface Setup {
  /** slots in the ring */
  depth: 1 | 2 | 3;
  /** sequences to bring through, at least depth + 1 so that every slot is used again */
  ticks: number;
  /** the roles of each thread; the requester is always on pack's */
  placement: Role[][];
  /**
   * a stop at any moment; the death of any one thread at any moment, with a successor; or neither
   */
  faults?: readonly ('stop' | 'death')[];
  /**
   * A client asks for each tick with `startPrepare`, waits for it and launches the learner itself;
   * no replay role.
   */
  client?: boolean;
  /**
   * A collector lets requests through one by one, as the rate limiter does; else they are never
   * gated.
   */
  gated?: boolean;
  /**
   * How a native sleeper hears of a completion: the host device rings its bell; on a GPU it queries
   * in rounds, so here it gets up once an event it waits for is done. Or the device hangs in the
   * first graph, which only a stop ends.
   */
  completion?: 'rings' | 'rounds' | 'never';
  broken?: Mutation;
  /** how finely bells are modelled; by default every access */
  grain?: Grain;
}

/** One rule of the protocol broken on purpose. */
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
 * Emits the ring of the bell of `to`'s thread into the ringer's program; `from` names it for
 * mutations.
 */
export type Ring = (from: string, to: Role | 'client') => void;
