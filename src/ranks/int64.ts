/** A whole number in an int64 of shared memory, read without a BigInt: exchanges are counted for months, and looked at all the time. */

/** Its upper half must never fall. */
export class Int64 {
  readonly #word: BigInt64Array;
  readonly #halves: Int32Array;

  constructor(words: BigInt64Array, index: number) {
    const at = words.byteOffset + 8 * index;
    this.#word = new BigInt64Array(words.buffer, at, 1);
    this.#halves = new Int32Array(words.buffer, at, 2);
  }

  /** Below 2^53. An upper half that is the same after the lower one was loaded was so when it was. */
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
  /** Whether it was `from`, and is `to` now. */
  move(from: number, to: number): boolean {
    const expected = BigInt(from);
    return Atomics.compareExchange(this.#word, 0, expected, BigInt(to)) === expected;
  }
}
