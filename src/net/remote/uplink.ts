/**
 * Sends a host's rows. It puts them into messages, and keeps each message until the learner has
 * acknowledged its rows (retransmit-queue.ts, learner-view.ts).
 *
 *   Uplink-4  A single message is sent again only if the server's reply to it was lost, or was
 *       "full". All messages are sent again if the learner asks (its `nak` has grown), or if
 *       another learner has the run. They are also sent again after the server has replied to all
 *       of them and then two heartbeats have counted (Receiver-5). No timer sends messages again,
 *       because a message is in the stream once the server has replied to it. Otherwise, a
 *       connection that is lost again and again could fill the server with copies.
 *
 * One loop does all of this. Every event rings the loop's bell, which is on the outbox's board.
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
  /**
   * returns the oldest version of the weights with which collectors act now, or 0 if another
   * epoch's learner published it
   */
  readonly version: (epoch: number) => number;
  /** as in learner-view.ts (default: every learner of the run fits this host) */
  readonly meets?: (epoch: number) => Promise<boolean>;
  readonly now: () => number;
}

/** The reasons why a host waits. */
export type UplinkWait = 'rows' | 'learner' | 'window' | 'server' | 'room';

/**
 * Milliseconds after which the host sends a message to a full server again. Each failure doubles
 * them, up to the maximum.
 */
const FULL_MS = 100;
const MAX_FULL_MS = 2000;
/**
 * Maximum number of newer versions that are remembered while rows of older versions wait. At the
 * maximum, later versions are not recorded, so their rows count as older than they are.
 */
const MAX_FLOORS = 64;
/** Maximum ms of a park, in case a bug loses a ring. */
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
  /** time since which rows wait until a message is full, or null if no rows wait */
  #since: number | null = null;
  /** oldest version of the weights that may have chosen the next row's action */
  #floor = 0;
  /** the same for later rows: each `version` applies from row `from` on */
  readonly #floors: { readonly from: number; readonly version: number }[] = [];
  /** epoch of the learner to which these versions belong */
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
    // A step that ends its episode must be in one message with its final observation.
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

  /** The reason why the host does not send. 'rows' means that it only waits for rows. */
  get waits(): UplinkWait {
    return this.#waits;
  }
  /** rows that are not in a message yet */
  get waiting(): number {
    return this.#given.outbox.waiting();
  }
  /** epoch of the learner to which the host sends, 0 before the first learner */
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
    // This timer keeps the process alive, because a park does not.
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
          await this.#say(BYE).catch(() => {}); // if this fails, the learner keeps its lanes
          return;
        }
        await this.bell.parkAsync(knownCount, this.#parkMs());
      }
    } finally {
      clearInterval(hold);
      this.#given.outbox.bells.release(this.bell);
    }
  }

  /** Makes run() send the remaining rows and a goodbye. Call it when no more rows are added. */
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

  /** Returns whether the host waits for a message of the learner. */
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
   * Returns how many rows wait, and records the current version of the weights. Rows that are
   * collected after the waiting rows have this version, or a later one.
   */
  #lookAt(): number {
    const { outbox, version } = this.#given;
    if (this.#versionsOf !== this.epoch) {
      // An earlier learner's weights chose the actions of the waiting rows. So these rows have
      // version 0, which is older than any version of the new learner.
      this.#versionsOf = this.epoch;
      this.#floor = 0;
      this.#floors.length = 0;
    }
    const now = version(this.epoch);
    const waiting = outbox.waiting();
    const { next } = this.queued;
    // Messages take steps in another order than they were added, so no row number separates older
    // from newer steps. So a new version of steps is recorded only while no step waits.
    const isKnown = outbox.lanes === 0 ? this.#floors.length < MAX_FLOORS : waiting === 0;
    if (isKnown && now !== (this.#floors.at(-1)?.version ?? this.#floor))
      this.#floors.push({ from: next + waiting, version: now });
    while (this.#floors[0] && this.#floors[0].from <= next)
      this.#floor = this.#floors.shift()!.version;
    return waiting;
  }

  #countFull(): void {
    const now = performance.now();
    // Adds the time at each call while the window is full, not only after that. So the statistics
    // show it even while a host cannot send.
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
