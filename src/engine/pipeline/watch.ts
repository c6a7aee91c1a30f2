/**
 * PipelineWatch shows a monitor the state of a pipeline. It runs in the opener's thread. At
 * intervals it reads the ring's words and the newest entries of the journal. It adds no `tick`
 * listener, because a listener makes the pipeline create an object for every tick.
 */
import { type GateName, gateNames, Mode } from '../ring/header.ts';
import type { JournalEntry } from '../ring/journal.ts';
import { Field } from '../ring/slot.ts';
import { TraceWriter } from '../trace/recorder.ts';
import { FedSpans } from './fed-spans.ts';
import type { Emitted } from './history.ts';
import { type PipelineInternals, type SlotNow, slotsNow, traceShape } from './inspect.ts';
import { internalsOf, type ReplayPipeline } from './replay-pipeline.ts';
import { type StageName, stages } from './summary.ts';

/** Maximum number of entries that one check() reads: enough for means and percentiles. */
const LOOK = 64;
/** Number of the newest ticks whose stage times are stored for percentiles. */
const WINDOW = 256;
/** Weight of one check() in the smoothed share of free slots. */
const SMOOTHING = 0.25;
/**
 * Maximum number of ticks that one collect() adds to a trace, because writing them must not occupy
 * the opener's thread for long.
 */
const TRACED = 1000;

export { type GateName, gateNames };
export const stageNames = Object.keys(stages) as StageName[];

/** The result of check(): ticks since the check() before. */
export interface TickCheck {
  /** number of ticks finished so far */
  finished: number;
  /** the latest tick's id, −1 before the first */
  tick: number;
  /**
   * means of the scalars over the ticks that this check() read, by the names given to capture().
   * Empty if it read none
   */
  scalars: Record<string, number>;
}

/** Percentiles of a stage's time, in seconds. */
export interface StageSeconds {
  p50: number;
  p90: number;
}

/** State of a pipeline. `running`: in run(). `idle`: between runs, or in manual ticks. */
export type PipelineState = 'running' | 'idle' | 'failed' | 'closed';

export class PipelineWatch {
  readonly #pipeline: ReplayPipeline;
  readonly #inside: PipelineInternals;
  /** index of the journal entry to read next */
  #at = 0;
  #sequence = -1;
  #tick = -1;
  #version = 0;
  #free = 1;
  /** per stage, a ring of the newest ticks' milliseconds */
  readonly #window = stageNames.map(() => new Float64Array(WINDOW));
  #windowed = 0;

  constructor(pipeline: ReplayPipeline) {
    this.#pipeline = pipeline;
    this.#inside = internalsOf(pipeline);
  }

  get device() {
    return this.#inside.slots.device;
  }
  get closed(): boolean {
    return this.#inside.parts.closing;
  }
  get emitted(): readonly Emitted[] {
    return this.#inside.history.emitted;
  }
  /** Rows of a batch. */
  get rows(): number {
    return this.#inside.options.sampleCount;
  }
  /** Share of slots that are free, 0 to 1, smoothed over the latest checks. */
  get free(): number {
    return this.#free;
  }
  /** Number of ticks finished so far. */
  get finished(): number {
    return this.#inside.parts.ring.finished;
  }
  /** Id of the latest tick that check() has read, −1 before the first. */
  get tick(): number {
    return this.#tick;
  }
  /** Latest published version of the weights that check() has read, 0 before the first. */
  get version(): number {
    return this.#version;
  }

