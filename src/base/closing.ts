/** Closes an object whose closing is a promise: once, however often it is called. */
export class Closing {
  #closed: Promise<void> | null = null;

  /** True from the first call on. */
  get begun(): boolean {
    return this.#closed !== null;
  }

  /** Closes at the first call. Every call returns the first one's promise. */
  once(close: () => Promise<void>): Promise<void> {
    this.#closed ??= close();
    return this.#closed;
  }

  /**
   * Lets the next call of once() close again, after a closing that failed and has changed nothing.
   */
  retry(): void {
    this.#closed = null;
  }
}
