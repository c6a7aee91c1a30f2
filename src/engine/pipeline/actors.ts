/**
 * What a pipeline knows of its actors: the contract of one, what it is made of, and who makes it.
 * The actors themselves stand in actors/; src/assembly.ts gives them to the pipeline.
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
 * An object with a role and one method that does what there is to do. Where it runs (its own
 * thread, one it shares, or inline in the caller's) is the placement's decision. It never waits and
 * never looks at a clock.
 */
export interface Actor {
  readonly role: Role;
  /**
   * Does what there is to do now and says how much that was. Bounded: at most about 50 ms. Throws
   * when it failed.
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
  /** pack's thread waits on this bell of the buffer; −1 when the caller steps inline */
  packBell: number;
  mailbox: SharedWeightMailbox | null;
  /** where the device writes its versions when the mailbox is not pinned; 0: straight there */
  mailboxReadback: number;
  slots: SharedSlots;
  /** null where rows travel with each batch */
  deviceRows: SharedDeviceRows | null;
  /** null: no learner group */
  averaging: SharedAveraging | null;
  /** how long a thread looks at its bell before it parks */
  lookMs: number;
  /** there are more cores than busy threads: one may look at the device again and again */
  coresFree: boolean;
}

export interface ThreadSetup extends ActorSetup {
  thread: number;
  /** in runs */
  roles: readonly Role[];
  /**
   * failures are the opener's to judge: a throw leaves ThreadState.threw instead of failing the
   * pipeline
   */
  restartable: boolean;
}

/** What the opener calls in a thread of actors. */
export interface ThreadOfActors {
  /**
   * makes the actors, and throws where that fails; their loop starts when the reply is on its way
   */
  start(setup: ThreadSetup): void;
}

export interface ActorMaker {
  /** the actors of these roles; without a bell for a caller that steps them itself */
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
    throw new Error('import src/assembly.ts before a pipeline is opened: it brings the actors');
  return maker;
}
