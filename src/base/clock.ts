/**
 * Provides the clock for all records and deadlines, and timers of any length. Native code and all
 * threads read the same clock. Any module may import this.
 */
import { answered } from './addon.ts';
import { systemClock } from './system-addon.ts';

export function nowMs(): number {
  return answered(systemClock().nowMs());
}

/** Maximum delay of one Node timer. Node fires a timer with a longer delay after 1 ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface Timer extends Disposable {
  /** Cancels the timer. Does nothing after `fn` was called. */
  cancel(): void;
}

/**
 * Calls `fn` after `ms` milliseconds, which may be any number. Splits a long delay into several
 * timers. For Infinity, starts no timer.
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
