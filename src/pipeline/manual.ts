/**
 * Manual ticks: which tick is pending (asked for, perhaps prepared), which is hot (its batch is in the caller's hands), and
 * which moments are wrong. The semantics are UniLab's replay pipeline's; see docs/pipeline.md.
 */
import { checkCount, rangeError, stateError } from '../errors.ts';
import { type Ring, Run } from '../ring/ring.ts';
import { SlotState } from '../ring/slot.ts';

interface Asked {
  tick: number;
  slot: number;
  sequence: number;
}

export class ManualTicks {
  readonly #ring: Ring;
  readonly #sampleCount: number;
  #pending: Asked | null = null;
  #hot: Asked | null = null;
  /** the last tick that was asked for; ticks only go up */
  #last = -1;

  constructor(ring: Ring, sampleCount: number) {
    this.#ring = ring;
    this.#sampleCount = sampleCount;
  }

  get hot(): Asked | null {
    return this.#hot;
  }
  get pending(): Asked | null {
    return this.#pending;
  }
  get lastTick(): number {
    return this.#last;
  }

  /** Sample count first, then the tick: every method that takes both. */
  check(tickId: number, sampleCount: number): void {
    checkCount('sampleCount', sampleCount, 1);
    if (sampleCount !== this.#sampleCount) {
      throw rangeError(`sampleCount ${sampleCount} differs from the pipeline's ${this.#sampleCount}`);
    }
    checkCount('tickId', tickId, 0);
  }

  /** True when this began the tick; false when it is pending or prepared already. */
  start(tickId: number, leastPtr: number): boolean {
    if (this.#pending?.tick === tickId) return false;
    if (this.#pending) {
      throw stateError(
        'TICK',
        `tick ${tickId} cannot start while tick ${this.#pending.tick} is pending: sample that one first`,
      );
    }
    if (this.#hot?.tick === tickId)
      throw stateError('TICK', `tick ${tickId} is hot already: sample it, or go on to a later tick`);
    if (tickId <= this.#last)
      throw stateError('TICK', `tick ${tickId} is over (the last one was ${this.#last}): ticks only go up`);
    const ring = this.#ring;
    const slot = ring.place(SlotState.Free);
    const sequence = ring.next;
    ring.run[Run.tick] = tickId;
    ring.run[Run.rows] = this.#sampleCount;
    ring.run[Run.leastPtr] = leastPtr;
    this.#pending = { tick: tickId, slot, sequence };
    this.#last = tickId;
    ring.ask(sequence + 1);
    return true;
  }

  ready(asked: Asked): boolean {
    return this.#ring.state(asked.slot) === SlotState.Ready && this.#ring.sequence(asked.slot) === asked.sequence;
  }

  batchReady(tickId: number): boolean {
    if (this.#hot?.tick === tickId) return true;
    return this.#pending?.tick === tickId && this.ready(this.#pending);
  }

  /** The pending tick, whose rows have arrived, becomes the hot one. */
  heat(): Asked {
    const hot = this.#pending as Asked;
    this.#hot = hot;
    this.#pending = null;
    return hot;
  }

  /** The hot slot was given on to poll. */
  spend(): void {
    this.#hot = null;
  }

  /** After an autonomous run: its ticks are over. */
  skipTo(lastTick: number): void {
    this.#last = Math.max(this.#last, lastTick);
  }
}
