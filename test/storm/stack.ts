/** What is to be closed, the last one first, whatever happened. */
export class Stack {
  readonly #open: { close(): unknown }[] = [];

  use<T extends { close(): unknown }>(made: T): T {
    this.#open.push(made);
    return made;
  }
  /** Rejects with the first thing that went wrong, when all is closed. */
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
