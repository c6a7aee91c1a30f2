/**
 * A note in shared memory about the first failure. One thread writes the note once, and every
 * thread can read it. Any module may import this file.
 */
import { decodeError, encodeError } from './error.ts';

/**
 * States of a note. A writer claims the note by changing `none` to `writing`. By storing `written`
 * it publishes all other words.
 */
const State = { none: 0, writing: 1, written: 2 } as const;
/** The value of a note's first word when the note can be read. */
export const NOTE_WRITTEN = State.written;
/**
 * indexes of a note's words. Word 0 is the state, and word 1 is the length of the text in bytes.
 * The facts follow as float64 values, and then the text, which is the error as JSON
 */
const FACTS_AT = 2;
const MAX_FACTS = 7;
const TEXT_AT = 16;
const TEXT_BYTES = 4032;

/** Number of Int32 words of a note. A note begins at a multiple of 8 bytes. */
export const NOTE_WORDS = TEXT_AT + TEXT_BYTES / 4;

export class SharedNote {
  readonly #words: Int32Array;
  readonly #facts: Float64Array;
  readonly #text: Uint8Array;

  constructor(words: Int32Array) {
    this.#words = words;
    this.#facts = new Float64Array(words.buffer, words.byteOffset + FACTS_AT * 4, MAX_FACTS);
    this.#text = new Uint8Array(words.buffer, words.byteOffset + TEXT_AT * 4, TEXT_BYTES);
  }

  get written(): boolean {
    return Atomics.load(this.#words, 0) === State.written;
  }

  /**
   * Writes the note, unless another thread wrote it first. With `takeOver`, write() also overwrites
   * a note that another thread has begun. Use `takeOver` only if that thread is known to be dead.
   */
  write(facts: readonly number[], error: unknown, { takeOver = false } = {}): void {
    const text = encodeError(error, TEXT_BYTES);
    const before = Atomics.compareExchange(this.#words, 0, State.none, State.writing);
    if (before === State.written || (before === State.writing && !takeOver)) return;
    this.#text.set(text);
    this.#facts.set(facts);
    this.#words[1] = text.length;
    // Publishes everything above to every thread that reads `written`.
    Atomics.store(this.#words, 0, State.written);
  }

  /**
   * Empties the note, so that another note can be written. Use clear() only if a single thread
   * reads the note, and only in that thread. Another reader could get a mixture of two notes.
   */
  clear(): void {
    Atomics.store(this.#words, 0, State.none);
  }

  /**
   * Returns the note, or null if none is written yet. Each call creates a new error, so that the
   * reader may throw it.
   */
  read(): { facts: readonly number[]; error: Error } | null {
    if (!this.written) return null;
    return { facts: [...this.#facts], error: decodeError(this.#text.subarray(0, this.#words[1])) };
  }
}
