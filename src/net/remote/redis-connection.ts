/**
 * One connection to Redis or Valkey, which never connects again. Each connection has its own
 * client, and calls under way fail when the connection ends. So no client sends a call twice
 * unnoticed.
 */
import { isIP } from 'node:net';
import type { createClient } from '@redis/client';
import { unavailableError } from '../../base/errors.ts';
import type { Address } from './address.ts';
import { LinkError } from './link.ts';
import { explain, isFinal } from './redis-refusal.ts';

type Library = typeof import('@redis/client');
export type Argument = string | Buffer;
/**
 * Milliseconds between PINGs, and the time within which the server must answer a PING. Connecting
 * must not take longer either.
 */
export const SILENCE_MS = 5000;
/**
 * Rate of the slowest line that counts as alive. The time limit for the server's answer is extended
 * by the time that the bytes in transit need at this rate.
 */
const SLOWEST_BYTES_PER_MS = 512;

/** Loads the package @redis/client. Rejects if it is not installed. */
export async function loadLibrary(
  load: () => Promise<Library> = () => import('@redis/client'),
): Promise<Library> {
  try {
    return await load();
  } catch (error) {
    const missing = (error as { code?: string }).code === 'ERR_MODULE_NOT_FOUND';
    const what = missing
      ? 'is not installed here'
      : `cannot be loaded: ${(error as Error).message}`;
    throw unavailableError(
      `collectors on other machines need the package @redis/client, which ${what}: npm install @redis/client`,
      undefined,
      error,
    );
  }
}

export interface ConnectionOptions {
  readonly library: Library;
  readonly address: Address;
  readonly name: string;
  readonly silenceMs: number;
}

/**
 * Error replies to calls that had no effect and may succeed later. The last one occurs after a
 * message with the largest possible id. The stream then accepts no further message until the
 * learner has handled that one.
 */
const FULL = /^(OOM|MISCONF|BUSY|NOREPLICAS)\b|has exhausted the last possible ID/;
/**
 * Error replies after which a new connection may reach a server that accepts the call. Such a
 * server has loaded its data, or is the primary after a failover.
 */
const ELSEWHERE = /^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|UNBLOCKED)\b/;

/**
 * Returns the option with the server name for TLS (SNI). An IP address has no such name, but the
 * certificate is still checked against the address.
 */
export const serverName = (host: string) => (isIP(host) === 0 ? { servername: host } : {});

/** Replaces characters that a client's name cannot have, such as spaces. */
export const clientName = (name: string): string => name.replace(/[^!-~]/g, '-');

/** Converts a server's error reply to a LinkError. */
export function refusalOf(message: string, command: string, { shown }: Address): LinkError {
  const how = FULL.test(message) ? 'full' : ELSEWHERE.test(message) ? 'lost' : 'denied';
  return new LinkError(how, `${shown} refuses ${command}: ${message}`);
}

/**
 * Resolves to the reply. If the reply has not arrived within `ms`, calls `late`, which must end the
 * connection. The reply then rejects.
 */
export async function within<T>(ms: number, reply: Promise<T>, late: () => void): Promise<T> {
  let over = false;
  const timer = setTimeout(() => {
    // If the thread was busy, this timer may fire before Node has read a reply that arrived in
    // time. Node reads such replies before it runs setImmediate().
    setImmediate(() => {
      if (!over) late();
    });
  }, ms);
  try {
    return await reply;
  } finally {
    over = true;
    clearTimeout(timer);
  }
}

