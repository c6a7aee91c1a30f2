/**
 * A host's view of its learner.
 *
 *   Uplink-5  An acknowledgement is a state. It comes as a notice, and is read once a second while
 *       something is not acknowledged, and after every connection, so a lost notice costs a second.
 *   Uplink-6  A host accepts another epoch only if the lease holds it, and at first only a larger
 *       one. The reason is a server that restarts with old data, and so shows an earlier learner's
 *       lease and acknowledgements. A host accepts a smaller epoch when that has outlived such a
 *       lease and its heartbeat continues: then the clock of the learner's machine was set back.
 *   Uplink-7  A host sends nothing to another learner before that learner has published its run. A
 *       learner with another layout, or other weights, options or streams, is not one for this
 *       host.
 */
import { unavailableError } from '../../base/errors.ts';
import {
  type Acknowledgement,
  HEARTBEAT_MS,
  heartbeatField,
  readAcknowledgement,
  readHeartbeat,
} from './acknowledgement.ts';
import { type Keys, LEASE_MS, sessionName } from './keys.ts';
import type { Link } from './link.ts';
import type { RetransmitQueue } from './retransmit-queue.ts';

/** A learner without a new heartbeat for this long counts as absent. */
const SILENCE_MS = 4 * HEARTBEAT_MS;

export interface LearnerViewOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly session: number;
  readonly shard: number;
  readonly queue: RetransmitQueue;
  readonly failed: (error: unknown) => void;
  /**
   * resolves with whether the learner of that epoch is known to fit this host, and rejects if it
   * does not fit
   */
  readonly meets: (epoch: number) => Promise<boolean>;
  /** called when something new is known */
  readonly ring: () => void;
}

export class LearnerView {
  /** epoch of the learner that has the run, 0 before the first */
  epoch = 0;
  /** bytes that may be on the way */
  window = 0;
  readonly #options: LearnerViewOptions;
  /** `nak` of the learner that was answered last */
  #requested = 0;
  #polling = false;
  #pollAt = 0;
  /** `count` of the first heartbeat after every message had a reply, or null before that */
  #count: number | null = null;
  /** the last beat, and when it was seen first */
  #beat = 0;
  #beatAt = 0;
  /** a smaller epoch that the lease holds */
  #smaller: { readonly epoch: number; readonly beat: number; readonly since: number } | null = null;

  constructor(given: LearnerViewOptions) {
    this.#options = given;
  }

  /** when it reads next, by performance.now() */
  get pollAt(): number {
    return this.#pollAt;
  }

  /** whether no new heartbeat was seen for SILENCE_MS */
  get isSilent(): boolean {
    return this.epoch > 0 && performance.now() - this.#beatAt > SILENCE_MS;
  }

  /** Makes the next poll() read at once. */
  hurry(): void {
    this.#pollAt = 0;
  }
  /** Restarts the count of heartbeats, because a message was sent or a reply came. */
  moved(): void {
    this.#count = null;
  }

  /** Uplink-5 */
  poll(): void {
    const { link, keys, session, shard, failed, ring } = this.#options;
    const now = performance.now();
    if (this.#polling || now < this.#pollAt) return;
    this.#polling = true;
    // Heartbeats that came while nothing was read are unknown.
    if (now - this.#pollAt > HEARTBEAT_MS) this.#beatAt = now;
    this.#pollAt = now + HEARTBEAT_MS;
    link
      .load(keys.acks, [sessionName(session), heartbeatField(shard)])
      .then(([text, beat]) => {
        if (text) this.onAcknowledgement(text);
        if (beat) this.#onHeartbeat(beat);
      })
      .catch(failed)
      .finally(() => {
        this.#polling = false;
        ring();
      });
  }

  onAcknowledgement(text: string): void {
    const reported = readAcknowledgement(text);
    if (reported === null) return;
    if (reported.epoch === this.epoch) this.#apply(reported);
    else void this.#otherEpoch(reported.epoch).then(() => this.#apply(reported));
  }

  /** Uplink-6 */
  async #otherEpoch(epoch: number, beat = 0): Promise<void> {
    const { link, keys, failed, meets } = this.#options;
    try {
      const holder = await link.load(keys.learner);
      if (holder === null || new TextDecoder().decode(holder) !== `${epoch}`) return;
      if (epoch < this.epoch && !this.#hasOutlived(epoch, beat)) return;
      // Uplink-7
      if (!(await meets(epoch)) || this.epoch === epoch) return;
    } catch (error) {
      failed(error);
      return;
    }
    this.epoch = epoch;
    // Its requests count from the first one, and it has yet to acknowledge rows of this host.
    this.#requested = 0;
    this.#sendAllAgain(true);
  }

  #hasOutlived(epoch: number, beat: number): boolean {
    const now = performance.now();
    if (this.#smaller?.epoch !== epoch) this.#smaller = { epoch, beat, since: now };
    return beat > this.#smaller.beat && now - this.#smaller.since > 2 * LEASE_MS;
  }

  #apply({ epoch, row, window, nak, refused }: Acknowledgement): void {
    const { queue, failed, ring } = this.#options;
    // A late acknowledgement, of an earlier epoch or out of order, says less than is known.
    if (epoch !== this.epoch || row > queue.next) return;
    if (refused !== '') {
      failed(unavailableError(`the learner rejects this host: ${refused}`));
      return;
    }
    if (row >= queue.acknowledged) this.window = window;
    queue.acknowledge(row);
    if (nak > this.#requested) {
      this.#requested = nak;
      this.#sendAllAgain();
    }
    ring();
  }

  /**
   * After two counted beats since the last reply, messages that are still kept have vanished from
   * the server.
   */
  #onHeartbeat(text: string): void {
    const reported = readHeartbeat(text);
    if (reported === null) return;
    if (reported.beat !== this.#beat) {
      this.#beat = reported.beat;
      this.#beatAt = performance.now();
    }
    if (reported.epoch !== this.epoch) {
      void this.#otherEpoch(reported.epoch, reported.beat);
      return;
    }
    const { queue } = this.#options;
    if (queue.count === 0 || !queue.allReplied) {
      this.#count = null;
      return;
    }
    this.#count ??= reported.count;
    if (reported.count >= this.#count + 2) this.#sendAllAgain();
  }

  #sendAllAgain(foreign = false): void {
    this.#count = null;
    this.#options.queue.again(foreign);
    this.#options.ring();
  }
}
