/**
 * Waits until a condition is true. A waiter reads its bell first, checks the condition second, and
 * parks third. A thread that changes something publishes the change before it rings the bell. So
 * either the check sees the change, or the bell's count differs and the park returns at once.
 *
 * The loops of actors (actors/thread.ts) and collectors follow the same rule in their own code.
 */
import { isMainThread } from 'node:worker_threads';
import { describeValue } from '../base/checks.ts';
import { rangeError, stateError, typeError } from '../base/errors.ts';
import type { Bell } from './bell.ts';

/**
 * The longest park. After this time a waiter checks its condition again, because a thread that
 * ended rings no bell, and a bug could lose a ring.
 */
export const MAX_PARK_MS = 100;
/**
 * Milliseconds after which a waiter lets its event loop run, if its checks keep returning 'again'.
 */
const TURN_MS = 50;

/** Limits of a wait. */
export interface WaitOptions {
  /** milliseconds, default: no limit */
  timeoutMs?: number;
  /** rejects the wait with the signal's reason when it is aborted */
  signal?: AbortSignal | undefined;
}

/**
 * Checks a condition once. Returns true if the condition holds, and false if it does not. Returns
 * 'again' if it does not hold yet, but the check did work that may have made it true.
 */
export type Poll = () => boolean | 'again';

/** The time at which a wait ends. */
export class Deadline {
  readonly #at: number;
  constructor(ms = Number.POSITIVE_INFINITY) {
    this.#at = performance.now() + ms;
  }
  /** milliseconds until the deadline, 0 or negative after it */
  get left(): number {
    return this.#at - performance.now();
  }
}

/**
 * Waits without blocking the thread. Resolves to true when `check` returns true, and to false after
 * `timeoutMs`. Rejects with what `check` throws.
 *
 * `park` replaces the park on the bell. It must sleep for at most `left` milliseconds, and return
 * when the bell's count differs from `count`.
 */
export async function waitFor(
  bell: Bell,
  check: Poll,
  {
    timeoutMs,
    signal,
    longestMs = MAX_PARK_MS,
    park = (count, left) => bell.parkAsync(count, Math.min(left, longestMs)),
  }: WaitOptions & {
    longestMs?: number;
    park?: (count: number, left: number) => Promise<unknown>;
  } = {},
): Promise<boolean> {
  const deadline = new Deadline(timeoutMs);
  const wake = () => bell.ring();
  let turn = new Deadline(TURN_MS);
  let hold: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const count = bell.read();
      signal?.throwIfAborted();
      const found = check();
      if (found === true) return true;
      const { left } = deadline;
      if (left <= 0) return false;
      if (found === 'again') {
        if (turn.left > 0) continue;
        await new Promise(setImmediate);
      } else {
        if (!hold) signal?.addEventListener('abort', wake);
        // This timer keeps the process alive during the wait. A pending waitAsync does not.
        hold ??= setInterval(() => {}, 2 ** 30);
        if (!signal?.aborted) await park(count, left);
      }
      turn = new Deadline(TURN_MS);
    }
  } finally {
    clearInterval(hold);
    signal?.removeEventListener('abort', wake);
  }
}

/**
 * Waits as waitFor() does, but blocks the thread, which must be a worker. On the main thread,
 * waitForSync() returns if no wait is needed, and throws otherwise. `instead` names the call to
 * await on the main thread.
 */
export function waitForSync(
  bell: Bell,
  check: Poll,
  {
    timeoutMs,
    instead,
    longestMs = MAX_PARK_MS,
    park = (count, left) => bell.park(count, Math.min(left, longestMs)),
  }: {
    timeoutMs?: number | undefined;
    instead: string;
    longestMs?: number;
    park?: (count: number, left: number) => unknown;
  },
): boolean {
  const deadline = new Deadline(timeoutMs);
  for (;;) {
    const count = bell.read();
    const found = check();
    if (found === true) return true;
    const { left } = deadline;
    if (left <= 0) return false;
    if (found === 'again') continue;
    refuseMainThread(instead);
    park(count, left);
  }
}

/** Throws ERR_HOTSLOT_STATE_MAIN_THREAD on the main thread. `instead` names what to await. */
export function refuseMainThread(instead: string): void {
  if (isMainThread)
    throw stateError('MAIN_THREAD', `the main thread never blocks: await ${instead} instead`);
}

export function checkTimeout(timeoutMs: unknown = 0): void {
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0))
    throw rangeError(
      `timeoutMs must be a number of milliseconds of at least 0, got ${describeValue(timeoutMs)}`,
    );
}

export function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw typeError(`signal must be an AbortSignal, got ${describeValue(signal)}`);
}

/**
 * Settles as the promise does, or rejects with the signal's reason if the signal is aborted first.
 * The work of the promise continues after an abort.
 */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    if (signal.aborted) abort();
  });
}
