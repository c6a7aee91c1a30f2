/**
 * Answers `/trace?seconds=5`: sends the ticks of the next five seconds as a Chrome trace. Only one
 * trace is recorded at a time.
 */
import type { ServerResponse } from 'node:http';
import type { PipelineWatch } from '../../engine/pipeline/watch.ts';
import { refuse, refuseQueued } from './server.ts';

/** Milliseconds between two reads of the journal. */
const LOOK_MS = 50;
/** Milliseconds that a client has to receive the end of a trace before it is disconnected. */
const PATIENCE_MS = 10_000;
const MAX_SECONDS = 60;

export class LiveTraces {
  readonly #watch: PipelineWatch;
  /** ends the current trace */
  #end: (() => void) | null = null;

  constructor(watch: PipelineWatch) {
    this.#watch = watch;
  }

  answer(response: ServerResponse, given: string | null): void {
    if (refuseQueued(response)) return;
    const seconds = Number(given ?? 5);
    if (!(seconds >= 1 && seconds <= MAX_SECONDS) || given?.trim() === '')
      return void refuse(
        response,
        400,
        `seconds is a number from 1 to ${MAX_SECONDS}: /trace?seconds=5`,
      );
    const { state } = this.#watch;
    if (state === 'closed' || state === 'failed')
      return void refuse(response, 409, `the pipeline has ${over[state]}`);
    if (this.#end)
      return void refuse(response, 409, 'a trace is under way; request another one after it');
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-disposition': 'attachment; filename="hotslot.trace.json"',
    });
    // A HEAD request has no body to wait for.
    if (response.req.method === 'HEAD') return void response.end();
    this.#begin(response, seconds);
  }

  /** Ends the current trace early. */
  close(): void {
    this.#end?.();
  }

  #begin(response: ServerResponse, seconds: number): void {
    const parts: string[] = [];
    const trace = this.#watch.trace((text) => parts.push(text));
    const until = performance.now() + seconds * 1000;
    const stop = () => {
      clearInterval(timer);
      // stop() also runs when the connection closes, which may be after the next trace has begun.
      if (this.#end === end) this.#end = null;
    };
    const end = () => {
      stop();
      trace.end();
      response.end(parts.splice(0).join(''));
      const late = setTimeout(() => response.destroy(), PATIENCE_MS).unref();
      response.once('close', () => clearTimeout(late));
    };
    const check = () => {
      const { state } = this.#watch;
      if (performance.now() >= until || state === 'closed' || state === 'failed') return void end();
      // Sends nothing more while a slow client has not received the data so far. The journal may
      // then overwrite entries that were not read yet. The trace says how many entries it missed.
      if (response.writableNeedDrain) return;
      trace.collect();
      response.write(parts.splice(0).join(''));
    };
    const timer = setInterval(check, LOOK_MS).unref();
    response.once('close', stop);
    this.#end = end;
  }
}

const over = { closed: 'been closed', failed: 'failed' } as const;
