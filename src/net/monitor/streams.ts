/**
 * Who looks at the live page: streams of server-sent events. Everybody is sent the same text, made
 * once; a client that has not taken the last one is sent nothing, and is dropped when that goes on.
 */
import type { ServerResponse } from 'node:http';

/** Clients at once, at most. */
export const MAX_CLIENTS = 32;
/** From one message to the next. */
const TELL_MS = 200;
/** A client has so long to take a message. */
const PATIENCE_MS = 2000;

/** What is sent: `whole` to who knows nothing yet, `news` to who was sent everything before. */
export interface Teller {
  whole(): string;
  news(): string;
}

interface Client {
  readonly response: ServerResponse;
  /** since when it has not taken what it was sent; 0: it has */
  since: number;
  /** it missed some, and is told everything next */
  behind: boolean;
}

export class Streams {
  readonly #teller: Teller;
  readonly #clients = new Set<Client>();
  #timer: NodeJS.Timeout | undefined;

  constructor(teller: Teller) {
    this.#teller = teller;
  }

  get count(): number {
    return this.#clients.size;
  }
  get full(): boolean {
    return this.#clients.size >= MAX_CLIENTS;
  }

  /** Sends it everything, and from then on what is new. */
  add(response: ServerResponse): void {
    // Those who are there first: what is new to them is no longer so behind this.
    this.#tell();
    const client = { response, since: 0, behind: false };
    this.#clients.add(client);
    response.on('close', () => this.#remove(client));
    // How soon a browser asks again when the connection is lost.
    response.write(`retry: 1000\n\n${message(this.#teller.whole())}`);
    // No timer while nobody looks.
    this.#timer ??= setInterval(() => this.#tell(), TELL_MS).unref();
  }

  /** Says goodbye, so that the page knows that nothing is wrong with the network. */
  close(): void {
    for (const { response } of [...this.#clients]) response.end('event: bye\ndata: {}\n\n');
    for (const client of [...this.#clients]) this.#remove(client);
  }

  #tell(): void {
    if (this.#clients.size === 0) return;
    const news = message(this.#teller.news());
    let whole: string | undefined;
    const now = performance.now();
    for (const client of [...this.#clients]) {
      const { response } = client;
      if (response.writableLength > 0) {
        client.behind = true;
        client.since ||= now;
        if (now - client.since >= PATIENCE_MS) response.destroy();
        continue;
      }
      client.since = 0;
      if (client.behind) {
        whole ??= message(this.#teller.whole());
        client.behind = false;
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

/** JSON has no line ends of its own. */
const message = (json: string) => `data: ${json}\n\n`;
