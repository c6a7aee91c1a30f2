/** Makes sure that an object with an asynchronous close() closes only once. */
export class Closing {
  #closed: Promise<void> | null = null;

  /** Whether once() was called. */
  get begun(): boolean {
    return this.#closed !== null;
  }

  /** Calls `close` in the first call. Every call returns the promise of the first call. */
  once(close: () => Promise<void>): Promise<void> {
    this.#closed ??= close();
    return this.#closed;
  }

  /**
   * Makes the next once() call `close` again. Use this after a `close` that failed without effect.
   */
  retry(): void {
    this.#closed = null;
  }
}
