/**
 * The object that describes a replay buffer to another thread: its shared memory, and the layout of
 * that memory.
 */

import type { SharedRateLimiter } from '../rate-limiter.ts';
import type { NonFiniteNumbers } from './field-roles.ts';
import type { Fields, RowsOf } from './fields.ts';
import type { PackLayout } from './pack-layout.ts';

export const KIND = 'hotslot.ReplayBuffer';

/** The object that share() returns and attach() accepts. postMessage sends it as it is. */
export interface SharedReplayBuffer<F extends Fields = Fields, R extends object = RowsOf<F>> {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly capacity: number;
  readonly layout: PackLayout;
  readonly offPolicy: boolean;
  readonly nonFinite: NonFiniteNumbers;
  readonly limiter: SharedRateLimiter | null;
  /** exists only as a type */
  readonly '~types'?: [F, R];
}
