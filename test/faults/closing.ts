/**
 * The objects that a run has opened. All of them are closed, the latest first, even if closing one
 * of them throws.
 */
export class Closing {
  readonly #closers: (() => unknown)[] = [];
  add(close: () => unknown): void {
    this.#closers.push(close);
  }
  /** Closes all objects. Returns the errors that closing threw. */
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
