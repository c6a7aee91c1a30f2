/**
 * Replay rows as threads send them to each other: one piece of shared memory, and what lies in it.
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
  /** known to TypeScript only */
  readonly '~types'?: [F, R];
}
