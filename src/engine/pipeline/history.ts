/**
 * Reads finished ticks from the journal for statistics, the trace and `tick` listeners. Only the
 * opener's thread calls it, between other work.
 */
import type { EventEmitter } from 'eventemitter3';
import type { PipelineError } from '../../base/errors.ts';
import type { JournalEntry } from '../ring/journal.ts';
import type { Ring } from '../ring/ring.ts';
import { Field, type Role } from '../ring/slot.ts';
import type { Recorded } from '../trace/recorder.ts';
import { channels } from './channels.ts';
import { Statistics } from './summary.ts';

/** A finished tick. */
export interface Tick<S extends string = string> {
  tickId: number;
  slot: number;
  rows: number;
  snapshotPtr: number;
  snapshotSize: number;
  /** the learner's scalars, by the names given to capture() */
  scalars: Record<S, number>;
  /** milliseconds from the request to the end of the update */
  totalMs: number;
  /** weight version that was published after this tick, 0 for none */
  version: number;
  /** number of rows that writers overwrote while they were copied, and that were drawn again */
  drawnAgain: number;
  /** how the tick's rows were drawn */
  sampler: 'uniform' | 'prioritized';
  /**
   * number of priorities, of those that pack read before this draw, whose steps were already
   * overwritten
   */
  stale: number;
  /** the largest priority ever written before this draw, 0 for uniform draws */
  maxPriority: number;
}

/** Events of a pipeline. */
export interface PipelineEvents<S extends string = string> {
  /** a tick is over: emitted while the opener waits in run(), in afterTick() and in close() */
  tick: [tick: Tick<S>];
  /** number of ticks that were overwritten in the journal before they could be read */
  missed: [count: number];
  restart: [roles: readonly Role[], reason: Error];
  warning: [message: string];
  error: [error: PipelineError];
  close: [];
}

/** A warning or a restart, stored for later reading. */
export interface Emitted {
  /** milliseconds since 1970 */
  at: number;
  kind: 'warning' | 'restart';
  text: string;
}
/** Number of the latest warnings and restarts that are stored. */
const SAID = 50;

/**
 * Number of the newest entries that emit() reads if no listener or trace needs every tick. That
 * many suffice for percentiles and take little time to read.
 */
const SAMPLE = 256;

export class History {
  readonly #ring: Ring;
  readonly #emitter: EventEmitter<PipelineEvents>;
  /** null without a trace */
  readonly #trace: Recorded | null;
  #scalarNames: readonly string[] = [];
  /** undefined before the first run */
  #statistics: Statistics | undefined;
  /** recent warnings and restarts, oldest first */
  readonly emitted: Emitted[] = [];
  readonly #warned = { scalars: false, weights: false };
  #at = 0;
  /**
   * sequence of the last entry that was read. Entries up to this sequence are skipped, because the
   * successor of a dead poll actor may write a tick a second time
   */
  #lastSequence = -1;

  constructor(ring: Ring, emitter: EventEmitter<PipelineEvents>, trace: Recorded | null) {
    this.#ring = ring;
    this.#emitter = emitter;
    this.#trace = trace;
  }

