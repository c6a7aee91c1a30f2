/**
 * Reads time spans of feeders for a trace. A feeder brings rows of other machines into a pipeline's
 * buffer. Only spans that are written after the creation of this object are read.
 */
import { feedersOf } from '../trace/feeders.ts';
import type { Fed, FedSpan } from '../trace/recorder.ts';
import type { Spans } from '../trace/spans.ts';

export class FedSpans implements Fed {
  readonly #memory: SharedArrayBuffer;
  /**
   * the next span to read of each feeder thread. A thread that has ended stays in the map, because
   * its last spans are read after its end
   */
  readonly #next = new Map<Spans, number>();

  constructor(memory: SharedArrayBuffer) {
    this.#memory = memory;
    for (const spans of this.#now()) this.#next.set(spans, spans.head);
  }

  collect(each: (span: FedSpan) => void): number {
    for (const spans of this.#now()) if (!this.#next.has(spans)) this.#next.set(spans, 0);
    let all = 0;
    for (const [thread, [spans, from]] of [...this.#next].entries()) {
      const { next, missed } = spans.read(from, (span) => each({ ...span, thread }));
      this.#next.set(spans, next);
      all += missed;
    }
    return all;
  }

  #now(): Spans[] {
    return [...feedersOf(this.#memory)].flatMap(({ spans }) => spans);
  }
}
