/**
 * Reads and writes an int64 in shared memory that contains a whole number below 2^53. Reading it
 * allocates no BigInt.
 */

/**
 * load() reads the lower half of the word between two reads of the upper half. If these two reads
 * return the same value, the upper half had this value when the lower half was read. This is true
 * only because the upper half never decreases. So store() and move() must never decrease it.
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
  /** Stores `to` if the word is `from`, in one atomic step. Returns true if it stored `to`. */
  move(from: number, to: number): boolean {
    const expected = BigInt(from);
    return Atomics.compareExchange(this.#word, 0, expected, BigInt(to)) === expected;
  }
}
