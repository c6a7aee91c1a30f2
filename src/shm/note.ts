/**
 * The first failure, as a note in shared memory: written once, and read by every thread. Any module
 * may import it.
 */
import { decodeError, encodeError } from './error.ts';

/**
 * The writer changes it: from none to writing claims the note, and written publishes all other
 * words.
 */
const State = { none: 0, writing: 1, written: 2 } as const;
/** The first word of a note that can be read. */
export const NOTE_WRITTEN = State.written;
/** words: state, bytes of text, then the facts as float64, then the error as JSON */
const FACTS_AT = 2;
const MAX_FACTS = 7;
const TEXT_AT = 16;
const TEXT_BYTES = 4032;

/** Int32 words of a note, which starts at a multiple of 8 bytes. */
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
   * Writes the note, unless another writer was first. With `takeOver`, a note begun and not
   * finished is written again, for a caller that knows that its writer is dead.
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

  /** Makes room for another note. Only for the one thread that reads this one. */
  clear(): void {
    Atomics.store(this.#words, 0, State.none);
  }

  /**
   * Returns the note, or null while none is written. The error is new each time, so that its reader
   * may throw it.
   */
  read(): { facts: readonly number[]; error: Error } | null {
    if (!this.written) return null;
    return { facts: [...this.#facts], error: decodeError(this.#text.subarray(0, this.#words[1])) };
  }
}
