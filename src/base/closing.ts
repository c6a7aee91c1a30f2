/** How an object closes whose closing is a promise: once, however often it is called. */
export class Closing {
  #closed: Promise<void> | null = null;

  /** From the first call on. */
  get begun(): boolean {
    return this.#closed !== null;
  }

  /** The first call closes; every call returns the first one's promise. */
  once(close: () => Promise<void>): Promise<void> {
    this.#closed ??= close();
    return this.#closed;
  }

  /** For a closing that failed and has changed nothing: the next call of once() closes again. */
  retry(): void {
    this.#closed = null;
  }
}
