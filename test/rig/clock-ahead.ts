/**
 * The clock of records and deadlines, in the thread of the test: a test moves it on instead of
 * waiting.
 */
import { systemClock } from '../../src/base/system-addon.ts';

export class ClockAhead implements Disposable {
  /** milliseconds */
  ahead = 0;
  #reads = 0;
  readonly #clock = systemClock() as { nowMs(): number };
  readonly #before = this.#clock.nowMs;

  constructor() {
    this.#clock.nowMs = () => {
      this.#reads++;
      return this.#before() + this.ahead;
    };
  }
  /** Resolves when it was read so many times more. */
  async read(times: number): Promise<void> {
    for (const end = this.#reads + times; this.#reads < end; await new Promise(setImmediate));
  }
  [Symbol.dispose](): void {
    this.#clock.nowMs = this.#before;
  }
}
