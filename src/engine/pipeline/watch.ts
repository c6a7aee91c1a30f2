/**
 * A monitor's view of a pipeline, now and then, in the opener's thread: the ring's words and the
 * journal's newest entries. It listens to no tick, so that a pipeline does nothing for it.
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

/** Entries read per look, at most: enough for means and percentiles. */
const LOOK = 64;
/** Ticks whose stages are kept for percentiles. */
const WINDOW = 256;
/** Weight of a look in the share of free slots. */
const SMOOTHING = 0.25;
/**
 * Ticks that a trace takes up per look, at most: writing them must not hold the opener's thread for
 * long.
 */
const TRACED = 1000;

export { type GateName, gateNames };
export const stageNames = Object.keys(stages) as StageName[];

/** Since the look before. */
export interface TickCheck {
  /** ticks ever finished */
  finished: number;
  /** the latest tick's id, −1 before the first */
  tick: number;
  /**
   * means of the scalars of the newest ticks, by the names given to capture(), empty if no tick has
   * ended since
   */
  scalars: Record<string, number>;
}

/** Seconds. */
export interface StageSeconds {
  p50: number;
  p90: number;
}

/** `running`: in run(). `idle`: between runs, or in manual ticks. */
export type PipelineState = 'running' | 'idle' | 'failed' | 'closed';

export class PipelineWatch {
  readonly #pipeline: ReplayPipeline;
  readonly #inside: PipelineInternals;
  /** the journal's next entry (of those before it, the newest are looked at once) */
  #at = 0;
  #sequence = -1;
  #tick = -1;
  #version = 0;
  #free = 1;
  /** a ring of the newest ticks, milliseconds by stage */
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
  /** rows of a batch */
  get rows(): number {
    return this.#inside.options.sampleCount;
  }
  /** 0 to 1: slots that the latest looks found free */
  get free(): number {
    return this.#free;
  }
  /** ticks ever finished, now */
  get finished(): number {
    return this.#inside.parts.ring.finished;
  }
  /** id of the latest tick that a look has seen, −1 before the first */
  get tick(): number {
    return this.#tick;
  }
  /** version of the weights that the latest tick published, 0 before the first */
  get version(): number {
    return this.#version;
  }

  get state(): PipelineState {
    const { closing, ring } = this.#inside.parts;
    if (ring.failure.set) return 'failed';
    if (closing) return 'closed';
    return ring.header.mode === Mode.manual ? 'idle' : 'running';
  }
  /** Why it failed, null while it has not. */
  get failure(): string | null {
    return this.#inside.parts.ring.failure.read()?.message ?? null;
  }
  /** As the pipeline's own, or an empty text once it is over. */
  get waitingFor(): string {
    return this.state === 'running' || this.state === 'idle' ? this.#pipeline.waitingFor() : '';
  }
  /** The requester's gate, by one of a few names, or null once the pipeline is over. */
  get gate(): GateName | null {
    const over = this.state === 'failed' || this.state === 'closed';
    return over ? null : (gateNames[this.#inside.parts.ring.header.gate] as GateName);
  }
  slots(): SlotNow[] {
    return slotsNow(this.#inside.parts.ring);
  }
  /**
   * Rows, or steps, that the buffer holds and can hold. Null once the pipeline is over, and the
   * buffer perhaps too.
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
    let knownCount = 0;
    const poll = ({ record, scalars }: JournalEntry) => {
      const sequence = record[Field.sequence] as number;
      if (sequence <= this.#sequence) return;
      this.#sequence = sequence;
      this.#tick = record[Field.tick] as number;
      this.#version = Math.max(this.#version, record[Field.version] as number);
      this.#keep(record);
      knownCount++;
      for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] as number) + (scalars[i] as number);
    };
    this.#at = journal.read(this.#at, poll, LOOK).next;
    const words = slotsNow(parts.ring);
    const free = words.filter(({ state }) => state === 'Free').length / words.length;
    this.#free += SMOOTHING * (free - this.#free);
    const means =
      knownCount === 0
        ? []
        : names.map((name, i) => [name, (sums[i] as number) / knownCount] as const);
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

  /** Stage times of the newest ticks that looks have seen, null before the first. */
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

  /** Begins a trace of the ticks from now on. */
  trace(write: (text: string) => unknown): LiveTrace {
    return new LiveTrace(this.#inside, this.#pipeline.transferManifest, write);
  }
}

/** Ticks go into it when it is asked to look. */
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
    // Spans that were not measured are left out, whatever the trace was opened with.
    this.#writer = new TraceWriter(
      write,
      inside.options.trace !== false && inside.options.trace.deviceEvents,
    );
    this.#at = inside.parts.ring.journal.head;
    this.#fed = new FedSpans(inside.buffer.share().memory);
  }

  /**
   * Takes up the ticks that have ended since, or only the newest if there are too many for once.
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

  /** Takes up the ticks that are left, and ends the trace. Returns how many ticks are not in it. */
  end(): number {
    this.collect();
    this.#writer.end(this.#missed);
    return this.#missed;
  }
}
