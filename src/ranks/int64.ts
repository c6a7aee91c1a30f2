/** An int64 of shared memory, decoded. Reading it makes no BigInt while it stays what it was. */

/**
 * Requires that the word's upper half never falls. Then two loads tell whether the word has changed: when the upper half that is loaded
 * second is the known one, it was so too when the lower half was loaded.
 */
export class Int64<T> {
  readonly #word: BigInt64Array;
  readonly #halves: Int32Array;
  readonly #decode: (word: bigint) => T;
  #low = Number.NaN;
  #high = Number.NaN;
  #known!: T;

  constructor(words: BigInt64Array, index: number, decode: (word: bigint) => T) {
    const at = words.byteOffset + 8 * index;
    this.#word = new BigInt64Array(words.buffer, at, 1);
    this.#halves = new Int32Array(words.buffer, at, 2);
    this.#decode = decode;
  }

  load(): T {
    if (Atomics.load(this.#halves, 0) !== this.#low || Atomics.load(this.#halves, 1) !== this.#high) {
      const word = Atomics.load(this.#word, 0);
      this.#know(word, this.#decode(word));
    }
    return this.#known;
  }
  /** `value`: the word, decoded. */
  store(word: bigint, value: T): void {
    Atomics.store(this.#word, 0, word);
    this.#know(word, value);
  }
  /** Whether it was `from`, and is `to` now. */
  move(from: bigint, to: bigint): boolean {
    return Atomics.compareExchange(this.#word, 0, from, to) === from;
  }
  #know(word: bigint, value: T): void {
    this.#low = Number(BigInt.asIntN(32, word));
    this.#high = Number(word >> 32n);
    this.#known = value;
  }
}
