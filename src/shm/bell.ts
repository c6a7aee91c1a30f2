/**
 * The one way to sleep and to wake. Every thread has one bell, a cache line of its own in shared
 * memory: a count that only grows and a flag that says how its owner sleeps. Any thread may ring,
 * and only the owner parks.
 *
 * The rule that makes it lose no wake: the owner reads the count, *then* looks for work, *then*
 * parks on the count it read. A thread that changes something publishes first and rings afterwards.
 * So either the owner's look sees the change, or the count has moved and the park returns at once.
 */
import { checkLayout } from '../base/addon.ts';
import { systemBells } from '../base/system-addon.ts';
import { giveWord, nextClaim, takeWord } from './claim.ts';
import type { Place } from './memory.ts';

/** Int32 words of one bell (64 bytes, so that two bells never share a cache line). */
export const BELL_WORDS = 16;
/** wakes so far, written by ringers (add), read by the owner before it looks for work */
const COUNT = 0;
/** how the owner sleeps, written by the owner only, read by ringers after the count moved */
const PARKED = 1;
/** who has taken this bell: 0, or the number of that claim (claim.ts) */
const CLAIMED = 2;
/** claims so far, also those that came too late */
const CLAIMS = 3;

export const Parked = { awake: 0, javascript: 1, native: 2 } as const;

let checked: ReturnType<typeof systemBells> | undefined;
/**
 * Returns the native functions for bells. Throws unless native code was compiled with the same
 * words.
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
  /** the words of this bell only, so that native code can be handed one view */
  readonly words: Int32Array;
  /** its place on the board it was claimed from */
  readonly index: number;
  /** the number of this object's claim, or 0 without one */
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

  /** Wakes the owner, however it sleeps. Call it after the store that it should see. */
  ring(): void {
    Atomics.add(this.words, COUNT, 1);
    const parked = Atomics.load(this.words, PARKED);
    if (parked === Parked.javascript) Atomics.notify(this.words, COUNT);
    else if (parked === Parked.native) native().wakeNative(this.words, COUNT);
  }

  /**
   * Looks at the count for `ms` without sleeping. Returns true as soon as it differs from `seen`.
   */
  spin(knownCount: number, ms: number): boolean {
    if (Atomics.load(this.words, COUNT) !== knownCount) return true;
    return ms > 0 && native().lookNative(this.words, COUNT, knownCount, ms) === true;
  }

  /**
   * Spins for `spinMs`, then sleeps until the count differs from `knownCount` or `timeoutMs` is over.
   * Owner only. Returns true if the bell rang.
   */
  park(knownCount: number, timeoutMs: number, spinMs = 0): boolean {
    if (this.spin(knownCount, spinMs)) return true;
    // Put back rather than cleared: an asynchronous waiter of the same thread may still be there.
    const before = Atomics.exchange(this.words, PARKED, Parked.javascript);
    const how = Atomics.wait(this.words, COUNT, knownCount, timeoutMs);
    Atomics.store(this.words, PARKED, before);
    return how !== 'timed-out';
  }

  /**
   * Does the same if native code rings, which wakes no sleeper of JavaScript's. The thread cannot
   * be ended meanwhile, for at most `timeoutMs`.
   */
  parkNative(knownCount: number, timeoutMs: number, spinMs = 0): boolean {
    return (
      this.spin(knownCount, spinMs) ||
      native().sleepNative(this.words, COUNT, knownCount, timeoutMs) === true
    );
  }

  /**
   * Does the same for a thread that must not block (main). Resolves when the bell rings or the time
   * is over.
   */
  async parkAsync(knownCount: number, timeoutMs: number): Promise<boolean> {
    Atomics.store(this.words, PARKED, Parked.javascript);
    const waiting = Atomics.waitAsync(this.words, COUNT, knownCount, timeoutMs);
    const how = waiting.async ? await waiting.value : waiting.value;
    // Several waiters of one thread share its bell: the flag stays up, which costs ringers a notify
    // and loses nothing.
    return how !== 'timed-out';
  }
}

/** A word of this thread's own. */
const fence = new Int32Array(new SharedArrayBuffer(4));

/**
 * A row of bells in shared memory that threads take one by one. `ringAll` reaches each one taken.
 */
export class BellBoard {
  readonly words: Int32Array;
  readonly count: number;

  /** Returns a board of `count` bells in shared memory, from `offset` on. */
  static over({ memory, offset }: Place, count: number): BellBoard {
    return new BellBoard(new Int32Array(memory, offset, count * BELL_WORDS), count);
  }

  /** `words` holds `count` × BELL_WORDS words, 64-byte aligned. */
  constructor(words: Int32Array, count: number) {
    native();
    this.words = words.subarray(0, count * BELL_WORDS);
    this.count = count;
  }

  /**
   * Takes a free bell for the calling thread, until that gives it back or ends. Returns null if all
   * are taken.
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
   * Gives a claimed bell back, in the thread that took it. A ring that still comes is harmless.
   * Idempotent.
   */
  release(bell: Bell): void {
    giveWord(bell.words, CLAIMED, bell.claim);
  }

  /**
   * Rings all claimed bells, after a change was published. A thread that claims a bell meanwhile
   * looks for the change after its claim, so one of the two sees the other's.
   */
  ringAll(): void {
    // On x64 a load may come before native code's stores, but not before an addition to any word.
    Atomics.add(fence, 0, 0);
    for (let i = 0; i < this.count; i++) {
      if (Atomics.load(this.words, i * BELL_WORDS + CLAIMED) !== 0) this.at(i).ring();
    }
  }
}
