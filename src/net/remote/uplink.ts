/**
 * The sending of a host's rows: they go into messages, and each message is kept until the learner
 * has acknowledged its rows (retransmit-queue.ts, learner-view.ts).
 *
 *   Uplink-4  A message is sent again only when a reply to it was lost, or was "full". All kept
 *       messages are sent again when the learner asks (its `nak` grew), or when another learner has
 *       the run. The same holds when the learner has looked through its whole stream twice since
 *       all of them were replied to. They are never sent again on a timer, because a message with a
 *       reply is there. So a connection that comes and goes cannot fill the server with copies.
 *
 * One loop does all of this. Every event rings its bell, on the outbox's own board.
 */
import { stateError } from '../../base/errors.ts';
import { errorOf } from '../../base/plain-error.ts';
import type { Bell } from '../../shm/bell.ts';
import type { Keys } from './keys.ts';
import { LearnerView } from './learner-view.ts';
import { coded, type Link, LinkError } from './link.ts';
import { BYE, emptyHeader, HEADER_BYTES, HELLO, MAX_BYTES, sealMessage } from './message.ts';
import type { Outbox } from './outbox.ts';
import { RetransmitQueue } from './retransmit-queue.ts';

export interface UplinkOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly shard: number;
  readonly session: number;
  /** crc32 of the layout */
  readonly layout: number;
  readonly outbox: Outbox;
  /** a message is sent when it has `flushBytes` bytes, or its first row has waited `flushMs` ms */
  readonly flushBytes: number;
  readonly flushMs: number;
  /** oldest version of the learner of that epoch that collectors act by now, or 0 for none */
  readonly version: (epoch: number) => number;
  /** as in learner-view.ts (default: every learner of the run is one for this host) */
  readonly meets?: (epoch: number) => Promise<boolean>;
  readonly now: () => number;
}

/** The reasons why a host waits. */
export type UplinkWait = 'rows' | 'learner' | 'window' | 'server' | 'room';

/**
 * Time after which a full server is offered the message again, doubled each time to the maximum.
 */
const FULL_MS = 100;
const MAX_FULL_MS = 2000;
/** Maximum number of versions that are kept while rows of older ones wait. */
const MAX_FLOORS = 64;
/** Maximum ms of a park, as a safety net for a bug. */
const PARK_MS = 200;

export class Uplink {
  readonly queued: RetransmitQueue;
  readonly bell: Bell;
  /** total ms that the window was full */
  fullMs = 0;
  readonly #given: UplinkOptions;
  readonly #view: LearnerView;
  readonly #rowsPerMessage: number;
  #waits: UplinkWait = 'server';
  #connected = false;
  #helloed = false;
  /** time since which rows wait for a message to be full, or null if none do */
  #since: number | null = null;
  /** oldest version that the next row may have been acted by */
  #floor = 0;
  /** the same for later rows, each version from one row on */
  readonly #floors: { readonly from: number; readonly version: number }[] = [];
  /** the epoch of the learner that these versions are of */
  #versionsOf = 0;
  #fullUntil = 0;
  #fullWait = FULL_MS;
  #fullSince: number | null = null;
  #failure: Error | null = null;
  #closing = false;
  #stopped = false;

