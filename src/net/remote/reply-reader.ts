/**
 * The connection that reads messages, without a client of @redis/client. It copies the messages'
 * bytes from the socket to reused memory, so 100 MB a second create no garbage. After the
 * connection is lost, it never connects again.
 */
import { connect as connectPlain, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectSecured } from 'node:tls';
import type { Address } from './address.ts';
import { type Entry, LinkError } from './link.ts';
import { HEADER_BYTES, MAX_BYTES } from './message.ts';
import { clientName, refusalOf, serverName, within } from './redis-connection.ts';
import { explain, isFinal, type Refusal } from './redis-refusal.ts';
import { Refused, type Reply, ReplyParser } from './reply-parser.ts';

export interface ReaderOptions {
  readonly address: Address;
  readonly name: string;
  readonly silenceMs: number;
  /** maximum bytes of a message: a longer one is read as an empty one */
  readonly messageBytes: number;
}

const CHUNK_BYTES = 2 ** 18;
/**
 * Maximum number of free rooms, and maximum bytes of a free room. A room is the memory of one
 * message. Larger rooms are not reused.
 */
const MAX_ROOMS = 8;
const MAX_ROOM_BYTES = HEADER_BYTES + MAX_BYTES;
/**
 * Position of a message in a reply. The message's depth is the number of arrays around it: streams,
 * stream, entries, entry and fields. The message's index in the fields follows the index of its
 * field's name.
 */
const DEPTH = 5;
const INDEX = 1;

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: LinkError | Error): void;
}

const ascii = (reply: Reply | undefined) =>
  reply instanceof Uint8Array ? Buffer.from(reply).toString('latin1') : '';
const nothing = new Uint8Array();

