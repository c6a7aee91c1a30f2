/**
 * The unacknowledged messages of a host. Each message keeps its bytes until it is acknowledged.
 *
 *   Uplink-1  A row's number never changes. A message has the same rows each time it is sent:
 *       [first, first + rows).
 *   Uplink-2  The rows of consecutive messages are consecutive. The first message begins at or
 *       below the acknowledged row, and the last message ends where the next one will begin.
 *   Uplink-3  Messages are sent in order, and are sent again in order. No message is sent before an
 *       earlier message that must be sent again.
 */
import { errorOf } from '../../base/plain-error.ts';
import { HEADER_BYTES, type MessageHeader, resealMessage, sealMessage } from './message.ts';

interface QueuedMessage {
  readonly first: number;
  readonly rows: number;
  readonly bytes: Uint8Array;
  /** buffer that contains `bytes`, and that is reused */
  readonly room: Uint8Array;
  state: 'unsent' | 'sent' | 'replied';
  /** whether the message must be sent again when the call under way has ended */
  again: boolean;
  /** whether the version in its header was another learner's */
  foreign: boolean;
  /**
   * whether the message was acknowledged and has left the queue. If a call is under way, `room`
   * becomes free when the call has ended
   */
  sent: boolean;
}

/** Maximum number of free buffers that are kept for reuse. */
const MAX_FREE = 32;
/**
 * Maximum number of messages in the queue, because each message has a cost even if it has few rows.
 * At the maximum, rows wait in the outbox until a message is acknowledged. The next message then
 * has more rows.
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
  /** number of the first row that is not acknowledged */
  acknowledged = 0;
  /** number of calls, and how many of them sent a message again */
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
  /** whether the queue is full, so that no message may be added */
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
  /** whether new messages may be sent, because no earlier message must be sent again */
  get inOrder(): boolean {
    return this.#in.unsent === 0 && this.#in.again === 0;
  }

  /**
   * Sends a new message with the rows that `take` writes into it. `waiting` is the approximate
   * number of rows available. Returns the number of rows, and sends nothing if that is 0.
   */
  send(
    take: (out: Uint8Array, most: number) => number,
    waiting: number,
    header: Omit<MessageHeader, 'first' | 'rows' | 'base'>,
  ): number {
    const { rowsPerMessage, rowBytes } = this.#options;
    // Leaves room for two rows, because a step that ends its episode needs its final observation in
    // the same message.
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

  /** Sends the messages that must be sent again, in order (Uplink-3). */
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

  /**
   * Marks every message to be sent again. `foreign` is true if they are sent to another learner.
   */
  again(foreign = false): void {
    for (const message of this.#all) {
      message.foreign ||= foreign;
      // A message with a call under way is only marked, because its bytes must not change before
      // the call has ended.
      if (message.state === 'sent') this.#to(message, 'sent', true);
      else this.#to(message, 'unsent');
    }
  }

  /** Drops the messages whose rows are all before `row`, because the learner has them. */
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
   * Returns a buffer for `rows` rows. If they need at least half of a full message, the buffer has
   * the size of a full message and is reused if possible. Otherwise it is a new buffer that fits.
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
