/**
 * The newest places of a full ring, copied in one go: what a save comes back to where writers go round the ring faster than files
 * are written, and would overtake whatever is copied piece by piece.
 */
import type { Ledger } from '../buffer/ledger.ts';
import { nowMs } from '../clock.ts';

/** What writers had begun on is there so soon, or they were stopped meanwhile. */
const SOON_MS = 2;

/** Places [from, to), which follow on [lowest, from) where that is less. */
export interface Swept {
  readonly lowest: number;
  readonly from: number;
  readonly to: number;
  readonly bytes: Uint8Array;
}

/**
 * Copies places from `reached` on, or from the oldest that is there, up to as many as make the ring full without those that were
 * overtaken meanwhile. Null when writers were too fast even for this: another time may do.
 */
export function sweep(ledger: Ledger, reached: number): Swept | null {
  const { perLane, placeBytes } = ledger;
  const newest = () => ledger.states()[1] as number;
  const first = newest();
  const from = Math.max(reached, first - perLane);
  const early = new Uint8Array((first - from) * placeBytes);
  const lowest = ledger.read(0, from, first - from, early);
  // Whoever overtook places has begun on so many newer ones.
  const to = Math.max(lowest + perLane, first);
  for (const end = nowMs() + SOON_MS; newest() < to; ) if (nowMs() > end) return null;
  const late = new Uint8Array((to - first) * placeBytes);
  if (ledger.read(0, first, to - first, late) > first) return null;
  const begin = Math.max(from, lowest);
  const bytes = new Uint8Array((to - begin) * placeBytes);
  if (begin > first) return null;
  bytes.set(early.subarray((begin - from) * placeBytes));
  bytes.set(late, (first - begin) * placeBytes);
  return { lowest, from: begin, to, bytes };
}
