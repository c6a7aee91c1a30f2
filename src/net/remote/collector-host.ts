/**
 * The collectors of a machine, for a learner on another machine. A pool of threads adds rows to a
 * local buffer, and an Uplink sends the rows from there. The collectors' modules are the same as in
 * a CollectorPool next to the learner.
 */
import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { crc32 } from '../../base/arrays/crc32.ts';
import { checkInternal, INTERNAL } from '../../base/checks.ts';
import { callAfter } from '../../base/clock.ts';
import { Closing } from '../../base/closing.ts';
import { unavailableError } from '../../base/errors.ts';
import { CollectorPool } from '../../run/collectors/collector-pool.ts';
import { orAborted } from '../../shm/wait.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import {
  type CollectorHostOptions,
  type CollectorHostStatistics,
  checkedHost,
} from './host-options.ts';
import { STAT_LIFE_MS, STAT_MS, writeStat } from './host-stat.ts';
import { differenceOf, type RunInfo, readInfo } from './info.ts';
import { type Keys, keysOf } from './keys.ts';
import { bufferLike, layoutSum } from './layout.ts';
import { coded } from './link.ts';
import { outboxOf } from './outbox.ts';
import { openRedisLink, type RedisLink } from './redis-link.ts';
import { Uplink, type UplinkWait } from './uplink.ts';
import { WeightsIn } from './weights.ts';

/** Milliseconds between two checks whether the run is published. */
const LOOK_MS = 500;
/**
 * Milliseconds that waiting rows have to reach the learner after close(). Rows that are not sent by
 * then are lost.
 */
const DRAIN_MS = 5000;

const words: Record<UplinkWait, string | null> = {
  rows: null,
  learner: 'the learner of this run is not connected',
  window: 'the learner takes no more rows for now',
  server: 'the server is not connected',
  room: 'the server has no memory left',
};

interface Parts {
  readonly link: RedisLink;
  readonly keys: Keys;
  readonly uplink: Uplink;
  readonly pool: CollectorPool;
  readonly weights: WeightsIn | null;
  readonly session: number;
  readonly name: string;
  readonly close: () => void;
}

/**
 * Collects rows in this process for a learner on another machine.
 * @example
 * const entry = new URL('./collector.mjs', import.meta.url);
 * await using host = await CollectorHost.open({ url, run: 'ant-7', entry, workers: 8 });
 * await host.done;
 */
export class CollectorHost implements AsyncDisposable {
  /**
   * Resolves after close(). Rejects with a collector's error, or with the learner's reason for
   * refusing this host.
   */
  readonly done: Promise<void>;
  readonly #parts: Parts;
  readonly #stat: NodeJS.Timeout;
  #fetching = false;
  #fullMs = 0;
  /** statistics when the host was closed, or null before */
  #last: CollectorHostStatistics | null = null;
  #failed = '';
  readonly #closing = new Closing();

  /**
   * Joins a run: waits until its learner has published it, and starts the collectors.
   *
   * @throws {TypeError|RangeError} for wrong options
   * @throws {ERR_HOTSLOT_UNAVAILABLE} for a server that is too old, wrong credentials, an invalid
   *   certificate, another version of Hotslot, or a missing package `@redis/client`
   * @throws the error of a collector's module
   */
  static async open(options: CollectorHostOptions): Promise<CollectorHost> {
    const given = checkedHost(options);
    const { url, insecure, password, ca, run, entry, workers, signal } = given;
    const keys = keysOf(run);
    const session = randomInt(1, 2 ** 48 - 1);
    const reach = { url, insecure, password, ca };
    const link = await openRedisLink({
      ...reach,
      name: `hotslot host ${given.name}`,
      facts: false,
    });
    const closers: (() => unknown)[] = [() => link.close()];
    const close = async () => {
      for (const each of closers.splice(0).reverse()) await each();
    };
    try {
      let host: CollectorHost | null = null;
      let uplink: Uplink | null = null;
      let connected = true;
      const onWait = given.onWait ?? (() => {});
      const opened = link.connect({
        channels: [keys.ack(session), keys.versions],
        notice(channel, text) {
          if (channel === keys.versions) host?.fetch();
          else uplink?.notice(text);
        },
        connected() {
          connected = true;
          uplink?.connected();
          host?.fetch();
        },
        lost(cause) {
          connected = false;
          uplink?.lost();
          onWait(cause.message);
        },
      });
      await orAborted(opened, signal);
      const info = await infoOf(link, keys, { run, signal, onWait });
      const buffer = bufferLike(info.layout, given.outboxBytes, given.lanes);
      closers.push(() => buffer.close());
      const mailbox = info.weights > 0 ? WeightMailbox.create({ length: info.weights }) : undefined;
      const weights = mailbox ? new WeightsIn({ link, keys, mailbox }) : null;
      await weights?.fetch().catch(() => {}); // fetch() tries again after the next notice
      const options = info.options ?? undefined;
      const seed = crc32(Buffer.from(`${info.seed} ${given.name}`));
      const pool = await CollectorPool.open({
        entry,
        buffer: buffer as never,
        workers,
        seed,
        options,
        ...(mailbox && { mailbox }),
        ...(signal && { signal }),
      });
      closers.push(() => pool.close());
      uplink = new Uplink({
        link,
        keys,
        session,
        shard: session % info.shards,
        layout: layoutSum(info.layout),
        now: Date.now,
        outbox: outboxOf(buffer),
        flushBytes: given.flushBytes,
        flushMs: given.flushMs,
        version: (epoch) => weights?.versionOf(pool.statistics().version, epoch) ?? 0,
        meets: (epoch) => meets(link, keys, info, epoch),
      });
      host = new CollectorHost(INTERNAL, {
        link,
        keys,
        uplink,
        pool,
        weights,
        session,
        name: given.name,
        close,
      });
      if (connected) uplink.connected();
      host.fetch();
      return host;
    } catch (error) {
      await close();
      throw error;
    }
  }

