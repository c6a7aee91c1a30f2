/**
 * The actors as the pipeline sees them: the interface of an actor, its set-up, and the module that
 * creates it. The actors themselves are in actors/, and src/assembly.ts registers them here.
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
 * An object that has one role, and one method that does the work available now. The placement
 * decides where the actor runs: on its own thread, on a shared thread, or inline in the caller's
 * thread. The actor never waits, and never reads a clock to decide what to do.
 */
export interface Actor {
  readonly role: Role;
  /**
   * Does the work that is available now and returns the number of actions. A call takes at most
   * about 50 ms, and throws on failure.
   */
  work(): number;
  /** Slot that the actor works on, for the error report if it throws. */
  readonly slot: number;
  /**
   * Whether the actor waits for something that rings no bell. Its thread then calls work() again
   * soon.
   */
  readonly waitsUnrung?: boolean;
  /** Releases the handles that the actor borrowed. */
  close(): void;
}

/**
 * All that a thread needs to create its actors: shared memory and handles, but no objects of the
 * opener.
 */
export interface ActorSetup {
  ring: RingShare;
  source: SharedSource;
  /**
   * index of the buffer's bell on which pack's thread waits, −1 if the caller steps the actors
   * inline
   */
  packBell: number;
  mailbox: SharedWeightMailbox | null;
  /**
   * handle of the memory to which the device writes weight versions if the mailbox is not pinned, 0
   * if it writes to the mailbox itself
   */
  mailboxReadback: number;
  slots: SharedSlots;
  /** null if rows travel with each batch */
  deviceRows: SharedDeviceRows | null;
  /** null without a learner group */
  averaging: SharedAveraging | null;
  /** milliseconds for which a thread spins on its bell before it parks */
  pollMs: number;
  /** whether there are more cores than busy threads, so that one thread may spin on the device */
  coresFree: boolean;
}

export interface ThreadSetup extends ActorSetup {
  thread: number;
  /** the thread's roles in runs */
  roles: readonly Role[];
  /**
   * whether the opener decides about failures. A throw then leaves ThreadState.threw instead of
   * failing the pipeline
   */
  restartable: boolean;
}

/** Calls that the opener makes to a thread of actors. */
export interface ThreadOfActors {
  /** creates the actors, and throws if that fails. Their loop starts after the reply is sent */
  start(setup: ThreadSetup): void;
}

export interface ActorMaker {
  /** creates the actors of these roles. `bell` is null for a caller that steps the actors inline */
  make(setup: ActorSetup, hosted: readonly Role[], ring: Ring, bell: Bell | null): Actor[];
  /** URL of the module that a thread runs, which exposes a ThreadOfActors */
  readonly thread: URL;
}

let maker: ActorMaker | null = null;
/** Registers the maker of actors. src/assembly.ts calls it before a pipeline is opened. */
export function actorsBy(given: ActorMaker): void {
  maker = given;
}
export function actorMaker(): ActorMaker {
  if (maker === null)
    throw new Error('import src/assembly.ts before a pipeline is opened; it registers the actors');
  return maker;
}
