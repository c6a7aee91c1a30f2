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
  | 'a thread reads its bell after it checks the slots'
  | 'a thread checks for a stop before it reads its bell'
  | 'a successor rings no bell when it starts'
  | 'a successor ignores the launch mark'
  | 'a successor ignores a stop while it drains the stream'
  | 'a successor reads the mark before it drains the stream'
  | 'a thread parks in JavaScript while events are pending'
  | 'a ringer reads the flag before it increments the bell'
  | 'a ringer wakes every sleeper with Atomics.notify'
  | 'pack rings the bell before it stores the state'
  | 'the stopper rings the bells before it stores the stop word'
  | 'pack stores Packed before it writes the rows'
  | 'submit stores Submitted before it records the event'
  | 'submit records the event before it enqueues the copy'
  | 'replay records `spent` before it launches the graph'
  | 'poll stores Free before it writes the journal'
  | 'poll stores Free before the device is done'
  | 'replay launches the newest Ready slot first'
  | 'the requester clears the header after it stores Requested'
  | 'the requester clears the header before it stores Requested'
  | 'the client marks itself as waiting after its check';

/**
 * Emits the ring of the bell of `to`'s thread into the ringer's program. `from` is the ringer's
 * name in mutations.
 */
export type Ring = (from: string, to: Role | 'client') => void;
