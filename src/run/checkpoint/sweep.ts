/**
 * Copies the newest lap of a full ring to memory in one step, called a sweep. A save sweeps if
 * writers would overtake a copy in pieces.
 */

import { nowMs } from '../../base/clock.ts';
import type { SnapshotIO } from '../../store/rows/snapshot-io.ts';

/**
 * Milliseconds that a sweep waits for writers to complete the places that they have begun. Only
 * writers whose threads are not running take longer. sweep() then returns null.
 */
const SOON_MS = 2;
/**
 * Most bytes of each half of a sweep. The first half contains the places that are complete at the
 * start, and the second half those for which the sweep waits. If a half would have more bytes,
 * sweep() returns null.
 */
const MAX_HALF = 28 << 20;

/**
 * Places [from, to) in two parts, as a sweep copied them. If `lowest` is less than `from`, earlier
 * files contain [lowest, from). The next sweep overwrites the parts.
 */
export interface Swept {
  readonly lowest: number;
  readonly from: number;
  readonly to: number;
  readonly parts: readonly [Uint8Array, Uint8Array];
}

export class Sweeper {
  readonly #ledger: Pick<SnapshotIO, 'perLane' | 'placeBytes' | 'states' | 'read'>;
  /** most places of one half */
  readonly #most: number;
  #halves: readonly [Uint8Array, Uint8Array] | null = null;

  constructor(ledger: Pick<SnapshotIO, 'perLane' | 'placeBytes' | 'states' | 'read'>) {
    this.#ledger = ledger;
    this.#most = Math.min(ledger.perLane, Math.floor(MAX_HALF / ledger.placeBytes));
  }

  /**
   * Returns whether the places from `reached` to `target` fit in one half of a sweep. If writers
   * are already past `target`, the places up to the newest one must fit.
   */
  fits(reached: number, target: number): boolean {
    return Math.min(Math.max(target, this.#newest()) - reached, this.#ledger.perLane) <= this.#most;
  }

  /**
   * Copies the places from `reached` to the newest one. If writers have overwritten `reached`,
   * begins with the oldest complete place. Together with the places before `reached`, which are in
   * earlier files, the result is one full lap of the ring.
   *
   * Returns null if a half has too little room, if writers overtook the copy, or if they took
   * longer than `SOON_MS`. The caller may retry.
   */
  sweep(reached: number): Swept | null {
    const { perLane, placeBytes } = this.#ledger;
    const first = this.#newest();
    const from = Math.max(reached, first - perLane);
    if (first - from > this.#most) return null;
    const half = () => new Uint8Array(this.#most * placeBytes);
    this.#halves ??= [half(), half()];
    const early = this.#halves[0].subarray(0, (first - from) * placeBytes);
    const lowest = this.#ledger.read(0, from, first - from, early);
    // For each place that writers overwrote during the copy, they have begun one newer place. So
    // the sweep ends one lap after `lowest`.
    const to = Math.max(lowest + perLane, first);
    if (to - first > this.#most) return null;
    for (const end = nowMs() + SOON_MS; this.#newest() < to; ) if (nowMs() > end) return null;
    const late = this.#halves[1].subarray(0, (to - first) * placeBytes);
    if (this.#ledger.read(0, first, to - first, late) > first) return null;
    const begin = Math.max(from, lowest);
    if (begin > first) return null;
    return { lowest, from: begin, to, parts: [early.subarray((begin - from) * placeBytes), late] };
  }

  #newest(): number {
    return this.#ledger.states()[1] as number;
  }
}
