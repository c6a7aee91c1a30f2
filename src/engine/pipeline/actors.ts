/**
 * The pipeline's view of its actors: the contract of an actor, its set-up, and who makes it. The
 * actors themselves are in actors/, and src/assembly.ts gives them to the pipeline.
 */

import type { Bell } from '../../shm/bell.ts';
import type { SharedWeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { SharedDeviceRows } from '../device-rows/attached.ts';
import type { Ring, RingShare } from '../ring/ring.ts';
import type { Role } from '../ring/slot.ts';
import type { SharedAveraging } from './averaging.ts';
import type { SharedSlots } from './slots.ts';
import type { SharedSource } from './source.ts';

/**
 * An object with a role and one method that does the work there is. The placement decides where it
 * runs: on its own thread, on one it shares, or inline in the caller's. It never waits and never
 * looks at a clock.
 */
export interface Actor {
  readonly role: Role;
  /**
   * Does what there is to do now and returns how much that was. It takes at most about 50 ms, and
   * throws on failure.
   */
  work(): number;
  /** Slot it works on, for the report when it throws. */
  readonly slot: number;
  /** It waits for something that rings no bell: its thread looks again soon. */
  readonly waitsUnrung?: boolean;
  /** Gives back the handles it borrowed. */
  close(): void;
}

/**
 * Everything a thread needs to host its roles: shared memory and handles, no objects of the opener.
 */
export interface ActorSetup {
  ring: RingShare;
  source: SharedSource;
  /** bell of the buffer on which pack's thread waits, −1 when the caller steps inline */
  packBell: number;
  mailbox: SharedWeightMailbox | null;
  /**
   * where the device writes its versions if the mailbox is not pinned, 0: straight to the mailbox
   */
  mailboxReadback: number;
  slots: SharedSlots;
  /** null if rows travel with each batch */
  deviceRows: SharedDeviceRows | null;
  /** null: no learner group */
  averaging: SharedAveraging | null;
  /** how long a thread looks at its bell before it parks */
  pollMs: number;
  /** there are more cores than busy threads: one may look at the device again and again */
  coresFree: boolean;
}

export interface ThreadSetup extends ActorSetup {
  thread: number;
  /** in runs */
  roles: readonly Role[];
  /**
   * the opener judges failures: a throw leaves ThreadState.threw instead of failing the pipeline
   */
  restartable: boolean;
}

/** Calls of the opener into a thread of actors. */
export interface ThreadOfActors {
  /** makes the actors, and throws if that fails. Their loop starts when the reply is on its way */
  start(setup: ThreadSetup): void;
}

export interface ActorMaker {
  /** makes the actors of these roles, without a bell for a caller that steps them itself */
  make(setup: ActorSetup, hosted: readonly Role[], ring: Ring, bell: Bell | null): Actor[];
  /** the module of a thread, which exposes a ThreadOfActors */
  readonly thread: URL;
}

let maker: ActorMaker | null = null;
/** By src/assembly.ts, before a pipeline is opened. */
export function actorsBy(given: ActorMaker): void {
  maker = given;
}
export function actorMaker(): ActorMaker {
  if (maker === null)
    throw new Error('import src/assembly.ts before a pipeline is opened; it registers the actors');
  return maker;
}
