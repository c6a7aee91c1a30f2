/**
 * The link over Redis or Valkey. It has at most three connections: one for calls, one for notices,
 * and one for blocking reads. If one is lost, the link drops all of them, so its user sees a single
 * connection.
 */
import { setTimeout } from 'node:timers/promises';
import { checkCount, checkInternal, INTERNAL } from '../../base/checks.ts';
import { stateError, unavailableError } from '../../base/errors.ts';
import { type AddressOptions, checkAddress } from './address.ts';
import {
  type Entry,
  type Fields,
  type Link,
  LinkError,
  type LinkEvents,
  type ServerFacts,
} from './link.ts';
import { HEADER_BYTES, MAX_BYTES } from './message.ts';
import {
  type Argument,
  type ConnectionOptions,
  loadLibrary,
  RedisConnection,
  SILENCE_MS,
} from './redis-connection.ts';
import { leaseKey } from './redis-lease.ts';
import { checkVersion, isFinal, type Refusal } from './redis-refusal.ts';
import { type ReaderOptions, ReplyReader } from './reply-reader.ts';

/**
 * Maximum of `silenceMs`. #patienceMs may grow to 16 times as much, which Node's timers still
 * accept.
 */
const MAX_SILENCE_MS = 2 ** 26;

/**
 * Pauses between attempts to connect: doubled from the first to the last, with a jitter of ±50 %.
 */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;
/** Bytes of a value for which load() gives the server time to answer: one piece of the weights. */
const VALUE_BYTES = 4 * 2 ** 20;

export interface RedisLinkOptions extends AddressOptions {
  /** name in the server's list of clients */
  readonly name: string;
  /** ms that a server may be silent, fewer in tests */
  readonly silenceMs?: number;
  /**
   * bytes of a row, if this link reads messages. A message is read as an empty one if its rows have
   * more bytes than `MAX_BYTES` or two rows, whichever is larger
   */
  readonly rowBytes?: number;
  /**
   * whether the link requests the server's facts, default true. Hosts do not need the facts and may
   * lack the permission, and a thousand hosts may connect at once
   */
  readonly facts?: boolean;
}

/** Creates a link that is not connected yet. */
export async function openRedisLink(options: RedisLinkOptions): Promise<RedisLink> {
  const address = checkAddress(options);
  const silenceMs = checkCount('silenceMs', options.silenceMs ?? SILENCE_MS, 1, MAX_SILENCE_MS);
  const messageBytes = HEADER_BYTES + Math.max(MAX_BYTES, 2 * (options.rowBytes ?? 0));
  const { name, facts = true } = options;
  return new RedisLink(INTERNAL, {
    library: await loadLibrary(),
    address,
    name,
    silenceMs,
    messageBytes,
    facts,
  });
}

/** The connections of a link while it is connected. */
interface Lines {
  readonly calls: RedisConnection;
  /** opened when first used */
  reader: Promise<ReplyReader> | null;
  /** time at which the waits of all reads so far will have ended, by performance.now() */
  readsUntil: number;
  readonly lost: (cause: LinkError) => void;
}

type Options = ConnectionOptions & ReaderOptions & { readonly facts: boolean };

export class RedisLink implements Link {
  readonly #options: Options;
  readonly #closing = new AbortController();
  #lines: Lines | null = null;
  /** connections that are open or being opened */
  #all: (RedisConnection | ReplyReader)[] = [];
  #kept: Promise<void> | null = null;
  #leases: Promise<unknown> = Promise.resolve();
  /**
   * ms that a reply may take in addition to the wait of its read. It grows while replies are late,
   * so that a slow line gets a reply eventually
   */
  #patienceMs: number;

  constructor(key: typeof INTERNAL, options: Options) {
    checkInternal(key, 'RedisLink', 'openRedisLink()');
    this.#options = options;
    this.#patienceMs = options.silenceMs;
  }

