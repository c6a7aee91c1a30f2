/** What one object is made of: closed together, and at once when its making fails half-way. */
export class Made implements Disposable {
  readonly #all: { close(): void }[] = [];
  keep<T extends { close(): void }>(each: T): T {
    this.#all.push(each);
    return each;
  }
  /** The latest first; may be called again when one of them refused. */
  close(): void {
    for (let each = this.#all.at(-1); each; each = this.#all.at(-1)) {
      each.close();
      this.#all.pop();
    }
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
