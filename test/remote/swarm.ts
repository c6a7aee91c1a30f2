/**
 * Many hosts in one process, without collectors. Each has the uplink and the link of a real host,
 * and an outbox of numbered rows. The learner is a real one. After any fault the buffer must hold
 * every row of every host once and in the order of its host. Weights that a host has read must be
 * complete.
 */
import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import { RateLimiter, WeightMailbox } from '../../src/index.ts';
import { readAcknowledgement } from '../../src/net/remote/acknowledgement.ts';
import { type Keys, keysOf } from '../../src/net/remote/keys.ts';
import { layoutSum, layoutText } from '../../src/net/remote/layout.ts';
import type { Outbox } from '../../src/net/remote/outbox.ts';
import { openRedisLink, type RedisLink } from '../../src/net/remote/redis-link.ts';
import { RemoteCollectors } from '../../src/net/remote/remote-collectors.ts';
import { Uplink } from '../../src/net/remote/uplink.ts';
import { WeightsIn } from '../../src/net/remote/weights.ts';
import { BELL_WORDS, type Bell, BellBoard } from '../../src/shm/bell.ts';
import { waitFor } from '../../src/shm/wait.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';

export interface SwarmOptions {
  /** URL of the server for the learner, and for the hosts if it differs */
  readonly url: string;
  readonly hostUrl?: string;
  readonly hosts: number;
  /** the most rows that a host has */
  readonly rows: number;
  /** number of float32 values of a row; 8 by default */
  readonly width?: number;
  readonly flushBytes?: number;
  readonly transitBytes?: number;
  readonly shards?: number;
  /** number of rows that the learner takes beyond those that were sampled; unlimited by default */
  readonly lead?: number;
  /** length of the weights; 1,000 by default */
  readonly weights?: number;
  /** milliseconds for which the hosts' server may be silent */
  readonly silenceMs?: number;
}

/** Returns the value of all elements of the weights of a version. */
const weightOf = (version: number) => version + 0.5;
const PUBLISH_MS = 40;
/** Number of rows that are checked at once. */
const PIECE = 4096;

/** Its rows are [host, number, and host + number in all other elements]. */
class NumberedOutbox implements Outbox {
  readonly rowBytes: number;
  readonly lanes = 0;
  readonly bells = new BellBoard(new Int32Array(new SharedArrayBuffer(4 * BELL_WORDS)), 1);
  offered = 0;
  readonly #host: number;
  #taken = 0;

  constructor(host: number, rowBytes: number) {
    this.#host = host;
    this.rowBytes = rowBytes;
  }
  offer(rows: number): void {
    this.offered += rows;
    this.bells.ringAll();
  }
  waiting(): number {
    return this.offered - this.#taken;
  }
  readonly take = (out: Uint8Array, most: number): number => {
    const rows = Math.min(most, this.waiting());
    const width = this.rowBytes / 4;
    const words = new Float32Array(out.buffer, out.byteOffset, rows * width);
    for (let i = 0; i < rows; i++) {
      const number = this.#taken + i;
      words.fill(this.#host + number, i * width, (i + 1) * width);
      words[i * width] = this.#host;
      words[i * width + 1] = number;
    }
    this.#taken += rows;
    return rows;
  };
}

export class SwarmHost {
  readonly outbox: NumberedOutbox;
  readonly uplink: Uplink;
  readonly session: number;
  readonly ended: Promise<void>;
  failure: unknown = null;
  /** how often the host connected and lost its connection, and its latest window */
  connected = 0;
  lost = 0;
  window = 0;
  /** latest version of the learner's weights that was read, and the number of versions read */
  version = 0;
  versions = 0;
  readonly link: RedisLink;
  readonly #weights: WeightsIn;
  readonly #mailbox: WeightMailbox;
  readonly #read: Float32Array;
  readonly #known: { readonly published: number };
  #fetching = false;