  connect(events: LinkEvents): Promise<ServerFacts> {
    if (this.#kept !== null)
      throw stateError('BUSY', 'connect() was called before; open another link');
    return new Promise((resolve, reject) => {
      this.#kept = this.#keep(events, resolve, reject);
    });
  }

  /** Connects again whenever the connection is lost, until close(). */
  async #keep(
    events: LinkEvents,
    connected: (server: ServerFacts) => void,
    refused: (error: Error) => void,
  ): Promise<void> {
    const closing = this.#closing.signal;
    let pause = FIRST_PAUSE_MS;
    let ever = false;
    let reported = '';
    while (!closing.aborted) {
      const [made, error] = await this.#make(events).then(
        (made) => [made, null] as const,
        (error: Refusal) => [null, error] as const,
      );
      let cause: Refusal = error ?? this.#absent();
      if (made !== null && !closing.aborted) {
        const since = performance.now();
        if (!ever) connected(made.server);
        ever = true;
        reported = '';
        events.connected?.(made.server);
        cause = await made.over;
        // Resets the pause only after a connection that lasted. Otherwise, if a server accepts and
        // then drops each connection, the link would connect 20 times a second.
        if (performance.now() - since >= LAST_PAUSE_MS) pause = FIRST_PAUSE_MS;
      }
      this.#drop(cause);
      if (closing.aborted) break;
      if (!ever && isFinal(cause)) return refused(cause);
      // Reports a cause only when it has changed, not for each attempt.
      if (cause.message !== reported) events.lost?.(cause);
      reported = cause.message;
      await setTimeout(pause * (0.5 + Math.random()), undefined, { signal: closing }).catch(
        () => {},
      );
      pause = Math.min(pause * 2, LAST_PAUSE_MS);
    }
    refused(this.#absent());
  }

