/**
 * Reads messages of Protocol Buffers without a schema, as fields by number. Throws if the bytes are
 * not a message.
 */

/** A varint, a number of eight or four bytes, or bytes with a length prefix. */
export type FieldValue = bigint | Uint8Array;

export class Fields {
  readonly #fields = new Map<number, FieldValue[]>();

  constructor(bytes: Uint8Array) {
    let at = 0;
    const take = (count: number) => {
      if (at + count > bytes.length)
        throw new Error(`a field needs ${count} bytes, ${bytes.length - at} are left`);
      at += count;
      return bytes.subarray(at - count, at);
    };
    const varint = () => {
      let value = 0n;
      for (let shift = 0n; ; shift += 7n) {
        const [byte] = take(1) as unknown as [number];
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asIntN(64, value);
      }
    };
    while (at < bytes.length) {
      const key = Number(varint());
      const [field, kind] = [key >> 3, key & 7];
      const readers = [
        varint,
        () => take(8),
        () => take(Number(varint())),
        undefined,
        undefined,
        () => take(4),
      ];
      const value = readers[kind]?.();
      if (value === undefined || field === 0) throw new Error(`no field begins with ${key}`);
      this.#fields.set(field, [...(this.#fields.get(field) ?? []), value]);
    }
  }

  get numbers(): number[] {
    return [...this.#fields.keys()];
  }
  all(field: number): FieldValue[] {
    return this.#fields.get(field) ?? [];
  }
  /** Returns the only field with this number, and throws if there is none or several. */
  one(field: number): FieldValue {
    const [value, ...more] = this.all(field);
    if (value === undefined || more.length > 0)
      throw new Error(`field ${field} is there ${more.length} times too often`);
    return value;
  }
  int(field: number): number {
    return Number(this.one(field));
  }
  text(field: number): string {
    return new TextDecoder('utf-8', { fatal: true }).decode(this.one(field) as Uint8Array);
  }
  message(field: number): Fields {
    return new Fields(this.one(field) as Uint8Array);
  }
  messages(field: number): Fields[] {
    return this.all(field).map((each) => new Fields(each as Uint8Array));
  }
  float(field: number): number {
    return this.#view(field, 4).getFloat32(0, true);
  }
  double(field: number): number {
    return this.#view(field, 8).getFloat64(0, true);
  }
  #view(field: number, length: number): DataView {
    const bytes = this.one(field) as Uint8Array;
    if (bytes.length !== length)
      throw new Error(`field ${field} has ${bytes.length} bytes, not ${length}`);
    return new DataView(bytes.buffer, bytes.byteOffset, length);
  }
}
