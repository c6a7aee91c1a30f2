/**
 * What a host knows of its learner.
 *
 *   Uplink-5  An acknowledgement is a state. It comes as a notice, and is read once a second while
 *       something is not acknowledged, and after every connection: a notice that is lost costs a
 *       second.
 *   Uplink-6  Another epoch is believed only when the lease says it, and only a larger one: a
 *       server that comes back with what it once had shows an earlier learner's lease and
 *       acknowledgements. A smaller one is believed when it has outlived such a lease, with a heart
 *       that beats: then the clock of the learner's machine was set back.
 *   Uplink-7  Nothing is sent to another learner before it has told of its run: of another layout,
 *       of other weights, options or streams it is none for this host.
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

/** A learner that has not beaten for so long is not there. */
const SILENCE_MS = 4 * HEARTBEAT_MS;

export interface LearnerViewOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly session: number;
  readonly shard: number;
  readonly queue: RetransmitQueue;
  readonly failed: (error: unknown) => void;
  /**
   * whether this host is for the learner of that epoch, as far as it is known; rejects where it is
   * not
   */
  readonly meets: (epoch: number) => Promise<boolean>;
  /** something is known that was not before */
  readonly ring: () => void;
}

export class LearnerView {
  /** of the learner that has the run; 0 before the first */
  epoch = 0;
  /** bytes that may be on the way */
  window = 0;
  readonly #options: LearnerViewOptions;
  /** questions of the learner that were answered */
  #asked = 0;
  #polling = false;
  #pollAt = 0;
  /**
   * what the heartbeat counted when it was seen first after a reply to everything; null: not yet
   */
  #count: number | null = null;
  /** the last beat, and when it was seen first */
  #beat = 0;
  #beatAt = 0;
  /** a smaller epoch that the lease says */
  #smaller: { readonly epoch: number; readonly beat: number; readonly since: number } | null = null;

  constructor(given: LearnerViewOptions) {
    this.#options = given;
  }

  /** when it reads next, by performance.now() */
  get pollAt(): number {
    return this.#pollAt;
  }

  /** Its heart does not beat any more, as far as was looked. */
  get isSilent(): boolean {
    return this.epoch > 0 && performance.now() - this.#beatAt > SILENCE_MS;
  }

  /** Reads at once. */
  hurry(): void {
    this.#pollAt = 0;
  }
  /** A message went out, or a reply came: heartbeats count from here on. */
  moved(): void {
    this.#count = null;
  }

  /** Uplink-5 */
  poll(): void {
    const { link, keys, session, shard, failed, ring } = this.#options;
    const now = performance.now();
    if (this.#polling || now < this.#pollAt) return;
    this.#polling = true;
    // What came while nobody looked is not known.
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
    const said = readAcknowledgement(text);
    if (said === null) return;
    if (said.epoch === this.epoch) this.#apply(said);
    else void this.#otherEpoch(said.epoch).then(() => this.#apply(said));
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
    // Its questions are counted from the first; what it has of ours it has yet to say.
    this.#asked = 0;
    this.#sendAllAgain(true);
  }

  #hasOutlived(epoch: number, beat: number): boolean {
    const now = performance.now();
    if (this.#smaller?.epoch !== epoch) this.#smaller = { epoch, beat, since: now };
    return beat > this.#smaller.beat && now - this.#smaller.since > 2 * LEASE_MS;
  }

  #apply({ epoch, row, window, nak, refused }: Acknowledgement): void {
    const { queue, failed, ring } = this.#options;
    // What came late, of an earlier epoch or in another order, says less than what is known.
    if (epoch !== this.epoch || row > queue.next) return;
    if (refused !== '') {
      failed(unavailableError(`the learner refuses this host: ${refused}`));
      return;
    }
    if (row >= queue.acknowledged) this.window = window;
    queue.acknowledge(row);
    if (nak > this.#asked) {
      this.#asked = nak;
      this.#sendAllAgain();
    }
    ring();
  }

  /**
   * Behind two beats that count since every reply, what is still kept has vanished from the server.
   */
  #onHeartbeat(text: string): void {
    const said = readHeartbeat(text);
    if (said === null) return;
    if (said.beat !== this.#beat) {
      this.#beat = said.beat;
      this.#beatAt = performance.now();
    }
    if (said.epoch !== this.epoch) {
      void this.#otherEpoch(said.epoch, said.beat);
      return;
    }
    const { queue } = this.#options;
    if (queue.count === 0 || !queue.allReplied) {
      this.#count = null;
      return;
    }
    this.#count ??= said.count;
    if (said.count >= this.#count + 2) this.#sendAllAgain();
  }

  #sendAllAgain(foreign = false): void {
    this.#count = null;
    this.#options.queue.again(foreign);
    this.#options.ring();
  }
}
