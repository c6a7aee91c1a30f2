/**
 * A connection for commands that inspect a server. It sends the commands one after the other, and
 * never connects again. Rows use another connection (link.ts).
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
  /** true connects without the address's user and password, as anyone could */
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

  /**
   * Calls a command whose reply is bytes instead of text. `most` is the maximum number of these
   * bytes. The more they are, the longer the server may take to answer a PING before the connection
   * counts as lost.
   */
  bytes(most: number, ...words: readonly Word[]): Promise<Buffer | null> {
    return this.#connection.send<Buffer | null>(words, this.#asBytes, most);
  }

  /**
   * Calls a command. Resolves to undefined if this user may not call it, or the server cannot
   * execute it.
   */
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

/**
 * Returns the bytes of the words that are buffers. Words that are strings are short and count as 0.
 */
const weightOf = (words: readonly Word[]) =>
  words.reduce((sum, word) => sum + (typeof word === 'string' ? 0 : word.length), 0);

/** Opens a connection. Rejects with a one-line message if the server cannot be reached. */
export async function openAdminConnection({
  address,
  anonymous = false,
  silenceMs = SILENCE_MS,
}: AdminConnectionOptions): Promise<AdminConnection> {
  const library = await loadLibrary();
  const anonymousAddress = { ...address, username: undefined, password: () => undefined };
  const connection = new RedisConnection({
    library,
    address: anonymous ? anonymousAddress : address,
    name: 'hotslot-desk',
    silenceMs,
  });
  try {
    await connection.open();
  } catch (error) {
    // A server that expects TLS closes an unencrypted connection without an answer.
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
