/**
 * What carries messages between a learner and its collector hosts: a stream for each shard, a few
 * small values, and notices. The engine behind it may lose, repeat and reorder nothing within one
 * connection, and may lose anything between two: that rows arrive once all the same is the business
 * of uplink.ts and ingest.ts. redis-link.ts is the one of Redis and Valkey.
 */
import { unavailableError } from '../../base/errors.ts';

/** What a server says of itself, once for each connection. */
export interface ServerFacts {
  /** another one after the server was started anew, or another server answers */
  readonly run: string;
  /**
   * how it makes room when its memory is full, where it drops what it was given; '' where it does
   * not, or does not say
   */
  readonly evicts: string;
}

/**
 * A message of a stream; `id` orders it among those of the same server run, and means nothing else.
 */
export interface Entry {
  readonly id: string;
  readonly bytes: Uint8Array;
}
export const BEFORE_FIRST = '0-0';

/** Fields of a small value, by name. */
export type Fields = Readonly<Record<string, string>>;

export interface LinkEvents {
  /** channels that notices are taken from, from the first connection on */
  readonly channels?: readonly string[];
  notice?(channel: string, text: string): void;
  /** after every connection, the first one too, once its notices are taken */
  connected?(server: ServerFacts): void;
  /**
   * the connection is gone, or could not be made, the first one too; the link tries again, 50 ms
   * later at first and 1 s at most, with jitter. Attempts that fail one after the other for the
   * same reason are told once.
   */
  lost?(cause: Error): void;
}

/** How a call ended that did not succeed. */
export class LinkError extends Error {
  /**
   * `lost`: no reply came, so that it may have taken effect or not; `full`: the server has no room,
   * and it had no effect; `denied`: the server refuses it, now and later
   */
  readonly how: 'lost' | 'full' | 'denied';
  constructor(how: LinkError['how'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.how = how;
  }
}

/** As callers see it: what a server refuses now and later has a code. */
export const coded = (error: unknown): unknown =>
  error instanceof LinkError ? unavailableError(error.message, undefined, error) : error;

/**
 * Calls reject with LinkError; those of one link take effect in the order of the calls, but for a
 * lease: it takes effect at some moment before it resolves, for it goes to the server and back
 * several times.
 */
export interface Link {
  /**
   * Connects, and again whenever the connection is lost. Resolves when it is there for the first
   * time; rejects where trying again would not help: credentials, certificate, a server that is too
   * old.
   */
  connect(events: LinkEvents): Promise<ServerFacts>;
  /**
   * Puts a message at the end of a stream. It is there when this resolves. The bytes must not
   * change before that.
   */
  append(stream: string, message: Uint8Array): Promise<void>;
  /**
   * Messages behind the one of id `after`, `most` of them at most; waits up to `waitMs` for the
   * first. None: an empty array. Their bytes are the caller's until it reads again.
   */
  read(stream: string, after: string, most: number, waitMs: number): Promise<readonly Entry[]>;
  /** How many messages a stream has. */
  length(stream: string): Promise<number>;
  /** Drops the messages of a stream up to the one of id `through`. */
  trim(stream: string, through: string): Promise<void>;
  /** Tells whoever takes notices of a channel now; nobody else. */
  notify(channel: string, text: string): Promise<void>;
  /** Sets a value, or fields of a value that has them, for `lifeMs` where that is given. */
  store(key: string, value: Uint8Array | Fields, lifeMs?: number): Promise<void>;
  /** A value; null where there is none. */
  load(key: string): Promise<Uint8Array | null>;
  /** Fields of a value that has them, in order; null for each that is not there. */
  load(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  /**
   * Sets `key` to `value` for `lifeMs` where nobody has it, or has it with this value. Gives the
   * value that is there then.
   */
  lease(key: string, value: string, lifeMs: number): Promise<string>;
  /** Lets go at once: what is under way is lost. Twice is fine. */
  close(): Promise<void>;
}