  get state(): PipelineState {
    const { closing, ring } = this.#inside.parts;
    if (ring.failure.set) return 'failed';
    if (closing) return 'closed';
    return ring.header.mode === Mode.manual ? 'idle' : 'running';
  }
  /** The text of the pipeline's failure, or null if it has not failed. */
  get failure(): string | null {
    return this.#inside.parts.ring.failure.read()?.message ?? null;
  }
  /** The pipeline's waitingFor(), or '' after it failed or closed. */
  get waitingFor(): string {
    return this.state === 'running' || this.state === 'idle' ? this.#pipeline.waitingFor() : '';
  }
  /** The name of the requester's gate, or null after the pipeline failed or closed. */
  get gate(): GateName | null {
    const over = this.state === 'failed' || this.state === 'closed';
    return over ? null : (gateNames[this.#inside.parts.ring.header.gate] as GateName);
  }
  slots(): SlotNow[] {
    return slotsNow(this.#inside.parts.ring);
  }
  /**
   * Returns how many rows or steps the buffer contains, and its capacity. Returns null after the
   * pipeline closed, because its buffer may be closed too.
   */
  buffer(): { size: number; capacity: number } | null {
    if (this.closed) return null;
    const { size, capacity } = this.#inside.buffer;
    return { size, capacity };
  }

  check(): TickCheck {
    const { parts, history } = this.#inside;
    const { journal } = parts.ring;
    const names = history.scalarNames;
    const sums = new Float64Array(names.length);
    let count = 0;
    const readEntry = ({ record, scalars }: JournalEntry) => {
      const sequence = record[Field.sequence] as number;
      if (sequence <= this.#sequence) return;
      this.#sequence = sequence;
      this.#tick = record[Field.tick] as number;
      this.#version = Math.max(this.#version, record[Field.version] as number);
      this.#keep(record);
      count++;
      for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] as number) + (scalars[i] as number);
    };
    this.#at = journal.read(this.#at, readEntry, LOOK).next;
    const words = slotsNow(parts.ring);
    const free = words.filter(({ state }) => state === 'Free').length / words.length;
    this.#free += SMOOTHING * (free - this.#free);
    const means =
      count === 0 ? [] : names.map((name, i) => [name, (sums[i] as number) / count] as const);
    return { finished: parts.ring.finished, tick: this.#tick, scalars: Object.fromEntries(means) };
  }

  #keep(record: Float64Array): void {
    const at = this.#windowed++ % WINDOW;
    for (const [i, name] of stageNames.entries()) {
      const [begin, end] = stages[name];
      const ms = (record[end] as number) - (record[begin] as number);
      (this.#window[i] as Float64Array)[at] = Math.max(0, ms);
    }
  }

  /**
   * Returns the stage times of the newest ticks that check() has read, or null before the first.
   */
  stages(): Record<StageName, StageSeconds> | null {
    const count = Math.min(this.#windowed, WINDOW);
    if (count === 0) return null;
    const of = (window: Float64Array): StageSeconds => {
      const sorted = window.slice(0, count).sort();
      const at = (p: number) =>
        (sorted[Math.min(count - 1, Math.floor(p * count))] as number) / 1000;
      return { p50: at(0.5), p90: at(0.9) };
    };
    return Object.fromEntries(
      stageNames.map((name, i) => [name, of(this.#window[i] as Float64Array)]),
    ) as unknown as Record<StageName, StageSeconds>;
  }

  /** Begins a trace of the ticks that finish from now on. */
  trace(write: (text: string) => unknown): LiveTrace {
    return new LiveTrace(this.#inside, this.#pipeline.transferManifest, write);
  }
}

/** A trace of a running pipeline. collect() adds the finished ticks to it. */
export class LiveTrace {
  readonly #inside: PipelineInternals;
  readonly #facts: ReplayPipeline['transferManifest'];
  readonly #writer: TraceWriter;
  readonly #fed: FedSpans;
  #at: number;
  #missed = 0;

  constructor(
    inside: PipelineInternals,
    facts: ReplayPipeline['transferManifest'],
    write: (text: string) => unknown,
  ) {
    this.#inside = inside;
    this.#facts = facts;
    // If the pipeline does not measure spans on the device, the trace leaves them out.
    this.#writer = new TraceWriter(
      write,
      inside.options.trace !== false && inside.options.trace.deviceEvents,
    );
    this.#at = inside.parts.ring.journal.head;
    this.#fed = new FedSpans(inside.buffer.share().memory);
  }

  /**
   * Adds the ticks that have finished since the last call. If they are too many for one call, adds
   * only the newest.
   */
  collect(): void {
    const { parts, options } = this.#inside;
    const shape = traceShape(parts.slots, options);
    const add = (entry: JournalEntry) => this.#writer.add(entry, this.#facts, shape);
    const { next, missed } = parts.ring.journal.read(this.#at, add, TRACED);
    this.#at = next;
    this.#missed += missed;
    this.#writer.addFed(this.#fed);
  }

  /** Adds the remaining ticks and ends the trace. Returns the number of ticks that it misses. */
  end(): number {
    this.collect();
    this.#writer.end(this.#missed);
    return this.#missed;
  }
}
