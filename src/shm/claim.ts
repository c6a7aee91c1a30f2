/**
 * Words in shared memory that a thread takes and that go back when it gives them back, or ends
 * (test/model/claims.ts steps every order):
 * Claim-1  a word has one owner.
 * Claim-2  only its owner gives it back, or its owner's end. No two claims of a word have one
 *   number.
 * Claim-3  when its owner ends, wherever it was, the word is free.
 */
import { isMainThread } from 'node:worker_threads';
import { answered } from '../base/addon.ts';
import { systemThreads } from '../base/system-addon.ts';

/** Returns the next number of a word that counts claims. */
export function nextClaim(words: Int32Array, counter: number): number {
  return (Atomics.add(words, counter, 1) & 0x3fff_ffff) + 1;
}

/**
 * Changes a word from `before` to `now` in the calling thread. If that ends before another thread
 * has stored something else, the word changes from `now` to `ended`. Returns what the word was. The
 * main thread ends with the process. A worker can be terminated between two lines, so native code
 * stores and watches.
 */
export function enterWord(
  words: Int32Array,
  at: number,
  before: number,
  now: number,
  ended: number,
): number {
  if (isMainThread) return Atomics.compareExchange(words, at, before, now);
  return answered(systemThreads().watchThread(words, at, before, now, ended));
}

/**
 * Changes a word from 0 to `claim`, until it is given back or the calling thread ends. Returns
 * false if it is taken.
 */
export function takeWord(words: Int32Array, at: number, claim: number): boolean {
  return enterWord(words, at, 0, claim, 0) === 0;
}

/** Does the same for `count` words from `first` on, all or none. Returns −1, or the first taken. */
export function claimWords(words: Int32Array, first: number, count: number, claim: number): number {
  for (let at = first; at < first + count; at++) {
    if (takeWord(words, at, claim)) continue;
    for (let taken = first; taken < at; taken++) giveWord(words, taken, claim);
    return at;
  }
  return -1;
}

/** Changes a word from `claim` to 0, in the thread that took it. Idempotent. */
export function giveWord(words: Int32Array, at: number, claim: number): void {
  if (Atomics.compareExchange(words, at, claim, 0) !== claim || isMainThread) return;
  // Otherwise this thread would keep the shared memory until it ends.
  answered(systemThreads().unwatchThread(words, at, claim));
}
