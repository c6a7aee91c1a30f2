/**
 * Writes the wire format of Protocol Buffers, which event files and ONNX models use. Any module may
 * import this.
 */

const VARINT = 0;
const EIGHT_BYTES = 1;
const COUNTED = 2;
const FOUR_BYTES = 5;

const utf8 = new TextEncoder();

/**
 * Writes one message. Each call appends a field, whose number the format of the message defines.
 */
export class Message {
  // allocUnsafe() takes memory from Node's pool, which is fast for thousands of small messages.
  #bytes = Buffer.allocUnsafe(64);
  #length = 0;

  /** The bytes written so far. The view is valid until the next field is written. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Writes an int32, int64, uint64, bool or enum: a whole number from −2⁵³ to 2⁵³. */
  int(field: number, value: number): this {
    this.#key(field, VARINT);
    this.#varint(value);
    return this;
  }
  float(field: number, value: number): this {
    this.#key(field, FOUR_BYTES);
    this.#room(4);
    this.#length = this.#bytes.writeFloatLE(value, this.#length);
    return this;
  }
  double(field: number, value: number): this {
    this.#key(field, EIGHT_BYTES);
    this.#room(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
    return this;
  }
  data(field: number, bytes: Uint8Array): this {
    this.#key(field, COUNTED);
    this.#varint(bytes.length);
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }
  text(field: number, text: string): this {
    return this.data(field, utf8.encode(text));
  }
  message(field: number, inner: Message): this {
    return this.data(field, inner.bytes);
  }

  #key(field: number, kind: number): void {
    this.#varint(field * 8 + kind);
  }

  /**
   * Writes a whole number with seven bits per byte, the lowest bits first. Writes ten bytes of the
   * two's complement for a negative number.
   */
  #varint(value: number): void {
    this.#room(10);
    if (value < 0) {
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest > 127n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) | 128;
      this.#bytes[this.#length++] = Number(rest);
      return;
    }
    let rest = value;
    for (; rest > 127; rest = Math.floor(rest / 128))
      this.#bytes[this.#length++] = (rest % 128) | 128;
    this.#bytes[this.#length++] = rest;
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    larger.set(this.bytes);
    this.#bytes = larger;
  }
}