  private constructor(key: unknown, parts: Parts) {
    checkInternal(key, 'CollectorHost', 'CollectorHost.open()');
    this.#parts = parts;
    this.#stat = setInterval(() => this.#storeStat(), STAT_MS);
    this.#storeStat();
    const running = parts.uplink.run();
    running.catch(() => {}); // #both() reports the error
    this.done = this.#both(running);
  }

  async #both(running: Promise<void>): Promise<void> {
    const { pool, uplink } = this.#parts;
    try {
      // Waits until the uplink ends or the pool fails. If the pool was closed, its `done` resolves,
      // and the uplink still sends the remaining rows.
      await Promise.race([running, pool.done.then(() => running)]);
    } catch (error) {
      this.#failed = (error as Error).message;
      await this.#storeStat();
      throw error;
    } finally {
      await pool.close();
      uplink.stop();
      clearInterval(this.#stat);
      this.#last = this.statistics();
      await this.#parts.close();
    }
  }

  /** Returns the counts of the pool, and the rows sent, acknowledged, repeated and waiting. */
  statistics(): CollectorHostStatistics {
    if (this.#last) return { ...this.#last };
    const { pool, uplink, weights } = this.#parts;
    const collected = pool.statistics();
    const { queued, waits } = uplink;
    return {
      ...collected,
      version: weights?.versionOf(collected.version) ?? 0,
      sent: queued.next,
      acknowledged: queued.acknowledged,
      repeated: queued.repeated,
      waiting: uplink.waiting,
      waitingFor: words[waits],
    };
  }

  /**
   * Stops the collectors, sends the remaining rows, waits up to five seconds until the learner has
   * them, and leaves the run. Idempotent.
   */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      const { pool, uplink } = this.#parts;
      await pool.close();
      uplink.close();
      using _ = callAfter(DRAIN_MS, () => uplink.stop());
      await this.done.catch(() => {}); // callers that wait for `done` get the error
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Fetches the newest weights. Does nothing while an earlier fetch is under way. */
  fetch(): void {
    const { weights } = this.#parts;
    if (weights === null || this.#fetching) return;
    this.#fetching = true;
    weights
      .fetch()
      .catch(() => {}) // the next notice or #storeStat() fetches again
      .finally(() => {
        this.#fetching = false;
      });
  }

  async #storeStat(): Promise<void> {
    const { link, keys, session, name, pool, uplink } = this.#parts;
    const { steps, episodes, meanReturn, recent, waits, version, waiting } = this.statistics();
    const fullMs = uplink.fullMs;
    const full = Math.min(1, Math.max(0, fullMs - this.#fullMs) / STAT_MS);
    this.#fullMs = fullMs;
    this.fetch();
    const stat = writeStat({
      host: name,
      pid: process.pid,
      workers: pool.workers,
      steps,
      episodes,
      recent,
      waits,
      version,
      waiting,
      underWay: uplink.queued.bytes,
      full,
      meanReturn: Number.isNaN(meanReturn) ? null : meanReturn,
      failed: this.#failed.slice(0, 500),
    });
    // Ignores errors, because the next report follows in a second.
    await link.store(keys.stat(session), stat, STAT_LIFE_MS).catch(() => {});
  }
}

/** Waits until the learner has published the run's facts, and returns them. */
async function infoOf(
  link: RedisLink,
  keys: Keys,
  {
    run,
    signal,
    onWait,
  }: { run: string; signal: AbortSignal | undefined; onWait: (words: string) => void },
): Promise<RunInfo> {
  for (let reported = false; ; ) {
    const info = await readInfo(link, keys.info).catch((error) => {
      // If the connection is lost, tries again below. The link reports the loss, and connects
      // again.
      if ((error as { how?: string }).how === 'lost') return null;
      throw coded(error);
    });
    if (info !== null) return info;
    if (!reported) onWait(`the learner of the run '${run}' has not started yet`);
    reported = true;
    await orAborted(wait(LOOK_MS), signal);
  }
}

/**
 * Returns whether the learner of `epoch` has published its run. Rejects if that run differs from
 * `mine`, for which this host was opened.
 */
async function meets(link: RedisLink, keys: Keys, mine: RunInfo, epoch: number): Promise<boolean> {
  if (epoch === mine.epoch) return true;
  const info = await readInfo(link, keys.info);
  if (info?.epoch !== epoch) return false;
  const difference = differenceOf(mine, info);
  if (difference !== null)
    throw unavailableError(`another learner has the run: ${difference}; restart this host`);
  return true;
}
