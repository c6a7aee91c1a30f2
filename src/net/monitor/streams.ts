/**
 * Sends server-sent events to the clients of the live page. All clients get the same text, which is
 * created once. A client that has not received the last message gets no new one, and is
 * disconnected after `PATIENCE_MS`.
 */
import type { ServerResponse } from 'node:http';

/** Maximum number of clients at once. The monitor refuses further ones. */
export const MAX_CLIENTS = 32;
/** Milliseconds between two messages. */
const TELL_MS = 200;
/** Milliseconds that a client has to receive a message. */
const PATIENCE_MS = 2000;

/**
 * Creates the messages. The text of whole() is for a client that has received nothing, or has
 * missed messages. The text of news() is for clients that have received every earlier message.
 */
export interface StreamSource {
  whole(): string;
  news(): string;
}

interface Client {
  readonly response: ServerResponse;
  /** time from which on the client has not received its last message, 0 if it has received it */
  since: number;
  /** whether the client has missed messages, and gets whole() next */
  hasMissed: boolean;
}

export class Streams {
  readonly #source: StreamSource;
  readonly #clients = new Set<Client>();
  #timer: NodeJS.Timeout | undefined;

  constructor(source: StreamSource) {
    this.#source = source;
  }

  get count(): number {
    return this.#clients.size;
  }
  get full(): boolean {
    return this.#clients.size >= MAX_CLIENTS;
  }

  /** Sends whole() to the client now, and news() from then on. */
  add(response: ServerResponse): void {
    // Sends news() to the other clients first, because it returns only the changes since its last
    // call.
    this.#send();
    const client = { response, since: 0, hasMissed: false };
    this.#clients.add(client);
    response.on('close', () => this.#remove(client));
    // `retry` is the time in milliseconds after which a browser connects again if the connection is
    // lost.
    response.write(`retry: 1000\n\n${message(this.#source.whole())}`);
    // The timer runs only while there are clients.
    this.#timer ??= setInterval(() => this.#send(), TELL_MS).unref();
  }

  /** Ends all streams with a `bye` event, so that the page knows that the monitor was closed. */
  close(): void {
    for (const { response } of [...this.#clients]) response.end('event: bye\ndata: {}\n\n');
    for (const client of [...this.#clients]) this.#remove(client);
  }

  #send(): void {
    if (this.#clients.size === 0) return;
    const news = message(this.#source.news());
    let whole: string | undefined;
    const now = performance.now();
    for (const client of [...this.#clients]) {
      const { response } = client;
      if (response.writableLength > 0) {
        client.hasMissed = true;
        client.since ||= now;
        if (now - client.since >= PATIENCE_MS) response.destroy();
        continue;
      }
      client.since = 0;
      if (client.hasMissed) {
        whole ??= message(this.#source.whole());
        client.hasMissed = false;
        response.write(whole);
      } else response.write(news);
    }
  }

  #remove(client: Client): void {
    this.#clients.delete(client);
    if (this.#clients.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Returns an event with JSON text, which contains no line ends. */
const message = (json: string) => `data: ${json}\n\n`;
