/** Objects that are closed in reverse order, even if closing one of them fails. */
export class Stack {
  readonly #open: { close(): unknown }[] = [];

  use<T extends { close(): unknown }>(made: T): T {
    this.#open.push(made);
    return made;
  }
  /** Closes all objects, then rejects with the first error, if any. */
  async close(): Promise<void> {
    const wrong: unknown[] = [];
    for (const each of this.#open.splice(0).reverse()) {
      try {
        await each.close();
      } catch (error) {
        wrong.push(error);
      }
    }
    if (wrong.length > 0) throw wrong[0];
  }
}
