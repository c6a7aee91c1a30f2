/**
 * Claims: words in shared memory, each owned by the thread that took it. A word becomes free when
 * its owner releases it or ends. test/model/claims.ts checks these rules in every order of the
 * threads' steps:
 * Claim-1  A word has at most one owner.
 * Claim-2  Only the owner, or the end of the owner's thread, frees a word. Two claims of a word
 *   have different numbers.
 * Claim-3  When the owner ends, at any point of its code, the word becomes free.
 */
import { isMainThread } from 'node:worker_threads';
import { answered } from '../base/addon.ts';
import { systemThreads } from '../base/system-addon.ts';

/** Increments the word that counts claims, and returns the number of the new claim, from 1 on. */
export function nextClaim(words: Int32Array, counter: number): number {
  return (Atomics.add(words, counter, 1) & 0x3fff_ffff) + 1;
}

/**
 * Changes a word from `before` to `now`, and returns its previous value. If the word has any other
 * value, leaves it unchanged. If the calling thread ends while the word is `now`, native code
 * changes the word to `ended`.
 *
 * A worker can be terminated between two lines of JavaScript. So a single native call changes the
 * word and begins to watch the thread. The main thread ends with the process and needs no watch.
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
 * Changes a word from 0 to `claim`, until the calling thread calls giveWord() or ends. Returns
 * false if the word is already taken.
 */
export function takeWord(words: Int32Array, at: number, claim: number): boolean {
  return enterWord(words, at, 0, claim, 0) === 0;
}

/**
 * Takes `count` words from index `first` on, or none. Returns −1 if it took them, else the index of
 * the first word that was already taken.
 */
export function claimWords(words: Int32Array, first: number, count: number, claim: number): number {
  for (let at = first; at < first + count; at++) {
    if (takeWord(words, at, claim)) continue;
    for (let taken = first; taken < at; taken++) giveWord(words, taken, claim);
    return at;
  }
  return -1;
}

/**
 * Changes a word from `claim` to 0. Only the thread that took the word may call this. Idempotent.
 */
export function giveWord(words: Int32Array, at: number, claim: number): void {
  if (Atomics.compareExchange(words, at, claim, 0) !== claim || isMainThread) return;
  // Ends the watch, which would otherwise keep the shared memory alive until this thread ends.
  answered(systemThreads().unwatchThread(words, at, claim));
}
