/**
 * A pipeline's position between two ticks, from which a fresh one goes on with the same ticks and
 * the same draws. It includes priorities that were read back and wait for the draw, depth sequences
 * later, that takes them up.
 */
import { rangeError, stateError } from '../../base/errors.ts';
import { Pause } from '../ring/header.ts';
import type { ManualTicks } from './manual.ts';
import type { CheckedOptions } from './options.ts';
import type { RunControl } from './run-control.ts';
import type { PipelineRuntime } from './runtime.ts';

/** Priorities that were read back with a batch and are not in the tree yet. */
interface Update {
  readonly ids: Float64Array;
  readonly priorities: Float32Array;
}

export interface Position {
  /** the last tick that was asked for, −1 before the first */
  readonly tick: number;
  /** the next one's sequence */
  readonly sequence: number;
  readonly beta: number;
  /** updates of sequences before this one are in the tree */
  readonly applied: number;
  /** of the sequences before the next one, oldest first, empty for uniform draws */
  readonly updates: readonly Update[];
  /**
   * a manual tick that was asked for and not yet sampled, here or in an earlier run: its batch, as
   * it goes to the device
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

  /**
   * Facts that must be the same in another pipeline that is to go on, in words that a person can
   * compare.
   */
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
      // Priorities are taken up `depth` ticks later.
      ...(source.prioritized ? { depth } : {}),
    };
  }

  /** With rows on the device, the number that it keeps decides what a tick draws. */
  get #ring(): object {
    const ring = this.#parts.slots.deviceStore?.checked;
    return ring ? { rowsOnDevice: ring.places, guard: ring.guard } : {};
  }

  /**
   * Rows that the limiter counts and no tick has had: those of a tick that waits for its caller.
   * They are counted again when it is asked for.
   */
  get countedAhead(): number {
    const { ring } = this.#parts;
    if (this.#options.source.buffer.limiter === null) return 0;
    return (
      this.#options.sampleCount *
      ring.header.countedFrom(this.#manual.requested?.sequence ?? ring.next)
    );
  }

  /** Returns the position of a pipeline that stands still. */
  take(): Position {
    const { ring, slots } = this.#parts;
    const { updates: priorities } = slots;
    const { requested, retained, lastRequested } = this.#manual;
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
      : retained;
    // A run's ticks are the manual count's only when it is over.
    const last = this.#control.running ? ring.run.tickOf(ring.next - 1) : lastRequested;
    const tick = prepared ? prepared.tick - 1 : last;
    return { tick, sequence, beta: ring.beta, applied, updates, prepared };
  }

  /** A slot's sequences are depth apart. */
  #slotOf(sequence: number): number {
    const { ring } = this.#parts;
    for (let slot = 0; slot < ring.depth; slot++)
      if ((ring.sequence(slot) - sequence) % ring.depth === 0) return slot;
    throw rangeError(`no slot had sequence ${sequence}`);
  }

  /** Throws unless the pipeline is as it was opened. */
  checkFresh(): void {
    this.#parts.checkRunning();
    if (this.#parts.ring.next > 0 || this.#manual.lastTick >= 0)
      throw stateError(
        'BUSY',
        `the pipeline has run ${this.#parts.ring.next} ticks; restore into a pipeline that was just opened`,
      );
  }

  /** Makes a fresh pipeline go on from a position. */
  async resume({ tick, sequence, beta, applied, updates, prepared }: Position): Promise<void> {
    const { ring, slots } = this.#parts;
    const { source } = this.#options;
    this.checkFresh();
    // The requester looks at no sequence while requests are paused.
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
