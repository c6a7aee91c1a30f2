/**
 * The one way to wait until something is so. The rule: the bell first, the look second, the park
 * third. A change is published before its ring, so it is either seen by the look, or the bell's
 * count has moved and the park returns at once.
 *
 * The duty cycles of actors (actors/thread.ts) and collectors keep the same rule by themselves.
 */
import { isMainThread } from 'node:worker_threads';
import { describeValue } from '../base/checks.ts';
import { rangeError, stateError, typeError } from '../base/errors.ts';
import type { Bell } from './bell.ts';

/** The longest park: the safety net for a bug, and for a thread that ended, which rings no bell. */
export const MAX_PARK_MS = 100;
/** A waiter that finds work again and again lets its event loop turn this often. */
const TURN_MS = 50;

/** How long to wait. */
export interface WaitOptions {
  /** forever if left out */
  timeoutMs?: number;
  /** rejects the wait with its reason */
  signal?: AbortSignal | undefined;
}

/**
 * The result of one look: true if it is so, false if not yet, and 'again' if not yet, but work was
 * done that may have made it so.
 */
export type Poll = () => boolean | 'again';

/** A moment after which a wait is over. */
export class Deadline {
  readonly #at: number;
  constructor(ms = Number.POSITIVE_INFINITY) {
    this.#at = performance.now() + ms;
  }
  /** milliseconds, not positive once it is over */
  get left(): number {
    return this.#at - performance.now();
  }
}

/**
 * Waits without blocking. Resolves to true when `look` returns true, and to false when the time is
 * over. Rejects with what `look` throws. `park` sleeps in the bell's stead, for at most `left`
 * milliseconds, and returns when the count is no longer `seen`.
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
        // A pending waitAsync does not hold the process, but a timer does.
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
 * Does the same, blocking, for worker threads. On the main thread it returns if it need not wait,
 * and throws otherwise: `instead` names what to await there.
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

/** Throws ERR_HOTSLOT_STATE_MAIN_THREAD on the main thread. `instead` is what to await. */
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
 * Settles as the promise does, or rejects with the signal's reason if that comes first. The
 * promise's work continues.
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
