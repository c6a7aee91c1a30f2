/**
 * Runs the same tests of a link over a server in memory and over Redis or Valkey, with the faults
 * that both can have.
 */
import { EventEmitter, once } from 'node:events';
import type { Link, LinkEvents, ServerFacts } from '../../src/net/remote/link.ts';
import { openRedisLink, type RedisLinkOptions } from '../../src/net/remote/redis-link.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';
import { startServer, type TestServer } from './server.ts';

export interface Rig {
  open(): Promise<Link>;
  /** Empties the server for the next test. */
  empty(): Promise<void>;
  fill(full: boolean): Promise<void>;
  /** The server stops answering until crash(). */
  freeze(): void;
  /** The server ends and starts again with its values. Pending calls have no effect. */
  crash(): Promise<void>;
  /** The server ends, and an empty one replaces it. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export function memoryRig(): Rig {
  const server = new MemoryServer();
  return {
    open: async () => new MemoryLink(server),
    empty: async () => server.flush(),
    fill: async (full) => {
      server.full = full;
    },
    freeze: () => {},
    crash: async () => {
      server.drop({ effect: false });
      server.restore();
    },
    restart: async () => server.restart(),
    stop: async () => {},
  };
}

export async function redisRig(): Promise<Rig> {
  const server: TestServer = await startServer({ appendonly: true });
  const ask = async (...args: string[]) => {
    const client = await server.client();
    await client.sendCommand(args);
    client.destroy();
  };
  return {
    open: () => openRedisLink({ url: server.url, name: 'link of a test' }),
    empty: () => ask('FLUSHALL'),
    fill: (full) => ask('CONFIG', 'SET', 'maxmemory', full ? '1' : '0'),
    freeze: () => server.freeze(),
    crash: () => server.restart({ keep: true }),
    restart: () => server.restart(),
    stop: () => server.stop(),
  };
}

/** Records the events of a link in order, and can wait for them. */
export class Told implements LinkEvents {
  readonly channels: readonly string[];
  readonly servers: ServerFacts[] = [];
  readonly causes: Error[] = [];
  readonly notices: [string, string][] = [];
  readonly #events = new EventEmitter();

  constructor(...channels: string[]) {
    this.channels = channels;
  }
  readonly notice = (channel: string, text: string): void => {
    this.notices.push([channel, text]);
    this.#events.emit('told');
  };
  readonly connected = (server: ServerFacts): void => {
    this.servers.push(server);
    this.#events.emit('told');
  };
  readonly lost = (cause: Error): void => {
    this.causes.push(cause);
    this.#events.emit('told');
  };
  /** Resolves when `met` returns true. Calls it after each event. */
  async when(met: () => boolean): Promise<void> {
    while (!met()) await once(this.#events, 'told', { signal: AbortSignal.timeout(60_000) });
  }
}

/** Links that a test opens. They are closed after the test. */
export class Links {
  readonly #open: Link[] = [];
  keep<T extends Link>(link: T): T {
    this.#open.push(link);
    return link;
  }
  async redis(options: RedisLinkOptions) {
    return this.keep(await openRedisLink(options));
  }
  async close(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((link) => link.close()));
  }
}
