/**
 * Publishes on the server what concerns the whole run: the lease, the facts that hosts need, the
 * newest weights, and the status. Only the thread of the learner's first stream does this.
 */
import { randomInt } from 'node:crypto';
import { stateError } from '../../base/errors.ts';
import type { Bell } from '../../shm/bell.ts';
import { epochOf, infoFields, type RunInfo } from './info.ts';
import { type Keys, LEASE_MS } from './keys.ts';
import { type Link, LinkError } from './link.ts';
import type { WeightsOut } from './weights.ts';

const RENEW_MS = 3000;
/** Milliseconds after which the status expires, because the learner may be dead. */
const STATUS_LIFE_MS = 10_000;
const MAX_MS = 1000;
/** Milliseconds between a failed call and the next attempt. */
const AGAIN_MS = 100;
/**
 * Range of the random part of an epoch. With this part, two learners that take a run in the same
 * second have different epochs. If they had the same epoch, and so the same lease value, each of
 * them would believe that it has the run.
 */
const SPREAD = 2 ** 20;

/**
 * Takes the run, and resolves to this learner's epoch, which is larger than that of any earlier
 * learner. Rejects with ERR_HOTSLOT_STATE_BUSY while another learner has the run.
 *
 * If the connection is lost, takeRun() tries again until `over` returns true. Another attempt is
 * safe, because it uses the same epoch, and a lease with the same epoch is the same lease.
 */
export async function takeRun(
  link: Link,
  keys: Keys,
  run: string,
  over: () => boolean = () => false,
): Promise<number> {
  for (let epoch = 0; ; )
    try {
      const least = (await epochOf(link, keys.info)) + 1;
      if (epoch < least)
        epoch = Math.max(least, Math.floor(Date.now() / 1000) * SPREAD) + randomInt(SPREAD);
      const holder = await link.lease(keys.learner, `${epoch}`, LEASE_MS);
      if (holder === `${epoch}`) return epoch;
      throw stateError(
        'BUSY',
        `another learner has the run '${run}'; end it, choose another name, or wait ${LEASE_MS / 1000} s if it died`,
      );
    } catch (error) {
      if (!(error instanceof LinkError) || error.how === 'denied' || over()) throw error;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
}

export interface LeaderOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly run: string;
  readonly info: RunInfo;
  /** null if the run has no weights */
  readonly weights: WeightsOut | null;
  /** bell that is rung when there are new weights */
  readonly bell: Bell;
}

export class Leader {
  readonly #given: LeaderOptions;
  #stopped = false;
  #connected = true;
  #renewAt = 0;
  #announced = false;
  /** whether weights are being stored, and the error of the last attempt if it failed */
  #storing = false;
  #failed: { readonly error: unknown } | null = null;
  #publish!: () => void;
  /** resolves when hosts can join */
  readonly announced = new Promise<void>((resolve) => {
    this.#publish = resolve;
  });

  constructor(given: LeaderOptions) {
    this.#given = given;
  }

  /**
   * Called by the link after each connection. Makes run() publish everything again, because the
   * server may have lost it.
   */
  onConnected(): void {
    this.#connected = true;
    this.#announced = false;
    this.#renewAt = 0;
    this.#given.weights?.again();
    this.#given.bell.ring();
  }
  onLost(): void {
    this.#connected = false;
  }
  stop(): void {
    this.#stopped = true;
    this.#given.bell.ring();
  }

  /** Renews the lease and publishes until stop(). Rejects when another learner has the run. */
  async run(): Promise<void> {
    const { weights, bell } = this.#given;
    while (!this.#stopped) {
      const count = bell.read();
      try {
        if (this.#connected) await this.#work();
      } catch (error) {
        if (!(error instanceof LinkError) || error.how === 'denied') throw error;
        await bell.parkAsync(count, AGAIN_MS);
        continue;
      }
      const due = this.#connected
        ? Math.min(
            this.#storing ? MAX_MS : (weights?.dueMs ?? MAX_MS),
            this.#renewAt - performance.now(),
          )
        : MAX_MS;
      await bell.parkAsync(count, Math.max(1, Math.min(due, MAX_MS)));
    }
  }

  /** Releases the run, so that another learner need not wait. */
  async leave(): Promise<void> {
    const { link, keys, info } = this.#given;
    // Lets the lease expire after 1 ms. If another learner has the lease by now, this changes
    // nothing.
    await link.lease(keys.learner, `${info.epoch}`, 1);
  }

  async publish(status: Uint8Array): Promise<void> {
    await this.#given.link.store(this.#given.keys.status, status, STATUS_LIFE_MS);
  }

  async #work(): Promise<void> {
    const { link, keys, run, info, weights } = this.#given;
    if (performance.now() >= this.#renewAt) {
      const mine = `${info.epoch}`;
      const holder = await link.lease(keys.learner, mine, LEASE_MS);
      // A server that restarted with old data shows the lease of an earlier learner, whose epoch is
      // smaller. This learner then tries again, until that lease has expired.
      const isEarlier = Number(holder) < info.epoch;
      if (holder !== mine && !isEarlier)
        throw stateError(
          'BUSY',
          `another learner has taken the run '${run}' while this one had no connection`,
        );
      this.#renewAt = performance.now() + (isEarlier ? MAX_MS : RENEW_MS);
    }
    if (!this.#announced) {
      await link.store(keys.info, infoFields(info));
      this.#announced = true;
      this.#publish();
    }
    if (this.#failed !== null) {
      const { error } = this.#failed;
      this.#failed = null;
      throw error;
    }
    if (weights && weights.dueMs <= 0 && !this.#storing) this.#store(weights);
  }

  /**
   * Begins to store weights, and returns at once. Over a slow line, storing may take longer than a
   * lease lasts. So run() must be able to renew the lease meanwhile.
   */
  #store(weights: WeightsOut): void {
    this.#storing = true;
    weights
      .store()
      .catch((error) => {
        this.#failed = { error };
      })
      .finally(() => {
        this.#storing = false;
        this.#given.bell.ring();
      });
  }
}
