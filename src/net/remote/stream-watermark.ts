/**
 * Tracks whether the receiver has decided on every message that was in a stream when a check began
 * (Receiver-5). Messages arrive in order, so the check is over after as many decisions as the
 * stream had messages. A check for an empty stream might never succeed, because hosts may keep the
 * stream as full as their windows permit.
 *
 * If those messages have vanished, there are not enough decisions. The check is then over when a
 * read from the very first message reaches the end of the stream.
 */
export class StreamWatermark {
  /** number of checks for which the stream's length has arrived */
  #number = 0;
  /** messages of the check that may still be undecided, or null before the length has arrived */
  #left: number | null = null;
  #reported = false;
  #begun = false;
  /** number of calls of forget(). A length that was requested before the last call is ignored */
  #requested = 0;

  /** Begins a new check. `length` is the length of the stream, which was just requested. */
  async begin(length: Promise<number>): Promise<void> {
    this.forget();
    const request = this.#requested;
    this.#begun = true;
    const left = await length.catch((error) => {
      if (request === this.#requested) this.#begun = false;
      throw error;
    });
    if (request !== this.#requested) return;
    this.#number++;
    this.#left = left;
  }
  /**
   * Ends the check without a result. Call it when the connection is lost, because the stream's
   * messages may then vanish.
   */
  forget(): void {
    this.#requested++;
    this.#left = null;
    this.#reported = false;
    this.#begun = false;
  }

  /**
   * Number of the current check. A read that began in an earlier check proves nothing about the
   * current check.
   */
  get number(): number {
    return this.#number;
  }
  /** whether a check is in progress */
  get begun(): boolean {
    return this.#begun;
  }
  get over(): boolean {
    return this.#left !== null && this.#left <= 0;
  }
  /** whether the check was over, and every acknowledgement due by then was stored */
  get reported(): boolean {
    return this.#reported;
  }

  decided(): void {
    if (this.#left !== null) this.#left--;
  }
  /** Records that a read from the very first message, begun in check `number`, reached the end. */
  ended(number: number): void {
    if (number === this.#number && this.#left !== null) this.#left = 0;
  }
  report(number: number): void {
    if (number === this.#number && this.over) this.#reported = true;
  }
}
