/**
 * Seeded random numbers for everything that is drawn on the CPU: weights, environments, examples.
 * One object belongs to one thread.
 */
import { checkCount, describeValue } from './checks.ts';
import { typeError } from './errors.ts';

/**
 * Numbers by sfc32: the same seed and stream give the same numbers on every machine. They are not
 * torch's, but those of `uniformIndices` are.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #count = 1;

  /**
   * `seed` is a whole number from 0 to 2⁵³ − 1. `stream`, from 0 to 2³² − 1, keeps generators of
   * one seed apart: one per thread or environment. Throws TypeError or RangeError for other values.
   */
  constructor(seed: number, stream = 0) {
    checkCount('seed', seed, 0);
    this.#a = seed | 0;
    this.#b = Math.floor(seed / 2 ** 32) | 0;
    this.#c = (0x9e3779b9 + checkCount('stream', stream, 0, 2 ** 32 - 1)) | 0;
    for (let i = 0; i < 12; i++) this.next();
  }

  /** Uniform in [0, 1), one of 2³² values. */
  next(): number {
    const sum = (this.#a + this.#b + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  }

  /** Returns the generator's state: four whole numbers, for loadState(). */
  state(): number[] {
    return [this.#a, this.#b, this.#c, this.#count];
  }

  /**
   * Continues from a state: the same numbers follow. Throws a TypeError unless it is four whole
   * numbers.
   */
  loadState(state: readonly number[]): void {
    const whole =
      Array.isArray(state) &&
      state.length === 4 &&
      state.every((n) => typeof n === 'number' && (n | 0) === n);
    if (!whole)
      throw typeError(
        `loadState() takes the result of state(), four whole numbers, got ${describeValue(state)}`,
      );
    [this.#a, this.#b, this.#c, this.#count] = state as [number, number, number, number];
  }

  /** Uniform in [low, high). */
  between(low: number, high: number): number {
    if (typeof low !== 'number' || typeof high !== 'number')
      throw typeError(
        `between takes two numbers, got ${describeValue(low)} and ${describeValue(high)}`,
      );
    return low + (high - low) * this.next();
  }

  /** Standard normal (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }

  /** Returns a whole number in [0, count). `count` is a whole number from 1 to 2³². */
  below(count: number): number {
    if (typeof count !== 'number')
      throw typeError(`below takes a number, got ${describeValue(count)}`);
    return Math.floor(this.next() * count);
  }
}
