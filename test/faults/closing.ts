/**
 * What a run has opened: all of it is closed, the latest first, whatever closing one of them
 * throws.
 */
export class Closing {
  readonly #closers: (() => unknown)[] = [];
  add(close: () => unknown): void {
    this.#closers.push(close);
  }
  /** What closing threw. */
  async all(): Promise<unknown[]> {
    const thrown: unknown[] = [];
    for (const close of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        thrown.push(error);
      }
    }
    return thrown;
  }
}
