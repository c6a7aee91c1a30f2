/**
 * Whether a pipeline makes ticks: the state of its run, and the saves that pause it. In the
 * opener's thread alone. The actors do not know the state: they read the two pause bits of the
 * header, which any thread may set (Slot-9 in src/engine/ring/slot.ts).
 */
import { stateError } from '../../base/errors.ts';
import { Ending } from '../../shm/ending.ts';
import { orAborted, type WaitOptions } from '../../shm/wait.ts';
import { Pause } from '../ring/header.ts';
import { SlotState } from '../ring/slot.ts';
import type { ManualTicks } from './manual.ts';
import type { PipelineRuntime } from './runtime.ts';

/**
 * - `over`: no run goes on, ticks are manual.
 * - `running`: actors request ticks.
 * - `quiescing`: a save set the hold bit. Requested ticks are completed.
 * - `held`: every slot is Free, both actors that start work have paused, and the save reads the
 *   pipeline.
 * - `ending`: the end bit is set, which nothing clears before `over`. Requested ticks are
 *   completed.
 */
export type RunState = 'over' | 'running' | 'quiescing' | 'held' | 'ending';

/** The facts by which a run ends. */
export interface RunEnd {
  /** sequence of its first tick */
  readonly first: number;
  readonly ticks: number;
  /** a listener threw */
  failed(): boolean;
  /** called while the run ends: stops its wait for a learner group that does not come */
  leaveLate(): void;
}

export interface SaveOptions {
  /**
   * signal that ends the wait for a batch in the caller's hands, or null if the save does not wait
   * for it
   */
  patient: AbortSignal | null;
  others?: () => Promise<void>;
}

export class RunControl {
  readonly #parts: PipelineRuntime;
  readonly #manual: ManualTicks;
  /** changed by the run's look(), by its begin and end, and by a save that ends */
  #state: RunState = 'over';
  /** the save whose turn it is, and whether it waits for `held` */
  #save: { waits: boolean } | null = null;
  /** the saves before, one after the other */
  #turn: Promise<unknown> = Promise.resolve();
  /** saves that set the hold bit and have not released it */
  #asking = 0;

  constructor(parts: PipelineRuntime, manual: ManualTicks) {
    this.#parts = parts;
    this.#manual = manual;
  }

  get state(): RunState {
    return this.#state;
  }
  /** run() was called and has not returned its summary. */
  get running(): boolean {
    return this.#state !== 'over';
  }
  begin(): void {
    this.#state = 'running';
  }
  over(): void {
    this.#state = 'over';
    this.#wake();
  }

