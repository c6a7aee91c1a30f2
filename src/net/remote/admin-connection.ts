/**
 * One connection for commands that inspect a server. It sends one after the other, and never
 * connects again. Rows are carried by link.ts.
 */
import type { Address } from './address.ts';
import { LinkError } from './link.ts';
import { loadLibrary, RedisConnection, SILENCE_MS } from './redis-connection.ts';
import { isFinal } from './redis-refusal.ts';

/** A server's reply. A map is an array of alternating names and values. */
export type Reply = string | number | null | readonly Reply[];
export type Word = string | Buffer;

export interface AdminConnectionOptions {
  readonly address: Address;
  /** connects without the address's user and password, as anyone could */
  readonly anonymous?: boolean;
  readonly silenceMs?: number;
}

export class AdminConnection implements AsyncDisposable {
  readonly #connection: RedisConnection;
  readonly #inTurn: object;
  readonly #asBytes: object;

  constructor(connection: RedisConnection, inTurn: object, asBytes: object) {
    this.#connection = connection;
    this.#inTurn = inTurn;
    this.#asBytes = asBytes;
  }

  call(...words: readonly Word[]): Promise<Reply> {
    return this.#connection.send<Reply>(words, this.#inTurn, weightOf(words));
  }

  /** As call(), for a value whose bytes are not text. A slow line has time for `most` of them. */
  bytes(most: number, ...words: readonly Word[]): Promise<Buffer | null> {
    return this.#connection.send<Buffer | null>(words, this.#asBytes, most);
  }

  /** As call(), but undefined if this user may not, or the server cannot. */
  async may(...words: readonly Word[]): Promise<Reply | undefined> {
    try {
      return await this.call(...words);
    } catch (error) {
      if (error instanceof LinkError && error.how === 'denied') return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection.end(new LinkError('lost', 'this connection is closed'));
  }
}

/** Returns the bytes of words that are buffers. Words that are texts are short. */
const weightOf = (words: readonly Word[]) =>
  words.reduce((sum, word) => sum + (typeof word === 'string' ? 0 : word.length), 0);

/** Opens a connection. Rejects with a one-line message if the server cannot be reached. */
export async function openAdminConnection({
  address,
  anonymous = false,
  silenceMs = SILENCE_MS,
}: AdminConnectionOptions): Promise<AdminConnection> {
  const library = await loadLibrary();
  const noHost = { ...address, username: undefined, password: () => undefined };
  const connection = new RedisConnection({
    library,
    address: anonymous ? noHost : address,
    name: 'hotslot-desk',
    silenceMs,
  });
  try {
    await connection.open();
  } catch (error) {
    // A server of TLS closes a connection that speaks plain text, without an answer.
    if (
      isFinal(error) ||
      address.tls ||
      !/closed unexpectedly|ECONNRESET|EPIPE/.test((error as LinkError).message)
    )
      throw error;
    const { message, cause } = error as LinkError;
    throw new LinkError(
      'lost',
      `${message}; if the server uses TLS, its url begins with rediss://`,
      cause,
    );
  }
  connection.watch();
  const { RESP_TYPES } = library;
  return new AdminConnection(
    connection,
    { [RESP_TYPES.MAP]: Array },
    { [RESP_TYPES.BLOB_STRING]: Buffer },
  );
}