  /** Names of the first scalars, as given to capture(). */
  get scalarNames(): readonly string[] {
    return this.#scalarNames;
  }
  /** Records that a learner was captured, whose first scalars have these names. */
  captured(scalars: readonly string[], graphs: number): void {
    this.#scalarNames = [...scalars];
    Object.assign(this.#warned, { scalars: false, weights: false });
    channels.capture.publish({ pipeline: this.#emitter, graphs, scalars: this.#scalarNames });
  }

  restarted(roles: readonly Role[], reason: Error): void {
    this.#note('restart', `the thread of ${roles.join(', ')} was replaced: ${reason.message}`);
    channels.restart.publish({ pipeline: this.#emitter, roles, reason });
    this.#emitter.emit('restart', roles, reason);
  }

  /** Emits a warning. Without a listener, emits it as a process warning. */
  warn(text: string): void {
    if (!this.warning(text)) process.emitWarning(text, 'PipelineWarning');
  }
  /** Emits a warning, and returns whether it had a listener. */
  warning(text: string): boolean {
    this.#note('warning', text);
    return this.#emitter.emit('warning', text);
  }
  #note(kind: Emitted['kind'], text: string): void {
    this.emitted.push({ at: Date.now(), kind, text });
    if (this.emitted.length > SAID) this.emitted.shift();
  }

  /** Emits the remaining ticks, ends the trace, and emits `close`. */
  async close(): Promise<void> {
    this.emit(null);
    const failed = await this.#trace?.finish();
    if (failed) this.warning(`the trace is incomplete: ${failed.message}`);
    // A listener that throws must not make closing fail.
    queueMicrotask(() => this.#emitter.emit('close'));
  }

  /** Resets the statistics for a new run and returns them. A pipeline has one run at a time. */
  statistics(): Statistics {
    this.#statistics ??= new Statistics();
    return this.#statistics.begin(this.#scalarNames);
  }

  /**
   * Reads the journal's new entries, and emits their ticks. If a listener throws, it emits no more
   * of these ticks and returns the error.
   */
  emit(statistics: Statistics | null): { error: unknown } | null {
    const { journal } = this.#ring;
    const trace = this.#trace;
    // A Tick object is created only if there is a listener.
    const hasSubscribers = channels.tick.hasSubscribers;
    const wantsTicks = hasSubscribers || this.#emitter.listenerCount('tick') > 0;
    const all = wantsTicks || trace !== null;
    let failed: { error: unknown } | null = null;
    const take = (entry: JournalEntry) => {
      const sequence = entry.record[Field.sequence] as number;
      if (sequence <= this.#lastSequence) return;
      this.#lastSequence = sequence;
      statistics?.add(entry);
      trace?.add(entry);
      if (!wantsTicks || failed) return;
      try {
        const tick = this.#tick(entry);
        if (hasSubscribers) channels.tick.publish({ pipeline: this.#emitter, tick });
        this.#emitter.emit('tick', tick);
      } catch (error) {
        failed = { error };
      }
    };
    const { next, missed } = journal.read(this.#at, take, all ? undefined : SAMPLE);
    this.#at = next;
    trace?.collect();
    if (all && missed > 0) this.#emitter.emit('missed', missed);
    try {
      this.#warnNonFinite();
    } catch (error) {
      failed ??= { error };
    }
    return failed;
  }

  /**
   * Warns about the first non-finite scalar and weight. Call it after a read of the journal, so
   * that tick and index belong together (see RunFields).
   */
  #warnNonFinite(): void {
    const { firstNonFiniteScalar, firstNonFiniteWeight, mayPublish } = this.#ring.run;
    if (firstNonFiniteScalar && !this.#warned.scalars) {
      this.#warned.scalars = true;
      const name = this.#scalarNames[firstNonFiniteScalar.scalar];
      this.warn(
        `tick ${firstNonFiniteScalar.tick}: the learner's '${name}' is NaN or infinite; its results are invalid from here on; firstNonFinite() finds the launch`,
      );
    }
    if (firstNonFiniteWeight && !this.#warned.weights) {
      this.#warned.weights = true;
      const then = mayPublish
        ? 'they were published, as publishNonFinite requests'
        : 'they are not published, nor are later ones';
      this.warn(
        `tick ${firstNonFiniteWeight.tick}: weight ${firstNonFiniteWeight.place} is NaN or infinite; ${then}`,
      );
    }
  }

  #tick({ record, slot, scalars }: JournalEntry): Tick {
    const at = (field: number) => record[field] as number;
    return {
      tickId: at(Field.tick),
      slot,
      rows: at(Field.rows),
      snapshotPtr: at(Field.snapshotPtr),
      snapshotSize: at(Field.snapshotSize),
      scalars: Object.fromEntries(this.scalarNames.map((name, i) => [name, scalars[i] as number])),
      totalMs: at(Field.doneAt) - at(Field.requestedAt),
      version: at(Field.version),
      drawnAgain: at(Field.drawnAgain),
      sampler: at(Field.maxPriority) > 0 ? 'prioritized' : 'uniform',
      stale: at(Field.stale),
      maxPriority: at(Field.maxPriority),
    };
  }
}