  constructor(given: {
    link: RedisLink;
    keys: Keys;
    host: number;
    learner: Learner;
    options: SwarmOptions;
  }) {
    const { link, keys, host, learner, options } = given;
    const { buffer, mailbox } = learner;
    this.link = link;
    this.session = randomInt(1, 2 ** 48 - 1);
    this.outbox = new NumberedOutbox(host, buffer.rowBytes);
    this.#known = mailbox;
    this.#mailbox = WeightMailbox.create({ length: mailbox.length });
    this.#read = new Float32Array(mailbox.length);
    this.#weights = new WeightsIn({ link, keys, mailbox: this.#mailbox });
    this.uplink = new Uplink({
      link,
      keys,
      session: this.session,
      shard: this.session % (options.shards ?? 1),
      outbox: this.outbox,
      layout: layoutSum(layoutText(buffer)),
      flushBytes: options.flushBytes ?? 8192,
      flushMs: 5,
      version: () => this.version,
      now: Date.now,
    });
    this.ended = this.uplink.run().catch((error) => {
      this.failure = error;
    });
  }

  async connect(keys: Keys): Promise<void> {
    await this.link.connect({
      channels: [keys.ack(this.session), keys.versions],
      notice: (channel, text) => {
        if (channel === keys.versions) return void this.#fetch();
        this.window = readAcknowledgement(text)?.window ?? this.window;
        this.uplink.notice(text);
      },
      connected: () => {
        this.connected++;
        this.uplink.connected();
        void this.#fetch();
      },
      lost: () => {
        this.lost++;
        this.uplink.lost();
      },
    });
  }

  async #fetch(): Promise<void> {
    if (this.#fetching) return;
    this.#fetching = true;
    try {
      while (await this.#weights.fetch()) this.#look();
    } catch (error) {
      if ((error as { how?: string }).how !== 'lost') this.failure ??= error;
    } finally {
      this.#fetching = false;
    }
  }

  #look(): void {
    const version = this.#weights.versionOf(this.#mailbox.read(this.#read, 0));
    const odd = this.#read.findIndex((value) => value !== weightOf(version));
    if (odd >= 0 || version > this.#known.published)
      this.failure ??= new Error(`weights of version ${version} that were never written: [${odd}]`);
    this.version = version;
    this.versions++;
  }
}

interface Learner {
  readonly buffer: ReplayBuffer;
  readonly mailbox: WeightMailbox;
}

export class Swarm {
  readonly hosts: SwarmHost[] = [];
  readonly buffer: ReplayBuffer;
  readonly mailbox: WeightMailbox;
  readonly keys: Keys;
  remote!: RemoteCollectors;
  readonly #options: SwarmOptions;
  readonly #bell: Bell;
  readonly #publishing: NodeJS.Timeout;
  #failure: unknown = null;

  static async open(options: SwarmOptions): Promise<Swarm> {
    const swarm = new Swarm(options);
    try {
      await swarm.#open();
      return swarm;
    } catch (error) {
      await swarm.close();
      throw error;
    }
  }

  private constructor(options: SwarmOptions) {
    const { hosts, rows, width = 8, lead, weights = 1000 } = options;
    this.#options = options;
    const band = { samplesPerInsert: 1, minSize: 1, errorBuffer: lead ?? 1, gateAdd: true };
    this.buffer = ReplayBuffer.create({
      capacity: hosts * rows,
      fields: { row: { shape: [width] } },
      ...(lead !== undefined && { limiter: RateLimiter.create(band) }),
    }) as unknown as ReplayBuffer;
    this.mailbox = WeightMailbox.create({ length: weights });
    this.keys = keysOf('swarm');
    this.#bell = internalsOfBuffer(this.buffer).bells.claim() as Bell;
    const vector = new Float32Array(weights);
    this.#publishing = setInterval(() => {
      this.mailbox.write(vector.fill(weightOf(this.mailbox.published + 1)));
    }, PUBLISH_MS);
  }

