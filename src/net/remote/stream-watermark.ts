/**
 * Whether all was decided on that lay in a stream when it was looked at (Receiver-5). Messages come
 * in order, so that this is over when as many were decided on as lay there, also where the stream
 * never ends: behind a limiter it is as full as the windows. Where what lay there has vanished it
 * is over when a read from the very first message comes to the end.
 */
export class StreamWatermark {
  /** of looks whose stream was counted */
  #number = 0;
  /** messages that lay there and may not be decided on; null: nobody has counted them yet */
  #left: number | null = null;
  #reported = false;
  #begun = false;
  /** of questions: what was asked before forget() does not count */
  #asked = 0;

  /** Looks anew. `length`: of the stream, asked for now. */
  async begin(length: Promise<number>): Promise<void> {
    this.forget();
    const asked = this.#asked;
    this.#begun = true;
    const left = await length.catch((error) => {
      if (asked === this.#asked) this.#begun = false;
      throw error;
    });
    if (asked !== this.#asked) return;
    this.#number++;
    this.#left = left;
  }
  /** Nothing is known of the stream any more. */
  forget(): void {
    this.#asked++;
    this.#left = null;
    this.#reported = false;
    this.#begun = false;
  }

  /** Of the look that goes on; a read that ends in another one than it began in says nothing. */
  get number(): number {
    return this.#number;
  }
  /** a look goes on */
  get begun(): boolean {
    return this.#begun;
  }
  get over(): boolean {
    return this.#left !== null && this.#left <= 0;
  }
  /** it was over, and all that was decided on until then was said */
  get reported(): boolean {
    return this.#reported;
  }

  decided(): void {
    if (this.#left !== null) this.#left--;
  }
  /** A read from the very first message, which began in look `number`, came to the end. */
  ended(number: number): void {
    if (number === this.#number && this.#left !== null) this.#left = 0;
  }
  report(number: number): void {
    if (number === this.#number && this.over) this.#reported = true;
  }
}
