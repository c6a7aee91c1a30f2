/**
 * Copies the newest places of a full ring in one go. A save uses it if writers go round the ring
 * faster than files are written, and would overtake a copy in pieces.
 */

import { nowMs } from '../../base/clock.ts';
import type { SnapshotIO } from '../../store/rows/snapshot-io.ts';

/**
 * Most milliseconds until places that writers had begun are complete, unless the writers were
 * stopped.
 */
const SOON_MS = 2;
/**
 * Most bytes of either half of a sweep: places that are complete at the start, and places that are
 * waited for.
 */
const MAX_HALF = 28 << 20;

/**
 * Places [from, to) in two parts. If `lowest` is less than `from`, earlier files hold [lowest,
 * from). The next sweep reuses the parts' memory.
 */
export interface Swept {
  readonly lowest: number;
  readonly from: number;
  readonly to: number;
  readonly parts: readonly [Uint8Array, Uint8Array];
}

export class Sweeper {
  readonly #ledger: Pick<SnapshotIO, 'perLane' | 'placeBytes' | 'states' | 'read'>;
  /** places of a half */
  readonly #most: number;
  #halves: readonly [Uint8Array, Uint8Array] | null = null;

  constructor(ledger: Pick<SnapshotIO, 'perLane' | 'placeBytes' | 'states' | 'read'>) {
    this.#ledger = ledger;
    this.#most = Math.min(ledger.perLane, Math.floor(MAX_HALF / ledger.placeBytes));
  }

  /**
   * Returns whether the places that a sweep up to `target` copies at once fit in memory, as far as
   * writers have come by now.
   */
  fits(reached: number, target: number): boolean {
    return Math.min(Math.max(target, this.#newest()) - reached, this.#ledger.perLane) <= this.#most;
  }

  /**
   * Copies places from `reached` on, or from the oldest complete one, up to the number that fills
   * the ring without those overtaken meanwhile. Returns null if writers were too fast even for
   * this. Another try may succeed.
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
    // Writers that overtook a number of places have begun on as many newer ones.
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
