/**
 * Helpers of the live page's tests: a pipeline that runs until it is stopped, and HTTP requests
 * that a browser would not send.
 */
import { connect, type Socket } from 'node:net';
import {
  type Monitor,
  type MonitorOptions,
  type MonitorParts,
  serveMonitor,
} from '../../src/entries/monitor.ts';
import type { ReplayPipeline, Summary } from '../../src/index.ts';
import { counter, pipeline } from '../pipeline/fixture.ts';

const ends: (() => unknown)[] = [];

/**
 * Runs the registered clean-ups, the last first. Call it in afterEach, before the pipelines are
 * closed.
 */
export async function endAll(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
}
export const atEnd = (end: () => unknown): void => void ends.push(end);

/** Opens a pipeline whose ticks report 1, 2, 3, … as the scalar 'count'. */
export async function counting(
  options: Parameters<typeof pipeline>[0] = {},
): Promise<ReplayPipeline> {
  const made = await pipeline(options);
  const update = counter(made);
  made.on('warning', () => {});
  atEnd(async () => {
    await made.close();
    update.close();
  });
  return made;
}

/** Starts a run. The returned function ends the run and returns its summary. */
export function running(made: ReplayPipeline): () => Promise<Summary> {
  const stop = new AbortController();
  const run = made.run({ signal: stop.signal });
  run.catch(() => {});
  const end = () => {
    stop.abort();
    return run;
  };
  atEnd(() => end().catch(() => {}));
  return end;
}

export async function served(parts: MonitorParts, options?: MonitorOptions): Promise<Monitor> {
  const monitor = await serveMonitor(parts, options);
  atEnd(() => monitor.close());
  return monitor;
}

/** Sends the text, and resolves with the answer after the server has closed the connection. */
export function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    let heard = '';
    const socket = connect(port, '127.0.0.1', () => socket.end(text));
    socket.setEncoding('utf8').on('data', (part: string) => {
      heard += part;
    });
    // The server may reject a request by resetting the connection.
    socket.on('error', () => {});
    socket.on('close', () => resolve(heard));
  });
}

export interface Listening {
  socket: Socket;
  /** status line and headers of the response */
  head: string;
  /** the event type and the data of each event so far, in the format of server-sent events */
  events: { event: string; data: string }[];
  closed: boolean;
}

/** Opens the event stream, and parses the response without an HTTP client. */
export function listening(port: number, host = `127.0.0.1:${port}`): Listening {
  const socket = connect(port, '127.0.0.1');
  const found: Listening = { socket, head: '', events: [], closed: false };
  let text = '';
  socket.write(`GET /events HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part;
    if (found.head === '') {
      const at = text.indexOf('\r\n\r\n');
      if (at < 0) return;
      [found.head, text] = [text.slice(0, at), text.slice(at + 4)];
    }
    // The chunked encoding: a size in hexadecimal, then that many bytes.
    let body = '';
    let at = 0;
    for (;;) {
      const size = /^([0-9a-f]+)\r\n/.exec(text.slice(at, at + 12));
      const begin = at + (size?.[0].length ?? 0);
      const length = Number.parseInt(size?.[1] ?? '', 16);
      if (!size || length === 0 || text.length < begin + length + 2) break;
      body += text.slice(begin, begin + length);
      at = begin + length + 2;
    }
    text = text.slice(at);
    for (const block of Buffer.from(body, 'latin1').toString().split('\n\n')) {
      const lines = block.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]);
      const of = (field: string) => lines.find(([name]) => name === field)?.[1];
      const data = of('data');
      if (data !== undefined) found.events.push({ event: of('event') ?? 'message', data });
    }
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    found.closed = true;
  });
  atEnd(() => socket.destroy());
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: JSON of the page's own, looked at field by field
export const parsed = (heard: Listening): any[] =>
  heard.events.filter(({ event }) => event === 'message').map(({ data }) => JSON.parse(data));
