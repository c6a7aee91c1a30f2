/**
 * Converts observations of other dtypes to float32. Throws if a value overflows, and warns once if
 * a value is rounded.
 */
import type { TypedArray } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';

/** Greatest absolute value up to which all whole numbers are exact in float32. */
const EXACT = 2 ** 24;

export class Narrowing {
  readonly #what: string;
  readonly #name: (environment: number) => string;
  #warned = false;

  /**
   * `what` is the converted field in error texts. `name` returns an environment's name for them.
   */
  constructor(what: string, name = (environment: number) => `environment ${environment}`) {
    this.#what = what;
    this.#name = name;
  }

  /**
   * Copies observations of `size` values each. Throws a RangeError if a finite value overflows
   * float32. Emits one process warning, ObservationWarning, if whole numbers are rounded.
   */
  copy(from: TypedArray, to: Float32Array, size: number): void {
    to.set(from as never);
    if (from instanceof Float64Array) {
      const at = to.findIndex((value, i) => !Number.isFinite(value) && Number.isFinite(from[i]));
      if (at >= 0)
        throw rangeError(
          `${this.#place(at, size)} is ${from[at]}, which float32 cannot hold; scale it, or clip it`,
        );
    } else if (!this.#warned && (from instanceof Int32Array || from instanceof Uint32Array)) {
      const at = from.findIndex((value, i) => (value > EXACT || value < -EXACT) && to[i] !== value);
      if (at < 0) return;
      this.#warned = true;
      const text = `${this.#place(at, size)} is ${from[at]}: float32 makes it ${to[at]}. Whole numbers beyond 2^24 are rounded`;
      process.emitWarning(`${text}: subtract an offset, or divide`, 'ObservationWarning');
    }
  }

  #place(at: number, size: number): string {
    return `${this.#name(Math.floor(at / size))}: number ${at % size} of ${this.#what}`;
  }
}