  async #make(events: LinkEvents): Promise<{ server: ServerFacts; over: Promise<LinkError> }> {
    const { channels = [], notice } = events;
    let lost!: (cause: LinkError) => void;
    const over = new Promise<LinkError>((resolve) => {
      lost = resolve;
    });
    try {
      const calls = await this.#line(lost);
      calls.watch();
      const server = await this.#factsOf(calls);
      if (channels.length > 0) {
        const notices = await this.#line(lost);
        notices.watch();
        await notices.subscribe(channels, (channel, text) => notice?.(channel, text));
      }
      this.#lines = { calls, reader: null, readsUntil: 0, lost };
      return { server, over };
    } catch (error) {
      if (error instanceof LinkError && error.how === 'denied')
        throw unavailableError(error.message);
      throw error;
    }
  }

  async #line(lost: (cause: LinkError) => void): Promise<RedisConnection> {
    if (this.#closing.signal.aborted) throw this.#absent();
    return this.#opened(new RedisConnection(this.#options), lost);
  }
  async #opened<L extends RedisConnection | ReplyReader>(
    line: L,
    lost: (cause: LinkError) => void,
  ): Promise<L> {
    this.#all.push(line);
    line.ended.then(lost);
    await line.open();
    return line;
  }

  async #factsOf(calls: RedisConnection): Promise<ServerFacts> {
    const { server, version } = await calls.send<Record<string, unknown>>(['HELLO']);
    checkVersion(`${server}`, `${version}`, this.#options.address);
    if (!this.#options.facts) return { run: '', evicts: '' };
    const info = await calls.send<string>(['INFO']).catch((error: LinkError) => {
      // A user may be allowed to connect, but not to call INFO.
      if (error.how === 'denied') return '';
      throw error;
    });
    const run = /^run_id:(\w+)/m.exec(info)?.[1] ?? '';
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1] ?? 'noeviction';
    const isBounded = /^maxmemory:[1-9]/m.test(info);
    return { run, evicts: isBounded && policy !== 'noeviction' ? policy : '' };
  }

  #drop(cause: Refusal): void {
    this.#lines = null;
    for (const line of this.#all)
      line.end(cause instanceof LinkError ? cause : new LinkError('lost', cause.message));
    this.#all = [];
  }

  #absent(): LinkError {
    const { address } = this.#options;
    return new LinkError(
      'lost',
      `${address.shown} is ${this.#closing.signal.aborted ? 'closed' : 'not connected'}`,
    );
  }

  #call<T>(args: readonly Argument[], typeMapping?: object, weight?: number): Promise<T> {
    if (this.#lines === null) return Promise.reject(this.#absent());
    return this.#lines.calls.send<T>(args, typeMapping, weight);
  }

  async append(stream: string, message: Uint8Array): Promise<void> {
    await this.#call(['XADD', stream, '*', 'm', bufferOf(message)], undefined, message.length);
  }

  async read(
    stream: string,
    after: string,
    most: number,
    waitMs: number,
  ): Promise<readonly Entry[]> {
    const lines = this.#lines;
    if (lines === null) throw this.#absent();
    lines.reader ??= this.#opened(new ReplyReader(this.#options), lines.lost);
    const reader = await lines.reader.catch((error: Refusal) => {
      // Treats every failure as a lost connection. This user could log in a moment ago, so the
      // cause may have passed when the link connects again.
      throw new LinkError('lost', error.message);
    });
    const now = performance.now();
    lines.readsUntil = Math.max(now, lines.readsUntil) + waitMs;
    // Omits BLOCK if no wait is wanted, because BLOCK 0 would wait indefinitely.
    const wait = waitMs > 0 ? ['BLOCK', `${Math.ceil(waitMs)}`] : [];
    const args = ['XREAD', 'COUNT', `${most}`, ...wait, 'STREAMS', stream, after];
    const limit = lines.readsUntil - now + this.#patienceMs;
    // Doubles the patience in case this read fails. A reply resets it.
    this.#patienceMs = Math.min(this.#patienceMs * 2, 16 * this.#options.silenceMs);
    const entries = await reader.read(args, limit);
    this.#patienceMs = this.#options.silenceMs;
    return entries;
  }

  async length(stream: string): Promise<number> {
    return await this.#call<number>(['XLEN', stream]);
  }

  async trim(stream: string, through: string): Promise<void> {
    const [ms, sequence] = through.split('-').map(BigInt) as [bigint, bigint];
    const next = sequence === LAST ? `${ms + 1n}-0` : `${ms}-${sequence + 1n}`;
    // After a message with the largest id, which anyone may add, a stream accepts no further
    // message. It accepts messages again only after the whole stream was deleted.
    await this.#call(
      ms === LAST && sequence === LAST ? ['DEL', stream] : ['XTRIM', stream, 'MINID', next],
    );
  }

  async notify(channel: string, text: string): Promise<void> {
    await this.#call(['PUBLISH', channel, text]);
  }

  async store(key: string, value: Uint8Array | Fields, lifeMs?: number): Promise<void> {
    const life = lifeMs === undefined ? [] : [`${Math.ceil(lifeMs)}`];
    if (value instanceof Uint8Array) {
      const args = ['SET', key, bufferOf(value), ...life.flatMap((ms) => ['PX', ms])];
      await this.#call(args, undefined, value.length);
      return;
    }
    const calls = [
      ['HSET', key, ...Object.entries(value).flat()],
      ...life.map((ms) => ['PEXPIRE', key, ms]),
    ];
    await Promise.all(calls.map((args) => this.#call(args)));
  }

  load(key: string): Promise<Uint8Array | null>;
  load(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  async load(
    key: string,
    fields?: readonly string[],
  ): Promise<Uint8Array | null | readonly (string | null)[]> {
    if (fields === undefined)
      return await this.#call<Buffer | null>(['GET', key], BYTES, VALUE_BYTES);
    if (fields.length === 1) return [await this.#call<string | null>(['HGET', key, fields[0]!])];
    return await this.#call<(string | null)[]>(['HMGET', key, ...fields]);
  }

  lease(key: string, value: string, lifeMs: number): Promise<string> {
    // Runs one lease after the other, because any EXEC ends every WATCH of the connection.
    const call = (args: readonly string[]) => this.#call<string | null>(args);
    const lease = this.#leases.then(() => leaseKey(call, key, value, `${Math.ceil(lifeMs)}`));
    this.#leases = lease.catch(() => {});
    return lease;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#drop(this.#absent());
    await this.#kept;
  }
}

/** Type mapping that returns strings as bytes. A type's key is its first byte in the protocol. */
const BYTES = { ['$'.charCodeAt(0)]: Buffer };
/** largest value of both numbers of an id */
const LAST = 2n ** 64n - 1n;

const bufferOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, length);
