/**
 * Rigs for tests of the protocol over a link in memory: real hosts, and a learner whose thread and
 * process can be replaced.
 */
import type { RateLimiter } from '../../src/index.ts';
import { Ingest } from '../../src/net/remote/ingest.ts';
import { type Keys, keysOf } from '../../src/net/remote/keys.ts';
import type { ServerFacts } from '../../src/net/remote/link.ts';
import { Receiver } from '../../src/net/remote/receiver.ts';
import { type OpenSink, sinkOf } from '../../src/net/remote/row-sink.ts';
import { type SavedOffset, SessionOffsets } from '../../src/net/remote/session-offsets.ts';
import { Uplink, type UplinkOptions } from '../../src/net/remote/uplink.ts';
import { MemoryLink, type MemoryServer } from './memory-link.ts';
import { NumberedOutbox, numberedBuffer, numberedLayout } from './numbered.ts';

export const keys: Keys = keysOf('memory');
const LEASE_MS = 10_000;

export class MemoryHost {
  readonly outbox: NumberedOutbox;
  readonly uplink: Uplink;
  readonly link: MemoryLink;
  readonly session: number;
  /** the error with which run() ended, or null */
  ended: Promise<Error | null>;

  constructor(server: MemoryServer, host: number, given: Partial<UplinkOptions> = {}) {
    this.outbox = new NumberedOutbox(host);
    this.link = new MemoryLink(server);
    this.session = host + 1;
    this.uplink = new Uplink({
      link: this.link,
      keys,
      shard: 0,
      session: this.session,
      layout: numberedLayout(),
      outbox: this.outbox,
      flushBytes: 64,
      flushMs: 0,
      version: () => 0,
      now: Date.now,
      ...given,
    });
    const channel = keys.ack(this.session);
    void this.link
      .connect({
        channels: [channel],
        notice: (_, text) => this.uplink.notice(text),
        connected: () => this.uplink.connected(),
        lost: () => this.uplink.lost(),
      })
      .catch(() => {}); // closed before it was connected
    this.ended = this.uplink.run().then(
      () => null,
      (error) => error as Error,
    );
  }

  get done(): boolean {
    const { queued } = this.uplink;
    return (
      queued.count === 0 && this.outbox.waiting() === 0 && queued.acknowledged === this.outbox.made
    );
  }
  async close(): Promise<void> {
    this.uplink.stop();
    await this.ended;
    await this.link.close();
  }
}

/**
 * The process of a learner. Its buffer and session offsets last until it ends, and its thread can
 * be replaced.
 */
export class MemoryLearner {
  readonly buffer;
  readonly marks: SessionOffsets;
  readonly epoch: number;
  readonly #server: MemoryServer;
  readonly #transitBytes: number;
  ingest!: Ingest;
  receiver!: Receiver;
  #link!: MemoryLink;
  #sink!: OpenSink;
  #running!: Promise<unknown>;
  #leasing!: NodeJS.Timeout;

  constructor(
    server: MemoryServer,
    given: {
      epoch: number;
      capacity: number;
      limiter?: RateLimiter;
      saved?: SavedOffset[];
      transitBytes?: number;
    },
  ) {
    const { epoch, capacity, limiter, saved, transitBytes = 2 ** 16 } = given;
    this.#server = server;
    this.epoch = epoch;
    this.buffer = numberedBuffer(capacity, limiter ? { limiter } : {});
    this.marks = SessionOffsets.create(saved);
    this.#transitBytes = transitBytes;
    this.#begin();
  }

  #begin(): void {
    const { epoch, marks } = this;
    const link = new MemoryLink(this.#server);
    const sink = sinkOf(this.buffer.share() as never);
    const ingest = new Ingest({
      marks,
      sink,
      layout: numberedLayout(),
      maxVersionLag: Number.POSITIVE_INFINITY,
      version: () => 0,
      now: Date.now,
    });
    const receiver = new Receiver({
      link,
      keys,
      shard: 0,
      epoch,
      ingest,
      sink,
      transitBytes: this.#transitBytes,
      held: false,
    });
    const lease = () => void link.lease(keys.learner, `${epoch}`, LEASE_MS).catch(() => {});
    void link
      .connect({
        connected: (facts: ServerFacts) => {
          lease();
          receiver.onConnected(facts);
        },
        lost: () => receiver.onLost(),
      })
      .catch(() => {}); // closed before it was connected
    this.#leasing = setInterval(lease, 200);
    this.#running = receiver.run();
    Object.assign(this, { ingest, receiver });
    this.#link = link;
    this.#sink = sink;
  }

  /** Ends the thread, whatever it is doing, and starts another one. */
  async replaceThread(): Promise<void> {
    await this.end();
    this.#begin();
  }
  async end(): Promise<void> {
    clearInterval(this.#leasing);
    this.receiver.stop();
    await this.#link.close();
    await this.#running;
    this.#sink.close();
  }
}
