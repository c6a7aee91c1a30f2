/**
 * Timers of a quarter of an hour and more, which a test fires by hand; shorter ones run as they do.
 */
const LONG_MS = 900_000;

export class LongTimers implements Disposable {
  /** Delays of all that were armed so far, in milliseconds. */
  readonly delays: number[] = [];
  readonly #armed = new Map<object, () => void>();
  readonly #before = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };

  /** `onArm` is called with each of them as it is armed. */
  constructor(onArm: (timers: LongTimers, ms: number) => void = () => {}) {
    const { setTimeout: set, clearTimeout: clear } = this.#before;
    const replaced = (fn: () => void, ms = 0, ...rest: []) => {
      if (ms < LONG_MS) return set(fn, ms, ...rest);
      const timer = {};
      this.delays.push(ms);
      this.#armed.set(timer, fn);
      onArm(this, ms);
      return timer;
    };
    globalThis.setTimeout = Object.assign(replaced, set) as never;
    globalThis.clearTimeout = ((timer: object) => {
      if (!this.#armed.delete(timer)) clear(timer as NodeJS.Timeout);
    }) as never;
  }

  /** Fires all that are armed now; how many. */
  fire(): number {
    const armed = [...this.#armed.values()];
    this.#armed.clear();
    for (const fn of armed) fn();
    return armed.length;
  }

  [Symbol.dispose](): void {
    Object.assign(globalThis, this.#before);
  }
}
