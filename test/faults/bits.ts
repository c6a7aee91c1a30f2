/** A short text for the bytes of a run's result. Equal bytes give equal texts. */
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
