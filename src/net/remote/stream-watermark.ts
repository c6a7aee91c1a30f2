/**
 * Tracks whether the receiver has decided on every message that was in a stream when a look began
 * (Receiver-5). Messages come in order, so a look is over when as many messages were decided on as
 * the stream had. That holds even if the stream never becomes empty: a limiter can keep it as full
 * as the windows. If those messages have vanished, the look is over when a read from the very first
 * message reaches the end of the stream.
 */
export class StreamWatermark {
  /** number of looks whose stream was counted */
  #number = 0;
  /** messages of the look that may still be undecided, or null before they were counted */
  #left: number | null = null;
  #reported = false;
  #begun = false;
  /** calls of forget(): a length requested before the last one is ignored */
  #requested = 0;

  /** Begins a new look. `length`: of the stream, requested now. */
  async begin(length: Promise<number>): Promise<void> {
    this.forget();
    const given = this.#requested;
    this.#begun = true;
    const left = await length.catch((error) => {
      if (given === this.#requested) this.#begun = false;
      throw error;
    });
    if (given !== this.#requested) return;
    this.#number++;
    this.#left = left;
  }
  /** Forgets all that is known of the stream. */
  forget(): void {
    this.#requested++;
    this.#left = null;
    this.#reported = false;
    this.#begun = false;
  }

  /**
   * Number of the current look. A read that ends in another look than it began in proves nothing.
   */
  get number(): number {
    return this.#number;
  }
  /** a look is in progress */
  get begun(): boolean {
    return this.#begun;
  }
  get over(): boolean {
    return this.#left !== null && this.#left <= 0;
  }
  /** it was over, and every acknowledgement due by then was stored */
  get reported(): boolean {
    return this.#reported;
  }

  decided(): void {
    if (this.#left !== null) this.#left--;
  }
  /** Records that a read from the very first message, begun in look `number`, reached the end. */
  ended(number: number): void {
    if (number === this.#number && this.#left !== null) this.#left = 0;
  }
  report(number: number): void {
    if (number === this.#number && this.over) this.#reported = true;
  }
}