  async #open(): Promise<void> {
    const { url, transitBytes, shards, hosts } = this.#options;
    const { buffer, mailbox } = this;
    this.remote = await RemoteCollectors.open({
      url,
      run: 'swarm',
      buffer,
      mailbox,
      shards,
      transitBytes,
      weightsEveryMs: 50,
    });
    this.remote.done.catch((error) => {
      this.#failure ??= error;
    });
    await Promise.all(Array.from({ length: hosts }, () => this.join()));
  }

  /** Adds a host. Resolves when it is connected. */
  async join(): Promise<void> {
    const { url, hostUrl = url, silenceMs } = this.#options;
    const link = await openRedisLink({
      url: hostUrl,
      name: 'host of a swarm',
      facts: false,
      ...(silenceMs && { silenceMs }),
    });
    const { keys } = this;
    const host = new SwarmHost({
      link,
      keys,
      host: this.hosts.length,
      learner: this,
      options: this.#options,
    });
    this.hosts.push(host);
    await host.connect(keys);
  }

  /** Gives every host this number of further rows. */
  offer(rows: number): void {
    for (const { outbox } of this.hosts) outbox.offer(rows);
  }
  get offered(): number {
    return this.hosts.reduce((sum, { outbox }) => sum + outbox.offered, 0);
  }

  /** Waits until `met` returns true. Calls it after rows have arrived, and ten times a second. */
  async until(what: string, met: () => boolean, timeoutMs = 60_000): Promise<void> {
    const look = () => {
      if (this.#failure) throw this.#failure;
      return met();
    };
    if (await waitFor(this.#bell, look, { timeoutMs })) return;
    const kept = this.hosts.filter(({ uplink }) => uplink.queued.count > 0);
    const waits = [...new Set(kept.map(({ uplink }) => uplink.waits))];
    const short = `${this.buffer.ptr} of ${this.offered} rows are in; ${kept.length} hosts keep some and wait for ${waits}`;
    throw new Error(`waited ${timeoutMs} ms in vain until ${what}: ${short}`);
  }

  /** Resolves when every host knows the learner and has the window for this number of hosts. */
  async settled(): Promise<void> {
    const { transitBytes = 2 ** 28 } = this.#options;
    const window = Math.min(2 ** 23, Math.floor(transitBytes / this.hosts.length));
    const isTold = (host: SwarmHost) =>
      host.uplink.epoch > 0 && Math.abs(host.window - window) <= window / 8;
    await this.until('all hosts know their window', () => this.hosts.every(isTold));
  }

  /**
   * Call this after all faults. Waits until all rows are stored and acknowledged, then checks all
   * rows and weights.
   */
  async check(timeoutMs?: number): Promise<void> {
    const isIn = () => this.buffer.ptr >= this.offered;
    await this.until('every row is in', isIn, timeoutMs);
    const isKnown = () => this.hosts.every(({ uplink }) => uplink.queued.count === 0);
    await this.until('every host knows that', () => this.#failed() || isKnown());
    const since = this.mailbox.published;
    const isNew = () => this.hosts.every(({ version }) => version >= since);
    await this.until('every host has weights that are new', () => this.#failed() || isNew());
    for (const { failure } of this.hosts) if (failure) throw failure;
    expect(this.buffer.ptr, 'rows stored').to.equal(this.offered);
    expect(this.counted()).to.deep.equal(this.hosts.map(({ outbox }) => outbox.offered));
  }

  #failed(): boolean {
    return this.hosts.some(({ failure }) => failure !== null);
  }

  /**
   * Counts the rows of each host among the first `rows`. Checks that they are complete and that
   * each host's rows are in order.
   */
  counted(rows = this.buffer.ptr): number[] {
    const { rowBytes } = this.buffer;
    const width = rowBytes / 4;
    const counts = this.hosts.map(() => 0);
    const words = new Float32Array(PIECE * width);
    for (let from = 0; from < rows; from += PIECE) {
      const some = Math.min(PIECE, rows - from);
      const indices = Uint32Array.from({ length: some }, (_, i) => from + i);
      const piece = this.buffer.gather(indices, words.subarray(0, some * width));
      for (let at = 0; at < piece.length; at += width) {
        const [host, number] = [piece[at] as number, piece[at + 1] as number];
        if (number !== counts[host])
          throw new Error(`row ${number} of host ${host} where ${counts[host]} comes next`);
        counts[host]!++;
        for (let i = 2; i < width; i++)
          if (piece[at + i] !== host + number)
            throw new Error(`row ${number} of host ${host} is not whole`);
      }
    }
    return counts;
  }

  async close(): Promise<void> {
    for (const { uplink } of this.hosts) uplink.stop();
    await Promise.all(this.hosts.map(({ ended }) => ended));
    await Promise.all(this.hosts.map(({ link }) => link.close()));
    await this.remote?.close().catch(() => {}); // until() has thrown the error
    clearInterval(this.#publishing);
    internalsOfBuffer(this.buffer).bells.release(this.#bell);
    this.buffer.close();
  }
}
