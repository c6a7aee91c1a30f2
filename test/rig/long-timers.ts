/**
 * Replaces timers of a quarter of an hour or more, which a test fires itself. Shorter timers run as
 * usual.
 */
const LONG_MS = 900_000;

export class LongTimers implements Disposable {
  /** Delays in ms of all long timers that were started so far. */
  readonly delays: number[] = [];
  readonly #armed = new Map<object, () => void>();
  readonly #before = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };

  /** `onArm` is called for each long timer when it is started. */
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

  /** Fires all long timers that are waiting. Returns their number. */
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
