/**
 * The clock of records and deadlines in the test's thread. A test sets the clock ahead instead of
 * waiting.
 */
import { systemClock } from '../../src/base/system-addon.ts';

export class ClockAhead implements Disposable {
  /** milliseconds by which the clock is ahead */
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
  /** Resolves after the clock was read `times` more times. */
  async read(times: number): Promise<void> {
    for (const end = this.#reads + times; this.#reads < end; await new Promise(setImmediate));
  }
  [Symbol.dispose](): void {
    this.#clock.nowMs = this.#before;
  }
}
