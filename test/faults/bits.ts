/** What came of a run, as a few letters: equal for equal bytes. */
import { createHash } from 'node:crypto';

export class Bits {
  readonly #sum = createHash('sha256');
  add(array: ArrayBufferView): this {
    this.#sum.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    return this;
  }
  print(): string {
    return this.#sum.digest('hex').slice(0, 16);
  }
}
