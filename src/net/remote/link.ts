/**
 * The link that carries messages between a learner and its collector hosts: a stream for each
 * shard, a few small values, and notices. Within one connection, the engine of a link may lose,
 * repeat and reorder nothing. Between two connections it may lose anything, and uplink.ts and
 * ingest.ts still make rows arrive once. redis-link.ts is the link over Redis and Valkey.
 */
import { unavailableError } from '../../base/errors.ts';

/** Facts that a server reports of itself, once for each connection. */
export interface ServerFacts {
  /** id of the server's run, which differs after a restart or if another server answers */
  readonly run: string;
  /**
   * eviction policy, if the server drops values when its memory is full, or '' if it does not, or
   * does not say
   */
  readonly evicts: string;
}

/** A message of a stream. `id` only orders it among those of the same server run. */
export interface Entry {
  readonly id: string;
  readonly bytes: Uint8Array;
}
export const BEFORE_FIRST = '0-0';

/** Fields of a small value, by name. */
export type Fields = Readonly<Record<string, string>>;

export interface LinkEvents {
  /** channels whose notices are received, from the first connection on */
  readonly channels?: readonly string[];
  notice?(channel: string, text: string): void;
  /** called after every connection, including the first, once it receives notices */
  connected?(server: ServerFacts): void;
  /**
   * called when the connection is lost or could not be made, including the first. The link tries
   * again, 50 ms later at first and 1 s at most, with jitter. Attempts that fail one after the
   * other for the same reason are reported once.
   */
  lost?(cause: Error): void;
}

/** The error of a call that failed. */
export class LinkError extends Error {
  /**
   * `lost`: no reply came, and the call may have taken effect or not. `full`: the server has no
   * room, and the call had no effect. `denied`: the server refuses the call, now and later.
   */
  readonly how: 'lost' | 'full' | 'denied';
  constructor(how: LinkError['how'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.how = how;
  }
}

/** Converts a LinkError to the error that callers see, which has a code. */
export const coded = (error: unknown): unknown =>
  error instanceof LinkError ? unavailableError(error.message, undefined, error) : error;

/**
 * Calls reject with LinkError. Those of one link take effect in the order of the calls, except
 * leases. A lease takes effect at some moment before it resolves, because it needs several round
 * trips.
 */
export interface Link {
  /**
   * Connects, and again whenever the connection is lost. Resolves after the first connection.
   * Rejects if trying again would not help: credentials, certificate, a server that is too old.
   */
  connect(events: LinkEvents): Promise<ServerFacts>;
  /**
   * Appends a message to a stream, and resolves when it is there. The bytes must not change before
   * that.
   */
  append(stream: string, message: Uint8Array): Promise<void>;
  /**
   * Returns at most `most` messages after the one with id `after`, possibly none. Waits up to
   * `waitMs` for the first. Their bytes are the caller's until it reads again.
   */
  read(stream: string, after: string, most: number, waitMs: number): Promise<readonly Entry[]>;
  /** Returns the number of messages in a stream. */
  length(stream: string): Promise<number>;
  /** Drops the messages of a stream up to and including the one with id `through`. */
  trim(stream: string, through: string): Promise<void>;
  /** Sends a notice to the current subscribers of a channel only. */
  notify(channel: string, text: string): Promise<void>;
  /** Sets a value, or fields of a value that has them, for `lifeMs` if that is given. */
  store(key: string, value: Uint8Array | Fields, lifeMs?: number): Promise<void>;
  /** Returns a value, or null if it is missing. */
  load(key: string): Promise<Uint8Array | null>;
  /** Returns fields of a value that has them, in order, with null for each that is missing. */
  load(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  /**
   * Sets `key` to `value` for `lifeMs` if nobody has the key, or it has this value already. Returns
   * the value that the key has then.
   */
  lease(key: string, value: string, lifeMs: number): Promise<string>;
  /** Closes at once: calls under way are lost. Idempotent. */
  close(): Promise<void>;
}
