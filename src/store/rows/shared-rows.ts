/** Replay rows as threads hand them to each other: one piece of shared memory, and what lies in it. */

import { BELL_WORDS } from '../../shm/bell.ts';
import { roundUp } from '../../shm/memory.ts';
import type { SharedRateLimiter } from '../rate-limiter.ts';
import type { NonFiniteNumbers } from './field-roles.ts';
import type { Fields, RowsOf } from './fields.ts';
import { type PackLayout, rowStride } from './pack-layout.ts';

/** Threads that can wait for rows of one buffer. */
export const BELLS = 8;
/** before the bells: identity, reserved, committed, waiting readers, a cache line each; and the board of written rows, four */
export const BELLS_AT = 8 * 64;
/** before row 0; native/rows/rows.hpp counts the same */
export const HEADER_BYTES = BELLS_AT + BELLS * BELL_WORDS * 4;

export const KIND = 'hotslot.ReplayBuffer';

/** What share() gives and attach() takes; goes through postMessage as it is. */
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

/** Of a header and so many rows. */
export function memoryBytes(capacity: number, rowBytes: number): number {
  return roundUp(HEADER_BYTES + capacity * rowStride(rowBytes), 8);
}
