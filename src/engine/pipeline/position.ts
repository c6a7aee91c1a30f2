/**
 * A pipeline's position between two ticks. A fresh pipeline that resumes from the position makes
 * the same ticks with the same draws.
 *
 * The priorities of a tick are applied only before the draw `depth` sequences later. So the
 * position includes priorities that were read back and not applied yet.
 */
import { rangeError, stateError } from '../../base/errors.ts';
import { Pause } from '../ring/header.ts';
import type { ManualTicks } from './manual.ts';
import type { CheckedOptions } from './options.ts';
import type { RunControl } from './run-control.ts';
import type { PipelineRuntime } from './runtime.ts';

/** Priorities that were read back with a batch and are not in the priority tree yet. */
interface Update {
  readonly ids: Float64Array;
  readonly priorities: Float32Array;
}

export interface Position {
  /** the last tick that was requested, −1 before the first */
  readonly tick: number;
  /** the sequence of the next tick */
  readonly sequence: number;
  readonly beta: number;
  /** the first sequence whose priorities are not in the tree */
  readonly applied: number;
  /**
   * updates of the sequences from `applied` on and before `sequence`, oldest first, empty for
   * uniform draws
   */
  readonly updates: readonly Update[];
  /**
   * a manual tick that was requested and not yet sampled, in this run or an earlier one, with its
   * batch as copied to the device
   */
  readonly prepared: { readonly tick: number; readonly bytes: Uint8Array } | null;
}

export class Positions {
  readonly #parts: PipelineRuntime;
  readonly #manual: ManualTicks;
  readonly #control: RunControl;
  readonly #options: CheckedOptions;

  constructor(
    parts: PipelineRuntime,
    manual: ManualTicks,
    control: RunControl,
    options: CheckedOptions,
  ) {
    this.#control = control;
    this.#parts = parts;
    this.#manual = manual;
    this.#options = options;
  }

  /** Facts that must be equal in the pipeline that resumes, in a form that a person can compare. */
  get facts(): object {
    const { source, sampleCount, baseSeed, depth } = this.#options;
    const columns = this.#parts.slots.plan.columns.map(({ key, dtype, shape }) => [
      key,
      `${dtype}[${shape.join('×')}]`,
    ]);
    return {
      sampleCount,
      baseSeed,
      draws: source.prioritized ? 'by priorities' : 'uniformly',
      columns: Object.fromEntries(columns),
      ...this.#ring,
      // A tick's priorities are applied `depth` ticks later.
      ...(source.prioritized ? { depth } : {}),
    };
  }

  /** If rows live on the device, the size of the device's ring determines what a tick draws. */
  get #ring(): object {
    const ring = this.#parts.slots.deviceStore?.checked;
    return ring ? { rowsOnDevice: ring.places, guard: ring.guard } : {};
  }

  /**
   * Rows that the limiter has counted for a tick that was prepared and not sampled. After a restore
   * they are counted again when that tick is requested.
   */
  get countedAhead(): number {
    const { ring } = this.#parts;
    if (this.#options.source.buffer.limiter === null) return 0;
    return (
      this.#options.sampleCount *
      ring.header.countedFrom(this.#manual.requested?.sequence ?? ring.next)
    );
  }

  /** Returns the position of a pipeline that has no tick under way. */
  take(): Position {
    const { ring, slots } = this.#parts;
    const { updates: priorities } = slots;
    const { requested, restored, lastRequested } = this.#manual;
    const sequence = requested?.sequence ?? ring.next;
    const applied = priorities?.applied ?? 0;
    const updates: Update[] = [];
    for (let s = Math.max(0, applied); priorities !== null && s < sequence; s++)
      updates.push(priorities.readBack(slots.host, this.#slotOf(s)));
    const prepared = requested
      ? {
          tick: requested.tick,
          bytes: slots.host.batchBytes(requested.slot).slice(0, slots.host.moves(requested.slot)),
        }
      : restored;
    // During a run, the count of manual ticks does not include the run's ticks.
    const last = this.#control.running ? ring.run.tickOf(ring.next - 1) : lastRequested;
    const tick = prepared ? prepared.tick - 1 : last;
    return { tick, sequence, beta: ring.beta, applied, updates, prepared };
  }

  /** Returns the slot of a sequence. The sequences of one slot differ by multiples of depth. */
  #slotOf(sequence: number): number {
    const { ring } = this.#parts;
    for (let slot = 0; slot < ring.depth; slot++)
      if ((ring.sequence(slot) - sequence) % ring.depth === 0) return slot;
    throw rangeError(`no slot had sequence ${sequence}`);
  }

  /** Throws unless the pipeline was just opened and has run no ticks. */
  checkFresh(): void {
    this.#parts.checkRunning();
    if (this.#parts.ring.next > 0 || this.#manual.lastTick >= 0)
      throw stateError(
        'BUSY',
        `the pipeline has run ${this.#parts.ring.next} ticks; restore into a pipeline that was just opened`,
      );
  }

  /** Makes a fresh pipeline continue from a position. */
  async resume({ tick, sequence, beta, applied, updates, prepared }: Position): Promise<void> {
    const { ring, slots } = this.#parts;
    const { source } = this.#options;
    this.checkFresh();
    // Requests are paused meanwhile, so that the requester reads no sequence that changes.
    ring.header.pause(Pause.hold);
    try {
      await this.#parts.until(() => {
        if (!ring.header.paused) ring.bells.of('replay').ring();
        return ring.header.paused;
      });
      ring.startAt(sequence);
      for (const [i, update] of updates.entries()) {
        const slot = this.#slotOf(sequence - updates.length + i);
        slots.updates?.writeBack(slots.host, slot, update);
      }
      slots.updates?.goOn(applied);
    } finally {
      ring.endRun();
    }
    if (source.prioritized) ring.setBeta(beta);
    this.#manual.skipTo(tick);
    if (prepared) this.#manual.keep(prepared);
  }
}
