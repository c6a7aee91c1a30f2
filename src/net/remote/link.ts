/**
 * The link that carries messages between a learner and its collector hosts: a stream for each
 * shard, a few small values, and notices. Within one connection, a link must not lose, repeat or
 * reorder anything. Between two connections it may lose anything. uplink.ts and ingest.ts still
 * make each row arrive once. redis-link.ts is the link over Redis and Valkey.
 */
import { unavailableError } from '../../base/errors.ts';

/** Facts that a server reports of itself, once for each connection. */
export interface ServerFacts {
  /** id of the server's run, which differs after a restart or if another server answers */
  readonly run: string;
  /**
   * eviction policy if the server drops values when its memory is full. '' if it does not drop
   * values, or does not report its policy
   */
  readonly evicts: string;
}

/** A message of a stream. `id` orders messages only within one run of the server. */
export interface Entry {
  readonly id: string;
  readonly bytes: Uint8Array;
}
export const BEFORE_FIRST = '0-0';

/** A hash: a small value with named fields. */
export type Fields = Readonly<Record<string, string>>;

export interface LinkEvents {
  /** channels whose notices are received, from the first connection on */
  readonly channels?: readonly string[];
  notice?(channel: string, text: string): void;
  /** called after every connection, including the first, when the link can receive notices */
  connected?(server: ServerFacts): void;
  /**
   * called when a connection is lost or cannot be made, including the first. The link tries again,
   * after 50 ms at first and after 1 s at most, with jitter. Consecutive attempts that fail for the
   * same reason are reported once.
   */
  lost?(cause: Error): void;
}

/** The error of a call that failed. */
export class LinkError extends Error {
  /**
   * `lost`: no reply arrived, so the call may have taken effect or not. `full`: the server has no
   * room, and the call had no effect. `denied`: the server refuses the call, now and later.
   */
  readonly how: 'lost' | 'full' | 'denied';
  constructor(how: LinkError['how'], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.how = how;
  }
}

/**
 * Converts a LinkError to the error that callers see, which has a code. Returns any other error
 * unchanged.
 */
export const coded = (error: unknown): unknown =>
  error instanceof LinkError ? unavailableError(error.message, undefined, error) : error;

/**
 * Calls reject with LinkError. The calls of one link take effect in their order, except leases. A
 * lease takes effect at some moment before it resolves, because it needs several round trips.
 */
export interface Link {
  /**
   * Connects, and connects again whenever the connection is lost. Resolves after the first
   * connection. Rejects if trying again would not help: wrong credentials, an invalid certificate,
   * or a server that is too old.
   */
  connect(events: LinkEvents): Promise<ServerFacts>;
  /**
   * Appends a message to a stream, and resolves when the server has it. The bytes must not change
   * before that.
   */
  append(stream: string, message: Uint8Array): Promise<void>;
  /**
   * Returns at most `most` messages after the one with id `after`, possibly none. Waits up to
   * `waitMs` for the first message. The messages' bytes belong to the caller until the next read().
   */
  read(stream: string, after: string, most: number, waitMs: number): Promise<readonly Entry[]>;
  /** Returns the number of messages in a stream. */
  length(stream: string): Promise<number>;
  /** Drops the messages of a stream up to and including the one with id `through`. */
  trim(stream: string, through: string): Promise<void>;
  /** Sends a notice to the current subscribers of a channel only. */
  notify(channel: string, text: string): Promise<void>;
  /** Sets a value, or some fields of a hash. It expires after `lifeMs` if that is given. */
  store(key: string, value: Uint8Array | Fields, lifeMs?: number): Promise<void>;
  /** Returns a value, or null if it is missing. */
  load(key: string): Promise<Uint8Array | null>;
  /** Returns fields of a hash, in the given order, with null for each missing field. */
  load(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  /**
   * Sets `key` to `value` for `lifeMs` if the key is missing or already has this value. Returns the
   * value that the key has afterwards.
   */
  lease(key: string, value: string, lifeMs: number): Promise<string>;
  /** Closes the link at once. Calls under way reject as lost. Idempotent. */
  close(): Promise<void>;
}
