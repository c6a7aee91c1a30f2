/**
 * Messages of a host that are not acknowledged: each keeps its bytes until it is.
 *
 *   U1  A row's number never changes, and a message holds the same rows whenever it is sent: [first, first + rows).
 *   U2  They follow each other: the first begins at or below what was acknowledged, the last ends where the next one begins.
 *   U3  They go out in order, and are sent again in order: none while one before it is under way or has to be sent again.
 */
import type { LinkError } from './link.ts';
import { HEADER_BYTES, type MessageHeader, resealMessage, sealMessage } from './message.ts';

interface Kept {
  readonly first: number;
  readonly rows: number;
  readonly bytes: Uint8Array;
  /** the buffer that it lies in, to be used again */
  readonly room: Uint8Array;
  state: 'unsent' | 'sent' | 'replied';
  /** to be sent again, as soon as the call under way has ended */
  again: boolean;
}

/** Buffers that wait to be used again. */
const MOST_FREE = 32;

export interface KeptOptions {
  readonly rowBytes: number;
  /** a message's, at most */
  readonly rowsPerMessage: number;
  readonly append: (bytes: Uint8Array) => Promise<void>;
  /** a reply came, with what it said where it was no success */
  readonly settled: (error: LinkError | null) => void;
  readonly now: () => number;
}

export class KeptMessages {
  /** number of the row that comes next */
  next = 0;
  /** all rows before it are the learner's */
  acknowledged = 0;
  /** calls, and those of them that sent a message again */
  sent = 0;
  repeated = 0;
  /** of all messages here */
  bytes = 0;
  readonly #given: KeptOptions;
  readonly #all: Kept[] = [];
  readonly #free: Uint8Array[] = [];

  constructor(given: KeptOptions) {
    this.#given = given;
  }

  get count(): number {
    return this.#all.length;
  }
  /** of one that is full */
  get messageBytes(): number {
    return HEADER_BYTES + this.#given.rowsPerMessage * this.#given.rowBytes;
  }
  get allReplied(): boolean {
    return this.#all.every(({ state }) => state === 'replied');
  }
  /** nothing has to be sent again first */
  get inOrder(): boolean {
    return this.#all.every(({ state, again }) => state !== 'unsent' && !again);
  }

  /** A new message of the rows that `take` puts in place. How many; 0: there were none. */
  send(
    take: (out: Uint8Array, most: number) => number,
    header: Omit<MessageHeader, 'first' | 'rows' | 'base'>,
  ): number {
    const { rowsPerMessage, rowBytes } = this.#given;
    const room = this.#free.pop() ?? new Uint8Array(this.messageBytes);
    const rows = take(room.subarray(HEADER_BYTES), rowsPerMessage);
    if (rows === 0) {
      this.#free.push(room);
      return 0;
    }
    const bytes = room.subarray(0, HEADER_BYTES + rows * rowBytes);
    sealMessage(bytes, { ...header, first: this.next, rows, base: this.acknowledged });
    const kept: Kept = { first: this.next, rows, bytes, room, state: 'unsent', again: false };
    this.next += rows;
    this.#all.push(kept);
    this.bytes += bytes.length;
    this.#append(kept);
    return rows;
  }

  /** U3: sends what has to be sent again. */
  resend(): void {
    for (const message of this.#all) {
      if (message.again) return;
      if (message.state !== 'unsent') continue;
      resealMessage(message.bytes, Math.min(this.acknowledged, message.first), this.#given.now());
      this.repeated++;
      this.#append(message);
    }
  }

  /** Every message is to be sent again. */
  again(): void {
    for (const message of this.#all) {
      // What a call under way reads stays as it is until that has ended.
      if (message.state === 'sent') message.again = true;
      else message.state = 'unsent';
    }
  }

  /** All rows before `row` are the learner's. */
  acknowledge(row: number): void {
    this.acknowledged = Math.max(this.acknowledged, row);
    for (;;) {
      const oldest = this.#all[0];
      if (oldest === undefined || oldest.first + oldest.rows > this.acknowledged) return;
      this.#all.shift();
      this.bytes -= oldest.bytes.length;
      if (oldest.state !== 'sent') this.#freed(oldest);
    }
  }

  #append(message: Kept): void {
    message.state = 'sent';
    this.sent++;
    const settled = (error: LinkError | null) => {
      message.state = error !== null || message.again ? 'unsent' : 'replied';
      message.again = false;
      if (!this.#all.includes(message)) this.#freed(message);
      this.#given.settled(error);
    };
    this.#given.append(message.bytes).then(() => settled(null), settled);
  }

  #freed({ room }: Kept): void {
    if (this.#free.length < MOST_FREE) this.#free.push(room);
  }
}
