/**
 * The contract of an actor: an object with a role and one method that does what there is to do. Where it runs (its own
 * thread, one it shares, or inline in the caller's) is the placement's decision; it never waits and never looks at a clock.
 */
import type { Role } from '../src/ring/slot.ts';

export interface Actor {
  readonly role: Role;
  /** Does what there is to do now and says how much that was. Bounded: at most about 50 ms. Throws when it failed. */
  work(): number;
  /** Slot it works on, for the report when it throws. */
  readonly slot: number;
  /** Gives back the handles it borrowed. */
  close(): void;
}
