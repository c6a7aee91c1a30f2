/**
 * Bells: the way in which every thread of Hotslot sleeps and is woken. A thread's bell is a cache
 * line in shared memory, with a count that only grows and a flag for how its owner sleeps. Any
 * thread may ring the bell, and only the owner parks on it.
 *
 * A rule prevents lost wakes: the owner reads the count, *then* looks for work, *then* parks on the
 * count that it read. A thread that changes something publishes the change first and rings the bell
 * afterwards. So either the owner sees the change, or the count differs and park() returns at once.
 */
import { checkLayout } from '../base/addon.ts';
import { systemBells } from '../base/system-addon.ts';
import { giveWord, nextClaim, takeWord } from './claim.ts';
import type { Place } from './memory.ts';

/** Int32 words of one bell (64 bytes, so that two bells never share a cache line). */
export const BELL_WORDS = 16;
/** index of the count of rings: ringers add 1, and the owner reads it before it looks for work */
const COUNT = 0;
/**
 * index of the word that says how the owner sleeps (Parked). The owner writes it. A ringer reads it
 * after it has added to the count, to choose the call that wakes the owner
 */
const PARKED = 1;
/** index of the word for who has claimed this bell: 0, or the number of the claim (claim.ts) */
const CLAIMED = 2;
/**
 * index of the counter from which a claim gets its number: a claim that fails uses up a number, too
 */
const CLAIMS = 3;

export const Parked = { awake: 0, javascript: 1, native: 2 } as const;

let checked: ReturnType<typeof systemBells> | undefined;
/**
 * Returns the native functions for bells. Throws if native code was compiled with another layout of
 * a bell's words.
 */
function native() {
  if (checked === undefined) {
    const bells = systemBells();
    checkLayout(
      'system',
      'bells',
      { count: COUNT, parked: PARKED, words: BELL_WORDS, ...Parked },
      bells.layout,
    );
    checked = bells;
  }
  return checked;
}

export class Bell {
  /** this bell's words only: the view that native code gets */
  readonly words: Int32Array;
  /** index of this bell on its board */
  readonly index: number;
  /** number of the claim that returned this object, or 0 if BellBoard.claim() did not return it */
  readonly claim: number;

  constructor(words: Int32Array, index = 0, claim = 0) {
    this.words = words.subarray(index * BELL_WORDS, (index + 1) * BELL_WORDS);
    this.index = index;
    this.claim = claim;
  }

  /** Returns the count to park on. Read it before looking for work. */
  read(): number {
    return Atomics.load(this.words, COUNT);
  }

  /**
   * Adds 1 to the count, and wakes the owner if it sleeps on this bell. Call it after the store
   * that the owner should see.
   */
  ring(): void {
    Atomics.add(this.words, COUNT, 1);
    const parked = Atomics.load(this.words, PARKED);
    if (parked === Parked.javascript) Atomics.notify(this.words, COUNT);
    else if (parked === Parked.native) native().wakeNative(this.words, COUNT);
  }

  /**
   * Reads the count repeatedly for at most `ms` milliseconds, without sleeping. Returns true as
   * soon as the count differs from `knownCount`, or false after that time.
   */
  spin(knownCount: number, ms: number): boolean {
    if (Atomics.load(this.words, COUNT) !== knownCount) return true;
    return ms > 0 && native().lookNative(this.words, COUNT, knownCount, ms) === true;
  }

  /**
   * Spins for `spinMs`, then sleeps until the count differs from `knownCount` or `timeoutMs` is
   * over. `knownCount` is what read() returned before the owner looked for work. Returns true if
   * the bell rang, and false after the timeout. Only the owner may call it.
   */
  park(knownCount: number, timeoutMs: number, spinMs = 0): boolean {
    if (this.spin(knownCount, spinMs)) return true;
    // Restores the flag below instead of clearing it. A parkAsync() of this thread may still be
    // waiting, and no ringer would notify it if the flag were cleared.
    const before = Atomics.exchange(this.words, PARKED, Parked.javascript);
    const how = Atomics.wait(this.words, COUNT, knownCount, timeoutMs);
    Atomics.store(this.words, PARKED, before);
    return how !== 'timed-out';
  }

  /**
   * Parks as park() does, but in native code, so that a ring from native code wakes the thread.
   * Native code cannot wake a thread that sleeps in Atomics.wait().
   *
   * While the thread sleeps, for at most `timeoutMs`, it cannot be terminated.
   */
  parkNative(knownCount: number, timeoutMs: number, spinMs = 0): boolean {
    return (
      this.spin(knownCount, spinMs) ||
      native().sleepNative(this.words, COUNT, knownCount, timeoutMs) === true
    );
  }

  /**
   * Waits as park() does, for a thread that must not block (main). Resolves to true if the bell
   * rang, and to false after the timeout.
   */
  async parkAsync(knownCount: number, timeoutMs: number): Promise<boolean> {
    Atomics.store(this.words, PARKED, Parked.javascript);
    const waiting = Atomics.waitAsync(this.words, COUNT, knownCount, timeoutMs);
    const how = waiting.async ? await waiting.value : waiting.value;
    // Does not clear the flag, because another waiter of this thread may still sleep on the same
    // bell. Later, ringers may call notify() in vain, which is harmless.
    return how !== 'timed-out';
  }
}

/**
 * A word that only this thread uses. ringAll() adds to this word, to order the thread's memory
 * accesses.
 */
const fence = new Int32Array(new SharedArrayBuffer(4));

/**
 * An array of bells in shared memory, which threads claim one by one. ringAll() rings every claimed
 * bell.
 */
export class BellBoard {
  readonly words: Int32Array;
  readonly count: number;

  /** Returns a board of `count` bells that begin at `offset` of the shared memory. */
  static over({ memory, offset }: Place, count: number): BellBoard {
    return new BellBoard(new Int32Array(memory, offset, count * BELL_WORDS), count);
  }

  /** `words` has at least `count` × BELL_WORDS elements, and begins at a multiple of 64 bytes. */
  constructor(words: Int32Array, count: number) {
    native();
    this.words = words.subarray(0, count * BELL_WORDS);
    this.count = count;
  }

  /**
   * Claims a free bell for the calling thread, until the thread calls release() or ends. Returns
   * null if all bells are claimed.
   */
  claim(): Bell | null {
    for (let i = 0; i < this.count; i++) {
      const at = i * BELL_WORDS;
      if (Atomics.load(this.words, at + CLAIMED) !== 0) continue;
      const claim = nextClaim(this.words, at + CLAIMS);
      if (takeWord(this.words, at + CLAIMED, claim)) return new Bell(this.words, i, claim);
    }
    return null;
  }

  at(index: number): Bell {
    return new Bell(this.words, index);
  }

  /**
   * Releases a claimed bell. Only the thread that claimed it may call this. A ring that arrives
   * later is harmless. Idempotent.
   */
  release(bell: Bell): void {
    giveWord(bell.words, CLAIMED, bell.claim);
  }

  /**
   * Rings all claimed bells. Call it after you have published a change. If a thread claims a bell
   * at the same moment, it looks for changes after its claim. So this call sees the claim, or that
   * thread sees the change.
   */
  ringAll(): void {
    // On x64, the loads below could run before earlier stores of native code. This call could then
    // miss a claim whose thread misses the change. An atomic addition, to any word, prevents that.
    Atomics.add(fence, 0, 0);
    for (let i = 0; i < this.count; i++) {
      if (Atomics.load(this.words, i * BELL_WORDS + CLAIMED) !== 0) this.at(i).ring();
    }
  }
}