export class ReplyReader {
  /** resolves to the reason why the connection ended */
  readonly ended: Promise<LinkError>;
  readonly #options: ReaderOptions;
  readonly #socket: Socket;
  readonly #parser: ReplyParser;
  readonly #waiting: Waiting[] = [];
  #resolveLost!: (cause: LinkError) => void;
  #cause: LinkError | null = null;
  /** first error of the socket */
  #failed: Error | null = null;
  /**
   * Rooms without a message, rooms of the reply that is arriving, and rooms of replies that the
   * caller is reading.
   */
  readonly #free: Uint8Array[] = [];
  #filled: Uint8Array[] = [];
  #lent: Uint8Array[] = [];

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#resolveLost = resolve;
    });
    this.#parser = new ReplyParser({
      most: options.messageBytes,
      room: (depth, index) => {
        if (depth !== DEPTH) return null;
        if (index !== INDEX) return 'none';
        const room = this.#free.pop() ?? nothing;
        this.#filled.push(room);
        return room;
      },
      grown: (before, after) => {
        const at = this.#filled.lastIndexOf(before);
        if (at >= 0) this.#filled[at] = after;
      },
      done: (reply) => this.#take(reply),
    });
    this.#socket = this.#connected();
    this.#socket.setNoDelay(true);
    this.#socket.setKeepAlive(true, options.silenceMs);
    this.#socket.on('error', (error) => {
      this.#failed ??= error;
    });
    this.#socket.once('close', () => this.end(this.#lost()));
  }

  #connected(): Socket {
    const { tls, ca, host, port, path } = this.#options.address;
    const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    const onread: OnReadOpts = {
      buffer,
      callback: (length) => {
        this.#feed(buffer.subarray(0, length));
        return true;
      },
    };
    if (!tls) return connectPlain(path === '' ? { host, port, onread } : { path, onread });
    // TLS accepts `onread`, but its types do not declare that.
    const secured = {
      host,
      port,
      ...serverName(host),
      minVersion: 'TLSv1.2',
      rejectUnauthorized: true,
      onread,
    } as const;
    return connectSecured({ ...secured, ...(ca !== undefined && { ca }) });
  }

  /** Logs in. Rejects as RedisConnection.open() does. */
  async open(): Promise<void> {
    const { silenceMs, address, name } = this.#options;
    const password = address.password();
    const user = password === undefined ? [] : ['AUTH', address.username ?? 'default', password];
    try {
      const late = () =>
        this.end(new LinkError('lost', `${address.shown} did not answer within ${silenceMs} ms`));
      const calls = [
        this.#send(['HELLO', '2', ...user, 'SETNAME', clientName(name)]),
        ...(address.database === 0 ? [] : [this.#send(['SELECT', `${address.database}`])]),
      ];
      for (const reply of await within(silenceMs, Promise.all(calls), late))
        if (reply instanceof Refused) throw explain(new Error(reply.message), true, address);
    } catch (error) {
      const refusal: Refusal = explain(this.#failed ?? (error as Error), false, address);
      this.end(isFinal(refusal) ? new LinkError('lost', refusal.message) : refusal);
      throw refusal;
    }
  }

  /**
   * Sends an XREAD with `args`, and returns the messages of its reply. Their bytes are valid until
   * the next read(), which reuses the memory. Ends the connection if the reply does not arrive
   * within `ms`. This time includes the BLOCK time in `args`.
   */
  async read(args: readonly string[], ms: number): Promise<readonly Entry[]> {
    for (const room of this.#lent)
      if (room.length <= MAX_ROOM_BYTES && this.#free.length < MAX_ROOMS) this.#free.push(room);
    this.#lent = [];
    const { address } = this.#options;
    const silent = `${address.shown} has been silent for ${Math.round(ms)} ms`;
    const reply = await within(ms, this.#send(args), () => this.end(new LinkError('lost', silent)));
    if (reply instanceof Refused) {
      const refused = refusalOf(reply.message, 'XREAD', address);
      if (refused.how === 'lost') this.end(refused);
      throw refused;
    }
    return this.#entries(reply);
  }

  /** Ends the connection. Calls under way reject as lost. Only the first cause counts. */
  end(cause: LinkError): void {
    if (this.#cause !== null) return;
    this.#cause = cause;
    this.#socket.destroy();
    for (const { reject } of this.#waiting.splice(0)) reject(cause);
    this.#resolveLost(cause);
  }

  #send(args: readonly string[]): Promise<Reply> {
    if (this.#cause !== null) return Promise.reject(this.#cause);
    const encoded = args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`);
    this.#socket.write(`*${args.length}\r\n${encoded.join('')}`);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
  }

  #feed(chunk: Buffer): void {
    if (this.#cause !== null) return;
    try {
      this.#parser.feed(chunk);
    } catch (error) {
      this.#invalid((error as Error).message);
    }
  }

  #take(reply: Reply): void {
    this.#lent.push(...this.#filled);
    this.#filled = [];
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#invalid('a reply without a request');
    else waiting.resolve(reply);
  }

  #invalid(what: string): LinkError {
    const error = new LinkError('lost', `${this.#options.address.shown} sends ${what}`);
    this.end(error);
    return error;
  }

  /** Returns the messages in a reply of one stream. A null reply has none. */
  #entries(reply: Reply): Entry[] {
    if (reply === null) return [];
    const stream = Array.isArray(reply) && reply.length === 1 ? reply[0] : null;
    const entries = Array.isArray(stream) ? stream[1] : null;
    if (!Array.isArray(entries)) throw this.#invalid('a reply that is not a stream’s');
    return entries.map((entry) => {
      const [id, fields] = Array.isArray(entry) ? entry : [];
      const text = ascii(id);
      if (!/^\d{1,20}-\d{1,20}$/.test(text)) throw this.#invalid('a message of no number');
      const bytes = Array.isArray(fields) ? fields[INDEX] : null;
      // The caller decides whether it is a message of this protocol.
      return { id: text, bytes: bytes instanceof Uint8Array ? bytes : nothing };
    });
  }

  #lost(): LinkError {
    const { shown } = this.#options.address;
    if (this.#failed === null)
      return new LinkError('lost', `${shown} is lost: it closed the connection`);
    const { code, message } = this.#failed as { code?: string; message: string };
    return new LinkError('lost', `${shown} is lost: ${message || code}`, this.#failed);
  }
}