  /** Throws ERR_HOTSLOT_STATE_BUSY when the outbox has no bell left. */
  constructor(given: UplinkOptions) {
    const { outbox, flushBytes, link, keys, shard, now } = given;
    this.#given = given;
    const most = Math.max(1, Math.floor(Math.min(flushBytes, MAX_BYTES) / outbox.rowBytes));
    // An ending step and its final observation go together.
    this.#rowsPerMessage = outbox.lanes > 0 ? Math.max(2, most) : most;
    this.queued = new RetransmitQueue({
      rowBytes: outbox.rowBytes,
      rowsPerMessage: this.#rowsPerMessage,
      now,
      append: (bytes) => link.append(keys.stream(shard), bytes),
      settled: (error) => {
        this.#view.moved();
        if (error === null) this.#fullWait = FULL_MS;
        else this.#failed(error);
        this.bell.ring();
      },
    });
    const bell = outbox.bells.claim();
    if (bell === null) throw stateError('BUSY', 'the outbox has no bell left');
    this.bell = bell;
    const failed = (error: unknown) => this.#failed(error);
    const { session, meets = async () => true } = given;
    this.#view = new LearnerView({
      link,
      keys,
      session,
      shard,
      queue: this.queued,
      failed,
      meets,
      ring: () => bell.ring(),
    });
  }

  /** Returns what keeps it from sending. 'rows': it only waits for rows. */
  get waits(): UplinkWait {
    return this.#waits;
  }
  /** rows that no message has taken yet */
  get waiting(): number {
    return this.#given.outbox.waiting();
  }
  /** epoch of the learner that it sends to, 0 before the first */
  get epoch(): number {
    return this.#view.epoch;
  }

  /** Called by the link after every connection. */
  connected(): void {
    this.#connected = true;
    this.#view.hurry();
    this.bell.ring();
  }
  lost(): void {
    this.#connected = false;
    this.bell.ring();
  }
  /** Called by the link with a notice of this session. */
  notice(text: string): void {
    this.#view.onAcknowledgement(text);
  }

  /**
   * Sends rows. Resolves when all are acknowledged after close(), or soon after stop(). Rejects
   * when the session is refused.
   */
  async run(): Promise<void> {
    // Keeps the process alive, which the waiting itself does not.
    const hold = setInterval(() => {}, 2 ** 30);
    try {
      while (!this.#stopped) {
        const knownCount = this.bell.read();
        if (this.#failure) throw this.#failure;
        if (this.#connected && this.#isWaited()) this.#view.poll();
        this.#sayHello();
        if (this.#maySend()) {
          this.queued.resend();
          this.#fill();
        }
        this.#countFull();
        if (
          this.#closing &&
          this.epoch > 0 &&
          this.queued.count === 0 &&
          this.#given.outbox.waiting() === 0
        ) {
          await this.#say(BYE).catch(() => {}); // its lanes stay taken then
          return;
        }
        await this.bell.parkAsync(knownCount, this.#parkMs());
      }
    } finally {
      clearInterval(hold);
      this.#given.outbox.bells.release(this.bell);
    }
  }

  /** Sends the rows that are left, and a goodbye. Call it when no more rows are added. */
  close(): void {
    this.#closing = true;
    this.bell.ring();
  }
  stop(): void {
    this.#stopped = true;
    this.bell.ring();
  }

  #parkMs(): number {
    const now = performance.now();
    const ends = [now + PARK_MS];
    if (this.#waits === 'rows' && this.#since !== null)
      ends.push(this.#since + this.#given.flushMs);
    if (this.#waits === 'room') ends.push(this.#fullUntil);
    const { pollAt } = this.#view;
    if (this.#isWaited() && pollAt > now) ends.push(pollAt);
    return Math.max(1, Math.min(...ends) - now);
  }

  /** Returns whether the host waits for the learner's word. */
  #isWaited(): boolean {
    return this.queued.count > 0 || this.epoch === 0 || this.#closing;
  }

  #sayHello(): void {
    if (this.#helloed || !this.#connected || performance.now() < this.#fullUntil) return;
    this.#helloed = true;
    this.#say(HELLO).then(
      () => {
        this.#fullWait = FULL_MS;
      },
      (error) => {
        this.#helloed = false;
        this.#failed(error);
      },
    );
  }

  #say(flags: number): Promise<void> {
    const { link, keys, shard } = this.#given;
    const message = new Uint8Array(HEADER_BYTES);
    const { next: first, acknowledged: base } = this.queued;
    sealMessage(message, { ...this.#header(flags), first, rows: 0, base });
    return link.append(keys.stream(shard), message);
  }

  #header(flags: number) {
    const { session, layout, outbox, now } = this.#given;
    const { rowBytes, lanes } = outbox;
    return {
      ...emptyHeader(),
      flags,
      session,
      rowBytes,
      layout,
      lanes,
      version: this.#floor,
      sent: now(),
    };
  }

  #maySend(): boolean {
    const full = performance.now() < this.#fullUntil;
    this.#waits = !this.#connected
      ? 'server'
      : this.epoch === 0
        ? 'learner'
        : full
          ? 'room'
          : 'rows';
    return this.#waits === 'rows';
  }

  #fill(): void {
    const { outbox, flushMs } = this.#given;
    const now = performance.now();
    while (this.queued.inOrder) {
      const waiting = this.#lookAt();
      if (waiting === 0) {
        this.#since = null;
        return;
      }
      this.#since ??= now;
      const { count, bytes, messageBytes, isFull } = this.queued;
      if (isFull || (count > 0 && bytes + messageBytes > this.#view.window)) {
        this.#waits = this.#view.isSilent ? 'learner' : 'window';
        return;
      }
      if (waiting < this.#rowsPerMessage && now - this.#since < flushMs && !this.#closing) return;
      if (this.queued.send(outbox.take, waiting, this.#header(0)) === 0) return;
      this.#since = null;
    }
  }

  /**
   * Returns how many rows wait. Rows that are collected after them are acted by this version, or by
   * a later one.
   */
  #lookAt(): number {
    const { outbox, version } = this.#given;
    if (this.#versionsOf !== this.epoch) {
      // The waiting rows were acted by another learner's weights.
      this.#versionsOf = this.epoch;
      this.#floor = 0;
      this.#floors.length = 0;
    }
    const now = version(this.epoch);
    const waiting = outbox.waiting();
    const { next } = this.queued;
    // Steps are not taken in the order that they were added in.
    const isKnown = outbox.lanes === 0 ? this.#floors.length < MAX_FLOORS : waiting === 0;
    if (isKnown && now !== (this.#floors.at(-1)?.version ?? this.#floor))
      this.#floors.push({ from: next + waiting, version: now });
    while (this.#floors[0] && this.#floors[0].from <= next)
      this.#floor = this.#floors.shift()!.version;
    return waiting;
  }

  #countFull(): void {
    const now = performance.now();
    // Also while it stays full: a host that is stopped for long reports it.
    if (this.#fullSince !== null) this.fullMs += now - this.#fullSince;
    this.#fullSince = this.#waits === 'window' ? now : null;
  }

  #failed(error: unknown): void {
    if (!(error instanceof LinkError) || error.how === 'denied')
      this.#failure ??= errorOf(coded(error));
    else if (error.how === 'full') {
      this.#fullUntil = performance.now() + this.#fullWait;
      this.#fullWait = Math.min(2 * this.#fullWait, MAX_FULL_MS);
    }
    this.bell.ring();
  }
}
