/**
 * A whole number below 2^53 in an int64 of shared memory, which threads read without making a
 * BigInt.
 */

/**
 * The upper half of the word must never decrease. So load() reads the lower half between two reads
 * of the upper half: if these are equal, the upper half had that value when the lower half was
 * read.
 */
export class Int64 {
  readonly #word: BigInt64Array;
  readonly #halves: Int32Array;

  constructor(words: BigInt64Array, index: number) {
    const at = words.byteOffset + 8 * index;
    this.#word = new BigInt64Array(words.buffer, at, 1);
    this.#halves = new Int32Array(words.buffer, at, 2);
  }

  load(): number {
    const halves = this.#halves;
    for (let high = Atomics.load(halves, 1); ; ) {
      const low = Atomics.load(halves, 0);
      const again = Atomics.load(halves, 1);
      if (again === high) return high * 2 ** 32 + (low >>> 0);
      high = again;
    }
  }
  store(value: number): void {
    Atomics.store(this.#word, 0, BigInt(value));
  }
  /** Stores `to` if the word is `from`, in one step. True if it did. */
  move(from: number, to: number): boolean {
    const expected = BigInt(from);
    return Atomics.compareExchange(this.#word, 0, expected, BigInt(to)) === expected;
  }
}
