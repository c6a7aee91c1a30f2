/** The live page: shows a running pipeline to browsers and to Prometheus. */
import type { Server } from 'node:http';
import {
  checkCount,
  checkInternal,
  checkKeys,
  describeValue,
  INTERNAL,
} from '../../base/checks.ts';
import { Closing } from '../../base/closing.ts';
import { closedError, rangeError, typeError } from '../../base/errors.ts';
import { isLoopback, urlOf } from './hosts.ts';
import { LiveTraces } from './live-trace.ts';
import { METRICS_TYPE, metricsOf } from './metrics.ts';
import { pageFiles } from './page.ts';
import {
  checkedOptions,
  checkLater,
  checkParts,
  type MonitorOptions,
  type MonitorParts,
} from './parts.ts';
import { Sampling } from './sampling.ts';
import { answer, listen, type Route, refuse, refuseQueued, shut } from './server.ts';
import { MAX_CLIENTS, Streams } from './streams.ts';

/** The live page of serveMonitor(). */
export class Monitor implements AsyncDisposable {
  /** URL for a browser */
  readonly url: string;
  readonly port: number;
  readonly #server: Server;
  readonly #live: Live;
  readonly #closing = new Closing();

  constructor(key: unknown, server: Server, live: unknown, url: string, port: number) {
    checkInternal(key, 'Monitor', 'serveMonitor()');
    this.#server = server;
    this.#live = live as Live;
    this.url = url;
    this.port = port;
  }

  /** Number of pages that are open now. */
  get clients(): number {
    return this.#live.streams.count;
  }

  /**
   * Adds a value of your own to a curve. NaN and infinities leave a gap. A curve becomes coarser as
   * it grows, and has at most 600 points.
   *
   * @param tag the curve's name, such as 'evaluation/return'
   * @param step a whole number from 0 on
   * @throws {TypeError|RangeError} for an empty tag or a wrong step
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   */
  scalar(tag: string, value: number, step: number): void {
    if (typeof tag !== 'string')
      throw typeError(`scalar: tag must be a string, got ${describeValue(tag)}`);
    if (tag === '')
      throw rangeError("scalar: tag must name a curve, such as 'evaluation/return', got ''");
    if (typeof value !== 'number')
      throw typeError(`scalar: value must be a number, got ${describeValue(value)}`);
    checkCount('scalar: step', step, 0);
    if (this.#closing.begun) throw closedError('this monitor', 'make another with serveMonitor()');
    this.#live.sampling.put(tag, step, value);
  }

  /**
   * Shows parts that were opened after this monitor. They replace earlier parts of the same kind.
   */
  watch(parts: Pick<MonitorParts, 'collectors' | 'checkpoint'>): void {
    checkKeys('watch', parts, ['collectors', 'checkpoint']);
    checkLater('watch', parts);
    if (this.#closing.begun) throw closedError('this monitor', 'make another with serveMonitor()');
    this.#live.sampling.add(parts);
  }

  /** Disconnects every client and closes the port. Never rejects. Idempotent. */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      this.#live.close();
      await shut(this.#server);
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Creates the content of the monitor's routes. */
class Live {
  readonly sampling: Sampling;
  readonly streams: Streams;
  readonly traces: LiveTraces;
  readonly #facts: object;
  /** for each curve, the number of points that were sent to all clients */
  #sent = new Map<string, { count: number; thinned: number }>();

  constructor(parts: MonitorParts) {
    const { pipeline, title = 'Hotslot' } = parts;
    this.sampling = new Sampling(parts);
    this.traces = new LiveTraces(this.sampling.watch);
    this.streams = new Streams({ whole: () => this.#whole(), news: () => this.#news() });
    const { device, deviceReason, placement, ringDepth, hostMemoryKind } =
      pipeline.transferManifest;
    this.#facts = {
      title,
      began: Date.now(),
      rows: this.sampling.watch.rows,
      device,
      deviceReason,
      placement,
      ringDepth,
      hostMemoryKind,
    };
  }

  routes(): Record<string, Route> {
    const files = pageFiles().map(([path, type, body]): [string, Route] => [
      path,
      (_, response) => answer(response, type, body),
    ]);
    return {
      ...Object.fromEntries(files),
      '/events': (request, response) => {
        if (refuseQueued(response)) return;
        if (this.streams.full)
          return void refuse(
            response,
            503,
            `${MAX_CLIENTS} pages are connected, which is the maximum; close one of them`,
            {
              'retry-after': '5',
            },
          );
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
        if (request.method === 'HEAD') return void response.end();
        this.streams.add(response);
      },
      '/metrics': (_, response) => {
        const { curves } = this.sampling;
        answer(response, METRICS_TYPE, metricsOf(this.sampling.now(), curves, this.streams.count));
      },
      '/trace': (_, response, query) => this.traces.answer(response, query.get('seconds')),
    };
  }

  close(): void {
    this.traces.close();
    this.streams.close();
    this.sampling.close();
  }

  #whole(): string {
    return JSON.stringify({
      facts: this.#facts,
      ...this.sampling.now(),
      curves: this.sampling.parts(new Map()),
    });
  }
  #news(): string {
    return JSON.stringify({ ...this.sampling.now(), curves: this.sampling.parts(this.#sent) });
  }
}

/**
 * Serves a page that shows a pipeline while it runs, on `http://host:port/`, until you close the
 * monitor. The monitor does not keep the process alive. All routes are read-only: `/` is the page,
 * `/events` its updates, `/metrics` is for Prometheus, and `/trace?seconds=5` is a Chrome trace of
 * the next seconds.
 *
 * @param parts the pipeline, and optionally collectors, checkpoint and devices
 * @param options `host` and `port`. By default only this machine reaches the page. Another host
 *   emits a process warning, because the page asks for no password
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the system rejects the address, such as a port in use
 * @example
 * const monitor = await serveMonitor({ pipeline }, { port: 7660 });
 * console.log(monitor.url);
 * await monitor.close();
 */
export async function serveMonitor(
  parts: MonitorParts,
  options: MonitorOptions = {},
): Promise<Monitor> {
  checkParts(parts);
  const { host, port } = checkedOptions(options);
  const live = new Live(parts);
  try {
    const listening = await listen({ host, port }, live.routes());
    const url = urlOf(host, listening.port);
    if (!isLoopback(host))
      process.emitWarning(
        `${url} is open to anybody who reaches it: the monitor asks for no password`,
        'MonitorWarning',
      );
    return new Monitor(INTERNAL, listening.server, live, url, listening.port);
  } catch (error) {
    live.close();
    throw error;
  }
}
