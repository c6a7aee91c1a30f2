/**
 * The unacknowledged messages of a host: each keeps its bytes until it is acknowledged.
 *
 *   Uplink-1  A row's number never changes, and a message holds the same rows whenever it is sent:
 *       [first, first + rows).
 *   Uplink-2  Messages follow each other: the first begins at or below what was acknowledged, the
 *       last ends where the next one begins.
 *   Uplink-3  They go out in order, and are sent again in order: none while one before it is under
 *       way or has to be sent again.
 */
import { errorOf } from '../../base/plain-error.ts';
import { HEADER_BYTES, type MessageHeader, resealMessage, sealMessage } from './message.ts';

interface QueuedMessage {
  readonly first: number;
  readonly rows: number;
  readonly bytes: Uint8Array;
  /** buffer that it lies in, which is used again */
  readonly room: Uint8Array;
  state: 'unsent' | 'sent' | 'replied';
  /** to be sent again, as soon as the call under way has ended */
  again: boolean;
  /** its version was another learner's */
  foreign: boolean;
  /** acknowledged, while a call was under way */
  sent: boolean;
}

/** Maximum number of free buffers that are kept for reuse. */
const MAX_FREE = 32;
/**
 * Maximum number of messages that are kept, because each has a cost, however few rows it brings. At
 * the maximum, rows wait for each other.
 */
const MAX_RETAINED = 1024;

export interface RetransmitQueueOptions {
  readonly rowBytes: number;
  /** maximum rows of a message */
  readonly rowsPerMessage: number;
  readonly append: (bytes: Uint8Array) => Promise<void>;
  /** called after a call has ended, with its error if it failed */
  readonly settled: (error: Error | null) => void;
  readonly now: () => number;
}

export class RetransmitQueue {
  /** number of the next row */
  next = 0;
  /** the learner has all rows before this one */
  acknowledged = 0;
  /** calls, and those of them that sent a message again */
  sent = 0;
  repeated = 0;
  /** bytes of all messages in the queue */
  bytes = 0;
  readonly #options: RetransmitQueueOptions;
  readonly #all: QueuedMessage[] = [];
  readonly #free: Uint8Array[] = [];
  /** number of messages in each state */
  readonly #in = { unsent: 0, sent: 0, replied: 0, again: 0 };

  constructor(given: RetransmitQueueOptions) {
    this.#options = given;
  }

  get count(): number {
    return this.#all.length;
  }
  /** another message may not be made now */
  get isFull(): boolean {
    return this.#all.length >= MAX_RETAINED;
  }
  /** bytes of a full message */
  get messageBytes(): number {
    return HEADER_BYTES + this.#options.rowsPerMessage * this.#options.rowBytes;
  }
  get allReplied(): boolean {
    return this.#in.replied === this.#all.length;
  }
  /** no message has to be sent again first */
  get inOrder(): boolean {
    return this.#in.unsent === 0 && this.#in.again === 0;
  }

  /**
   * Sends a new message of the rows that `take` puts in place, about `waiting`. Returns how many
   * there were, possibly 0.
   */
  send(
    take: (out: Uint8Array, most: number) => number,
    waiting: number,
    header: Omit<MessageHeader, 'first' | 'rows' | 'base'>,
  ): number {
    const { rowsPerMessage, rowBytes } = this.#options;
    // A step that ends its episode needs room for its final observation.
    const most = Math.min(rowsPerMessage, Math.max(2, waiting));
    const room = this.#roomFor(most);
    const rows = take(room.subarray(HEADER_BYTES), most);
    if (rows === 0) {
      this.#freed(room);
      return 0;
    }
    const bytes = room.subarray(0, HEADER_BYTES + rows * rowBytes);
    sealMessage(bytes, { ...header, first: this.next, rows, base: this.acknowledged });
    const kept: QueuedMessage = {
      first: this.next,
      rows,
      bytes,
      room,
      state: 'unsent',
      again: false,
      foreign: false,
      sent: false,
    };
    this.next += rows;
    this.#all.push(kept);
    this.#in.unsent++;
    this.bytes += bytes.length;
    this.#append(kept);
    return rows;
  }

  /** Uplink-3: sends the messages that have to be sent again. */
  resend(): void {
    if (this.#in.unsent === 0) return;
    for (const message of this.#all) {
      if (message.again) return;
      if (message.state !== 'unsent') continue;
      const base = Math.min(this.acknowledged, message.first);
      resealMessage(message.bytes, { base, sent: this.#options.now(), foreign: message.foreign });
      this.repeated++;
      this.#append(message);
    }
  }

  /** Marks every message to be sent again. `foreign`: to another learner. */
  again(foreign = false): void {
    for (const message of this.#all) {
      message.foreign ||= foreign;
      // The bytes of a call under way must not change before it has ended.
      if (message.state === 'sent') this.#to(message, 'sent', true);
      else this.#to(message, 'unsent');
    }
  }

  /** Drops messages, because the learner has all rows before `row`. */
  acknowledge(row: number): void {
    this.acknowledged = Math.max(this.acknowledged, row);
    for (;;) {
      const oldest = this.#all[0];
      if (oldest === undefined || oldest.first + oldest.rows > this.acknowledged) return;
      this.#all.shift();
      this.#counted(oldest, -1);
      this.bytes -= oldest.bytes.length;
      oldest.sent = true;
      if (oldest.state !== 'sent') this.#freed(oldest.room);
    }
  }

  #append(message: QueuedMessage): void {
    this.#to(message, 'sent');
    this.sent++;
    const settled = (error: Error | null) => {
      if (message.sent) this.#freed(message.room);
      else this.#to(message, error !== null || message.again ? 'unsent' : 'replied');
      this.#options.settled(error);
    };
    this.#options.append(message.bytes).then(
      () => settled(null),
      (error) => settled(errorOf(error)),
    );
  }

  #to(message: QueuedMessage, state: QueuedMessage['state'], again = false): void {
    this.#counted(message, -1);
    message.state = state;
    message.again = again;
    this.#counted(message, 1);
  }
  #counted({ state, again }: QueuedMessage, by: 1 | -1): void {
    this.#in[state] += by;
    if (again) this.#in.again += by;
  }

  /**
   * Returns a full message's buffer, a free one if possible, if at least half of it will be filled.
   * Otherwise returns a new buffer that fits.
   */
  #roomFor(rows: number): Uint8Array {
    const { rowsPerMessage, rowBytes } = this.#options;
    if (2 * rows < rowsPerMessage) return new Uint8Array(HEADER_BYTES + rows * rowBytes);
    return this.#free.pop() ?? new Uint8Array(this.messageBytes);
  }
  #freed(room: Uint8Array): void {
    if (room.length === this.messageBytes && this.#free.length < MAX_FREE) this.#free.push(room);
  }
}