export class RedisConnection {
  /** resolves to the reason why the connection ended */
  readonly ended: Promise<LinkError>;
  readonly #options: ConnectionOptions;
  readonly #client: ReturnType<typeof createClient>;
  readonly #socket = new AbortController();
  readonly #resolveLost: (cause: LinkError) => void;
  #cause: LinkError | null = null;
  #opened = false;
  #timer: NodeJS.Timeout | undefined;
  /** bytes of calls that have no reply yet */
  #underWay = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    const { address, library, name, silenceMs } = options;
    const { tls, ca, host, port, path, database, username } = address;
    const password = address.password();
    const common = {
      connectTimeout: silenceMs,
      reconnectStrategy: false,
      signal: this.#socket.signal,
    } as const;
    const secured = {
      tls: true,
      host,
      port,
      ...serverName(host),
      minVersion: 'TLSv1.2',
      rejectUnauthorized: true,
    } as const;
    const plain = path === '' ? { tls: false as const, host, port } : { tls: false as const, path };
    // All clients have one class, from factory(). createClient() would make a class for each client
    // whose options differ, for example by the client's name. Making such a class, which has
    // hundreds of methods, takes tens of ms. A thousand hosts would take minutes.
    this.#client = library.RedisClient.factory({ RESP: 3 })({
      socket: { ...common, ...(tls ? { ...secured, ...(ca !== undefined && { ca }) } : plain) },
      ...(password !== undefined && { username: username ?? 'default', password }),
      name: clientName(name),
      ...{
        RESP: 3,
        database,
        disableOfflineQueue: true,
        disableClientInfo: true,
        maintNotifications: 'disabled',
      },
      // Disables the client's own timeout, which limits how long a call waits to be written. The
      // window limits that instead.
      commandOptions: { timeout: 0 },
    }) as ReturnType<typeof createClient>;
    let resolveLost!: (cause: LinkError) => void;
    this.ended = new Promise((resolve) => {
      resolveLost = resolve;
    });
    this.#resolveLost = resolveLost;
    this.#client.on('error', (error: Error) => {
      // Before the connection is open, open() rejects with the error.
      if (this.#opened) this.end(this.#lost(error));
    });
  }

  async open(): Promise<void> {
    const { silenceMs, address, library } = this.#options;
    const hint = address.tls ? ', or does not use TLS' : '';
    const late = new LinkError(
      'lost',
      `${address.shown} did not answer within ${silenceMs} ms${hint}`,
    );
    const timer = setTimeout(() => this.end(late), silenceMs);
    try {
      await this.#client.connect();
      this.#opened = true;
    } catch (error) {
      const refusal =
        this.#cause ?? explain(error as Error, error instanceof library.ErrorReply, address);
      this.end(isFinal(refusal) ? new LinkError('lost', refusal.message) : refusal);
      throw refusal;
    } finally {
      clearTimeout(timer);
    }
    // Throws if end() was called just before the connection was established, for example by the
    // timer.
    if (this.#cause !== null) throw this.#cause;
  }

  /** Sends a PING at intervals, and ends the connection if the server does not answer. */
  watch(): void {
    const { silenceMs } = this.#options;
    this.#timer = setTimeout(async () => {
      const limit = silenceMs + this.#underWay / SLOWEST_BYTES_PER_MS;
      // An error reply also shows that the server is alive.
      await within(limit, this.send(['PING']), () => this.end(this.#silent(limit))).catch(() => {});
      if (this.#cause === null) this.watch();
    }, silenceMs);
  }

  /**
   * Sends a call now, after all earlier calls. `weight` is the bytes of a large call, or of its
   * reply. Until the reply has arrived, the server has more time to answer a PING.
   */
  async send<T>(args: readonly Argument[], typeMapping: object = {}, weight = 0): Promise<T> {
    if (this.#cause !== null) throw this.#cause;
    this.#underWay += weight;
    try {
      return (await this.#client.sendCommand(args, { typeMapping })) as T;
    } catch (error) {
      throw this.#refused(error as Error, String(args[0]));
    } finally {
      this.#underWay -= weight;
    }
  }

  async subscribe(
    channels: readonly string[],
    notice: (channel: string, text: string) => void,
  ): Promise<void> {
    try {
      await this.#client.subscribe([...channels], (text, channel) => notice(channel, text));
    } catch (error) {
      throw this.#refused(error as Error, 'SUBSCRIBE');
    }
  }

  /** Ends the connection. Calls under way reject as lost. Only the first cause counts. */
  end(cause: LinkError): void {
    if (this.#cause !== null) return;
    this.#cause = cause;
    clearTimeout(this.#timer);
    this.#client.destroy();
    // The client cannot destroy a socket that is still connecting. So abort() ends the attempt to
    // connect first, and destroy() then closes the socket.
    if (!this.#opened) this.#socket.abort();
    this.#resolveLost(cause);
  }

  #refused(error: Error, command: string): LinkError {
    const { library, address } = this.#options;
    if (!(error instanceof library.ErrorReply)) return this.#cause ?? this.#lost(error);
    const refused = refusalOf(error.message, command, address);
    if (refused.how === 'lost') this.end(refused);
    return refused;
  }

  #silent(ms: number): LinkError {
    return new LinkError(
      'lost',
      `${this.#options.address.shown} has been silent for ${Math.round(ms)} ms`,
    );
  }
  #lost(error: Error): LinkError {
    const { code, message } = error as { code?: string; message: string };
    return new LinkError(
      'lost',
      `${this.#options.address.shown} is lost: ${message || code}`,
      error,
    );
  }
}
