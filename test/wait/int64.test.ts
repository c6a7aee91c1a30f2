/**
 * Tests Int64.load() while another thread increases the word across 2³², at each access of the
 * load.
 */
import { expect } from 'chai';
import { Int64 } from '../../src/shm/int64.ts';

const MIDDLE = 2 ** 32;

describe('Int64', () => {
  /**
   * Returns the result of `load` if the word becomes `values[i + 1]` before the i-th access of a
   * half.
   */
  function stepped(
    load: (word: Int64, halves: Int32Array) => number,
    values: readonly number[],
  ): number {
    const words = new BigInt64Array(new SharedArrayBuffer(8));
    const word = new Int64(words, 0);
    word.store(values[0] as number);
    const real = Atomics.load;
    let access = 0;
    Object.assign(Atomics, {
      load: (array: Int32Array, index: number) => {
        const next = values[++access];
        if (next !== undefined) word.store(next);
        return real(array, index);
      },
    });
    try {
      return load(word, new Int32Array(words.buffer));
    } finally {
      Object.assign(Atomics, { load: real });
    }
  }
  /** Yields all sequences of up to five non-decreasing values around 2³². */
  function* runs(from: readonly number[] = []): Generator<readonly number[]> {
    if (from.length > 0) yield from;
    if (from.length === 5) return;
    for (const value of [MIDDLE - 2, MIDDLE - 1, MIDDLE, MIDDLE + 1, 2 * MIDDLE])
      if (value >= (from.at(-1) ?? 0)) yield* runs([...from, value]);
  }

  it('load() returns a value that the word had even if stores happen between its accesses', () => {
    let played = 0;
    for (const values of runs()) {
      expect(values).to.include(
        stepped((word) => word.load(), values),
        `${values}`,
      );
      played++;
    }
    expect(played).to.equal(251);
  });

  it('the test detects a load that reads each half once', () => {
    const once = (_: Int64, halves: Int32Array) =>
      Atomics.load(halves, 1) * MIDDLE + (Atomics.load(halves, 0) >>> 0);
    const torn = [...runs()].filter((values) => !values.includes(stepped(once, values)));
    expect(torn).to.have.lengthOf.above(0);
  });

  it('move() stores only when the word has the expected value', () => {
    const word = new Int64(new BigInt64Array(new SharedArrayBuffer(8)), 0);
    expect([word.move(0, 5 * MIDDLE + 7), word.load()]).to.deep.equal([true, 5 * MIDDLE + 7]);
    expect([word.move(0, 1), word.load()]).to.deep.equal([false, 5 * MIDDLE + 7]);
  });
});
