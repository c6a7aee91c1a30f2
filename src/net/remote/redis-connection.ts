/**
 * One connection to Redis or Valkey, from its first byte to its last. It never connects again: each
 * has a client of its own, and what was under way goes with it, so that nothing is ever sent twice
 * behind anyone's back.
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
 * The server answers a PING within this, and gets one as often. A connection that takes longer to
 * make is given up.
 */
export const SILENCE_MS = 5000;
/**
 * Of a line that counts as alive: what is on the way may take so long before the server can answer.
 */
const SLOWEST_BYTES_PER_MS = 512;

/** The package, where it is installed. */
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
 * Replies in the server's words: they had no effect, and may have one soon. Where somebody gave a
 * message the last id that there is, a stream takes no other until the learner has come to that
 * one.
 */
const FULL = /^(OOM|MISCONF|BUSY|NOREPLICAS)\b|has exhausted the last possible ID/;
/**
 * Another connection may meet a server that takes it: one that has loaded its data, or the primary
 * after a failover.
 */
const ELSEWHERE = /^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|UNBLOCKED)\b/;

/**
 * What is asked for when TLS begins (SNI). An address has none; the certificate is held against it
 * all the same.
 */
export const serverName = (host: string) => (isIP(host) === 0 ? { servername: host } : {});

/** Names of clients have no spaces. */
export const clientName = (name: string): string => name.replace(/[^!-~]/g, '-');

/** What the server's words mean that refuse a call. */
export function refusalOf(message: string, command: string, { shown }: Address): LinkError {
  const how = FULL.test(message) ? 'full' : ELSEWHERE.test(message) ? 'lost' : 'denied';
  return new LinkError(how, `${shown} refuses ${command}: ${message}`);
}

/** Calls `late` unless the reply is there in time. */
export async function within<T>(ms: number, reply: Promise<T>, late: () => void): Promise<T> {
  let over = false;
  const timer = setTimeout(() => {
    // What came while this thread was busy is read before this is called.
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
  /** resolves with why it ended */
  readonly ended: Promise<LinkError>;
  readonly #options: ConnectionOptions;
  readonly #client: ReturnType<typeof createClient>;
  readonly #socket = new AbortController();
  readonly #told: (cause: LinkError) => void;
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
    // Of one class for all: createClient() makes one with hundreds of methods for each client whose
    // options differ, such as its name, which takes tens of ms, and with it a thousand hosts
    // minutes.
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
      // The client's own limit is for how long a call waits to be written, which is the window's
      // business.
      commandOptions: { timeout: 0 },
    }) as ReturnType<typeof createClient>;
    let told!: (cause: LinkError) => void;
    this.ended = new Promise((resolve) => {
      told = resolve;
    });
    this.#told = told;
    this.#client.on('error', (error: Error) => {
      // Before that, open() says why.
      if (this.#opened) this.end(this.#lost(error));
    });
  }

  async open(): Promise<void> {
    const { silenceMs, address, library } = this.#options;
    const hint = address.tls ? ', or speaks no TLS' : '';
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
    // It came a moment too late.
    if (this.#cause !== null) throw this.#cause;
  }

  /**
   * Asks the server again and again whether it is there, and ends the connection where it is not.
   */
  watch(): void {
    const { silenceMs } = this.#options;
    this.#timer = setTimeout(async () => {
      const limit = silenceMs + this.#underWay / SLOWEST_BYTES_PER_MS;
      // A refusal is an answer as well.
      await within(limit, this.send(['PING']), () => this.end(this.#silent(limit))).catch(() => {});
      if (this.#cause === null) this.watch();
    }, silenceMs);
  }

  /** Sends a call now, behind those before it. `weight`: bytes of it, or of its reply. */
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

  /** What is under way is lost. Only the first cause counts. */
  end(cause: LinkError): void {
    if (this.#cause !== null) return;
    this.#cause = cause;
    clearTimeout(this.#timer);
    this.#client.destroy();
    // A socket that is still connecting is not the client's yet. For one that is, it would be work
    // for nothing.
    if (!this.#opened) this.#socket.abort();
    this.#told(cause);
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
