/**
 * A host's view of its learner.
 *
 *   Uplink-5  The learner stores each acknowledgement as a state, and also sends it as a notice.
 *       The host reads the stored state once a second while rows are unacknowledged, and after
 *       every connection. So a lost notice delays an acknowledgement by at most a second.
 *   Uplink-6  A host accepts another epoch only if the lease contains it. It accepts a larger epoch
 *       at once. A smaller epoch may be old data: a server that restarts with old data shows the
 *       lease and the acknowledgements of an earlier learner. So the host accepts a smaller epoch
 *       only if its heartbeat continues and the lease contains it for longer than an old lease
 *       could last. In that case the clock of the learner's machine was set back.
 *   Uplink-7  A host sends nothing to another learner before that learner has published its run. A
 *       host rejects a learner with another layout, or other weights, options or streams.
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

/** Milliseconds without a new heartbeat after which a learner counts as absent. */
const SILENCE_MS = 4 * HEARTBEAT_MS;

export interface LearnerViewOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly session: number;
  readonly shard: number;
  readonly queue: RetransmitQueue;
  readonly failed: (error: unknown) => void;
  /**
   * resolves to whether the learner of that epoch is known to fit this host, and rejects if it does
   * not fit
   */
  readonly meets: (epoch: number) => Promise<boolean>;
  /** called when this view has changed */
  readonly ring: () => void;
}

export class LearnerView {
  /** epoch of the learner that has the run, 0 before the first */
  epoch = 0;
  /** bytes that this host may have in transit */
  window = 0;
  readonly #options: LearnerViewOptions;
  /** `nak` of the learner's last request for missing rows that this host has answered */
  #requested = 0;
  #polling = false;
  #pollAt = 0;
  /**
   * `count` of the first heartbeat after the server had replied to every message, or null before
   * that
   */
  #count: number | null = null;
  /** number of the last heartbeat, and when that was first seen */
  #beat = 0;
  #beatAt = 0;
  /** a smaller epoch that the lease contains and that is not accepted yet (Uplink-6) */
  #smaller: { readonly epoch: number; readonly beat: number; readonly since: number } | null = null;

  constructor(given: LearnerViewOptions) {
    this.#options = given;
  }

  /** time from which on poll() reads again, by performance.now() */
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
  /**
   * Makes the view count the heartbeats anew from the next one on (Uplink-4). Call it when the
   * server has replied to a message, or when sending has failed.
   */
  moved(): void {
    this.#count = null;
  }

  /** Reads the acknowledgement and the heartbeat if it is time to do so (Uplink-5). */
  poll(): void {
    const { link, keys, session, shard, failed, ring } = this.#options;
    const now = performance.now();
    if (this.#polling || now < this.#pollAt) return;
    this.#polling = true;
    // If this view has not read for a while, it may have missed heartbeats. So the learner's
    // silence is counted from now on.
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
    const acknowledgement = readAcknowledgement(text);
    if (acknowledgement === null) return;
    if (acknowledgement.epoch === this.epoch) this.#apply(acknowledgement);
    else void this.#otherEpoch(acknowledgement.epoch).then(() => this.#apply(acknowledgement));
  }

  /** Accepts another epoch if Uplink-6 permits that. */
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
    // The new learner counts its requests from the first one, and has not acknowledged rows of this
    // host yet.
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
    // Ignores an acknowledgement of another epoch, or of rows that this host has never sent.
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
   * Handles a heartbeat. If `count` has grown twice since the server replied to every message,
   * unacknowledged messages have vanished from the server. In that case, sends these messages
   * again.
   */
  #onHeartbeat(text: string): void {
    const heartbeat = readHeartbeat(text);
    if (heartbeat === null) return;
    if (heartbeat.beat !== this.#beat) {
      this.#beat = heartbeat.beat;
      this.#beatAt = performance.now();
    }
    if (heartbeat.epoch !== this.epoch) {
      void this.#otherEpoch(heartbeat.epoch, heartbeat.beat);
      return;
    }
    const { queue } = this.#options;
    if (queue.count === 0 || !queue.allReplied) {
      this.#count = null;
      return;
    }
    this.#count ??= heartbeat.count;
    if (heartbeat.count >= this.#count + 2) this.#sendAllAgain();
  }

  #sendAllAgain(foreign = false): void {
    this.#count = null;
    this.#options.queue.again(foreign);
    this.#options.ring();
  }
}