  /**
   * One step of the run's wait, whenever the opener is rung: makes the transition that the shared
   * words ask for. True when the run is over.
   */
  advance(run: RunEnd): boolean {
    // The save reads the pipeline. Words that were stored meanwhile are looked at after it.
    if (this.#state === 'held') return false;
    const { ring } = this.#parts;
    const { header } = ring;
    if (!header.isPaused(Pause.end)) {
      const through = ring.finished - run.first >= run.ticks;
      if (through || run.failed()) {
        header.end(through ? Ending.ticks : Ending.stopped);
        this.#parts.step();
      }
    }
    const before = this.#state;
    this.#state = header.isPaused(Pause.end)
      ? 'ending'
      : header.isPaused(Pause.hold)
        ? 'quiescing'
        : 'running';
    if (this.#state === 'running') {
      if (before === 'quiescing') ring.aimAt(run.first + run.ticks);
      return false;
    }
    if (this.#state === 'ending') run.leaveLate();
    if (!this.#isQuiescent()) return false;
    if (this.#state === 'ending') return true;
    if (this.#save?.waits) {
      this.#state = 'held';
      this.#wake();
    }
    return false;
  }

  /**
   * Whether requester and replay have paused, and every slot is Free or holds a tick that is given
   * back.
   */
  #isQuiescent(): boolean {
    const { ring } = this.#parts;
    const { header } = ring;
    // Poll rings when the last of what was requested is over.
    header.setGoal(ring.next);
    // The answers first: a request handed over before the requester's answer shows as a slot that
    // is not Free.
    const answered = header.paused;
    if (!ring.settled) return false;
    // And once more afterwards: replay takes an early answer back before it takes up graphs for a
    // slot that is over by now.
    if (answered && header.paused) return true;
    // Replay answers once nothing is under way, and only the client reads the answer.
    ring.bells.of('replay').ring();
    return false;
  }

  /** A save has its turn: what begins a tick waits for its end. */
  get standing(): boolean {
    return this.#save !== null;
  }
  /**
   * Resolves when no save has its turn, or the caller holds a batch already. False when the time is
   * over first.
   */
  async passed(wait: WaitOptions): Promise<boolean> {
    const free = () => !this.standing || this.#manual.hot !== null;
    return free() || this.#parts.until(free, wait);
  }
  /** For callers that block: throws during a save, unless a batch is hot. */
  refuse(): void {
    if (this.standing && this.#manual.hot === null)
      throw stateError('BUSY', 'a checkpoint is being saved; await save() first');
  }

  /**
   * Throws ERR_HOTSLOT_STATE_TICK while a batch is in the caller's hands: a caller that awaits a
   * save then could not come to afterTick().
   */
  checkCold(): void {
    const { hot } = this.#manual;
    if (hot)
      throw stateError(
        'TICK',
        `tick ${hot.tick} is on the device; save between afterTick() and the next sample`,
      );
  }

  /**
   * Sets the hold bit of a run before it returns (Slot-9). The function that it returns clears the
   * bit, unless another save set it too. Twice is fine.
   */
  ask(): () => void {
    this.#asking++;
    this.#pause();
    let asks = true;
    return () => {
      if (!asks) return;
      asks = false;
      if (--this.#asking === 0) this.#parts.ring.header.release();
    };
  }
  #pause(): void {
    const { header } = this.#parts.ring;
    if (this.running && !header.isPaused(Pause.hold)) header.pause(Pause.hold);
  }

  /**
   * Does `work` between two ticks. `patient`: if a batch is in the caller's hands this waits for
   * its afterTick(), until the signal ends the wait with its reason. If `patient` is null it throws
   * as checkCold() does. `others` stops those that add rows. It is called once a tick that waits
   * for rows has them, and no other tick begins after it.
   */
  use<T>(work: () => Promise<T>, options: SaveOptions): Promise<T> {
    const before = this.#turn;
    const release = this.ask();
    const mine = orAborted(before, options.patient ?? undefined)
      .then(() => this.#use(work, options))
      .finally(release);
    // Without its result: each would hold the results of all those before.
    this.#turn = Promise.allSettled([before, mine]).then(() => {});
    return mine;
  }

  async #use<T>(work: () => Promise<T>, { patient, others }: SaveOptions): Promise<T> {
    if (patient === null) this.checkCold();
    const signal = patient ?? undefined;
    this.#save = { waits: false };
    try {
      if (others) {
        await this.#parts.until(() => this.running || !this.#waits, { signal });
        this.#manual.hold();
        await others();
      }
      this.#save.waits = true;
      // No run begins from here on, and one that is under way may end first.
      if (!(this.running && (await this.#runHeld(signal)))) await this.#manualHeld(signal);
      return await work();
    } finally {
      this.#manual.letGo();
      this.#save = null;
      // The run's next look finds the hold bit cleared, or set by another save.
      if (this.#state === 'held') this.#state = 'quiescing';
      this.#wake();
    }
  }

  /** Returns false if the run is over instead. */
  async #runHeld(signal: AbortSignal | undefined): Promise<boolean> {
    // A run that began after ask() has no hold bit yet.
    this.#pause();
    this.#wake();
    await this.#parts.until(() => this.#state === 'held' || !this.running, { signal });
    return this.#state === 'held';
  }

  async #manualHeld(signal: AbortSignal | undefined): Promise<void> {
    const { ring } = this.#parts;
    // Poll rings when everything that was asked for is over.
    ring.header.setGoal(ring.next);
    const held = () => {
      if (!this.#quiet) return false;
      this.#manual.hold();
      return true;
    };
    try {
      await this.#parts.until(held, { signal });
    } finally {
      ring.header.setGoal(null);
    }
  }

  /**
   * A manual tick was asked for and has no batch yet. A tick whose request is held back does not
   * count, because it waits for this.
   */
  get #waits(): boolean {
    const { requested } = this.#manual;
    return requested !== null && !this.#manual.ready(requested);
  }

  /** At most a manual tick that waits for its caller is under way. */
  get #quiet(): boolean {
    const { hot, requested } = this.#manual;
    if (hot || this.#waits) return false;
    const { ring } = this.#parts;
    for (let slot = 0; slot < ring.depth; slot++)
      if (slot !== requested?.slot && ring.state(slot) !== SlotState.Free) return false;
    return true;
  }

  #wake(): void {
    this.#parts.ring.bells.client.ring();
  }
}
