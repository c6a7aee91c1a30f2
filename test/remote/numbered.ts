/**
 * Hosts whose rows are numbered, and checks that a learner's buffer holds each row of each host
 * once and in order.
 */
import { ReplayBuffer } from '../../src/index.ts';
import { layoutSum, layoutText } from '../../src/net/remote/layout.ts';
import type { Outbox } from '../../src/net/remote/outbox.ts';
import { BELL_WORDS, BellBoard } from '../../src/shm/bell.ts';

const ROW_WORDS = 2;
const ROW_BYTES = 4 * ROW_WORDS;

/** Creates a buffer for rows of (host, number). */
export const numberedBuffer = (capacity: number, more: object = {}) =>
  ReplayBuffer.create({
    capacity,
    fields: { row: { shape: [ROW_WORDS], dtype: 'int32' } },
    ...more,
  });
export const numberedLayout = () => {
  using one = numberedBuffer(1);
  return layoutSum(layoutText(one as unknown as ReplayBuffer));
};

/** The rows of one host, which exist after make(). */
export class NumberedOutbox implements Outbox {
  readonly rowBytes = ROW_BYTES;
  readonly lanes = 0;
  readonly bells = new BellBoard(new Int32Array(new SharedArrayBuffer(4 * BELL_WORDS)), 1);
  readonly #host: number;
  made = 0;
  #taken = 0;

  constructor(host: number) {
    this.#host = host;
  }

  make(rows: number): void {
    this.made += rows;
    this.bells.ringAll();
  }
  waiting = (): number => this.made - this.#taken;
  take = (out: Uint8Array, most: number): number => {
    const rows = Math.min(most, this.waiting());
    const words = new DataView(out.buffer, out.byteOffset);
    for (let i = 0; i < rows; i++) {
      words.setInt32(i * ROW_BYTES, this.#host, true);
      words.setInt32(i * ROW_BYTES + 4, this.#taken + i, true);
    }
    this.#taken += rows;
    return rows;
  };
}

/**
 * Returns the numbers of each host's rows in the order of the buffer. Throws if the buffer has
 * wrapped.
 */
export function numbersIn(buffer: ReturnType<typeof numberedBuffer>, hosts: number): number[][] {
  const { ptr, capacity } = buffer;
  if (ptr > capacity) throw new Error(`${ptr} rows have gone round ${capacity} places`);
  const rows = new Int32Array(ROW_WORDS * ptr);
  buffer.gather(
    Uint32Array.from({ length: ptr }, (_, i) => i),
    rows,
  );
  const found: number[][] = Array.from({ length: hosts }, () => []);
  for (let i = 0; i < ptr; i++) found[rows[ROW_WORDS * i]!]!.push(rows[ROW_WORDS * i + 1]!);
  return found;
}

/**
 * Checks that the numbers of a host are those from `from` to `made`, each once and in order.
 * Returns what is wrong, or null.
 */
export function wrongIn(numbers: readonly number[], made: number, from = 0): string | null {
  for (const [i, number] of numbers.entries())
    if (number !== from + i) return `row ${number} stands where ${from + i} belongs`;
  return from + numbers.length === made ? null : `${from + numbers.length} rows of ${made}`;
}
