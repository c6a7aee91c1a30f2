/**
 * Generates seeded random numbers for everything that is drawn on the CPU: weights, environments,
 * examples. Only one thread may use an object.
 */
import { checkCount, describeValue } from './checks.ts';
import { typeError } from './errors.ts';

/**
 * Generates random numbers by sfc32. Equal seeds and streams give equal numbers on every machine.
 * The numbers differ from torch's. For torch's numbers use `uniformIndices`.
 * @example
 * const random = new Random(7, 1);
 * const angle = random.between(-0.05, 0.05);
 * const action = random.below(4);
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #count = 1;

  /**
   * Seeds the generator.
   *
   * @param seed whole number from 0 to 2⁵³ − 1
   * @param stream whole number from 0 to 2³² − 1 (default 0). Give each thread or environment with
   *   the same seed its own stream
   * @throws {TypeError|RangeError} for other values
   */
  constructor(seed: number, stream = 0) {
    checkCount('seed', seed, 0);
    this.#a = seed | 0;
    this.#b = Math.floor(seed / 2 ** 32) | 0;
    this.#c = (0x9e3779b9 + checkCount('stream', stream, 0, 2 ** 32 - 1)) | 0;
    for (let i = 0; i < 12; i++) this.next();
  }

  /** Returns a number that is uniform in [0, 1): a multiple of 2⁻³². */
  next(): number {
    const sum = (this.#a + this.#b + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  }

  /** Returns the generator's state for loadState(): four whole numbers. */
  state(): number[] {
    return [this.#a, this.#b, this.#c, this.#count];
  }

  /**
   * Restores a state. The generator then repeats the numbers that followed that state.
   * @param state a result of state()
   * @throws {TypeError} unless it is four whole numbers
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

  /**
   * Returns a number that is uniform in [low, high).
   *
   * @throws {TypeError} unless both are numbers
   */
  between(low: number, high: number): number {
    if (typeof low !== 'number' || typeof high !== 'number')
      throw typeError(
        `between takes two numbers, got ${describeValue(low)} and ${describeValue(high)}`,
      );
    return low + (high - low) * this.next();
  }

  /** Returns a number from the standard normal distribution, by the Box–Muller transform. */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }

  /**
   * Returns a random whole number in [0, count).
   *
   * @param count whole number from 1 to 2³². below() does not check this range
   * @throws {TypeError} for anything but a number
   */
  below(count: number): number {
    if (typeof count !== 'number')
      throw typeError(`below takes a number, got ${describeValue(count)}`);
    return Math.floor(this.next() * count);
  }
}
