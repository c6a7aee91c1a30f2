/**
 * The clock of every record and deadline, whose milliseconds native code and all threads count
 * alike, and timers of any length. Any module may import it.
 */
import { answered } from './addon.ts';
import { systemClock } from './system-addon.ts';

export function nowMs(): number {
  return answered(systemClock().nowMs());
}

/** Node fires a timer of more milliseconds after 1 ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface Timer extends Disposable {
  /** Does nothing once `fn` was called. */
  cancel(): void;
}

/**
 * Calls `fn` after `ms`, which may be any number: a long time is waited for in pieces, and Infinity
 * arms no timer.
 */
export function callAfter(ms: number, fn: () => void): Timer {
  let timer: NodeJS.Timeout | undefined;
  const arm = (left: number) => {
    const piece = Math.min(left, MAX_TIMER_MS);
    timer = setTimeout(() => (left > piece ? arm(left - piece) : fn()), piece);
  };
  if (ms !== Number.POSITIVE_INFINITY) arm(ms);
  const cancel = () => clearTimeout(timer);
  return { cancel, [Symbol.dispose]: cancel };
}
