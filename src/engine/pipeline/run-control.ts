/**
 * The state of a pipeline's run, and the saves that pause the run. Only the opener's thread uses
 * this state. Actors do not know it: they read the two pause bits of the header, which any thread
 * may set (Slot-9 in src/engine/ring/slot.ts).
 */
import { stateError } from '../../base/errors.ts';
import { Ending } from '../../shm/ending.ts';
import { orAborted, type WaitOptions } from '../../shm/wait.ts';
import { Pause } from '../ring/header.ts';
import { SlotState } from '../ring/slot.ts';
import type { ManualTicks } from './manual.ts';
import type { PipelineRuntime } from './runtime.ts';

/**
 * - `over`: no run is active, and ticks are manual.
 * - `running`: actors request ticks.
 * - `quiescing`: a save has set the hold bit. Ticks that are already requested are completed.
 * - `held`: every slot is Free, requester and replay have paused, and the save reads the pipeline.
 * - `ending`: the end bit is set, and stays set until `over`. Ticks that are already requested are
 *   completed.
 */
export type RunState = 'over' | 'running' | 'quiescing' | 'held' | 'ending';

/** The conditions that end a run. */
export interface RunEnd {
  /** sequence of the run's first tick */
  readonly first: number;
  readonly ticks: number;
  /** returns true if a listener threw */
  failed(): boolean;
  /**
   * called each time the opener wakes while the run ends. After a time limit, it ends the wait for
   * other learners of the group
   */
  leaveLate(): void;
}

export interface SaveOptions {
  /**
   * signal that aborts the save's wait for the caller to release a hot batch. Null if the save
   * throws instead of waiting
   */
  patient: AbortSignal | null;
  others?: () => Promise<void>;
}

export class RunControl {
  readonly #parts: PipelineRuntime;
  readonly #manual: ManualTicks;
  /** state of the run. begin(), advance(), over() and the end of a save change it */
  #state: RunState = 'over';
  /** the save whose turn it is, and whether it waits for the state `held`. Null without a save */
  #save: { waits: boolean } | null = null;
  /** resolves after all earlier saves have ended, because saves run one after the other */
  #turn: Promise<unknown> = Promise.resolve();
  /** number of saves that have set the hold bit and not released it */
  #asking = 0;

  constructor(parts: PipelineRuntime, manual: ManualTicks) {
    this.#parts = parts;
    this.#manual = manual;
  }

  get state(): RunState {
    return this.#state;
  }
  /** True from the call of run() until its summary is returned. */
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
   * Makes the state transition that the shared words require, each time the opener wakes during a
   * run. Returns true when the run is over.
   */
  advance(run: RunEnd): boolean {
    // In `held`, the save reads the pipeline. Words that change meanwhile are handled after the
    // save.
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
   * Returns true if requester and replay have paused, and every slot is Free or contains a tick
   * that is taken back.
   */
  #isQuiescent(): boolean {
    const { ring } = this.#parts;
    const { header } = ring;
    // Poll rings the client when all requested ticks are over.
    header.setGoal(ring.next);
    // The acknowledgements are read before the slots. If the requester handed over a request before
    // it acknowledged, a slot is not Free.
    const answered = header.paused;
    if (!ring.settled) return false;
    // The acknowledgements are read again after the slots. If replay acknowledged too early, it
    // withdrew its acknowledgement before it launched a slot. That slot may be over by now.
    if (answered && header.paused) return true;
    // Replay acknowledges only after it wakes and finds no tick under way, so the client rings it.
    ring.bells.of('replay').ring();
    return false;
  }

  /** True while a save has its turn. Calls that begin a tick wait for its end. */
  get standing(): boolean {
    return this.#save !== null;
  }
  /**
   * Resolves with true when no save has its turn or the caller has a hot batch. Resolves with false
   * if the timeout passes first.
   */
  async passed(wait: WaitOptions): Promise<boolean> {
    const free = () => !this.standing || this.#manual.hot !== null;
    return free() || this.#parts.until(free, wait);
  }
  /**
   * Throws during a save, unless a batch is hot. Blocking calls use it, because they cannot wait
   * for a save.
   */
  refuse(): void {
    if (this.standing && this.#manual.hot === null)
      throw stateError('BUSY', 'a checkpoint is being saved; await save() first');
  }

  /**
   * Throws ERR_HOTSLOT_STATE_TICK while a batch is hot. A caller that awaits a save then could not
   * reach afterTick().
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
   * Begins a save's pause. If a run is active, the hold bit is set before ask() returns (Slot-9).
   * Returns a function that clears the bit, unless other saves still need it. That function is
   * idempotent.
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
   * Runs `work` between two ticks. If a batch is hot, use() waits for its afterTick() until the
   * signal `patient` aborts, and then rejects with the signal's reason. If `patient` is null, use()
   * rejects as checkCold() throws.
   *
   * `others` stops the threads that add rows. If a requested tick waits for rows, use() first waits
   * until the tick has its rows, and then calls `others`. No other tick begins after that call.
   */
  use<T>(work: () => Promise<T>, options: SaveOptions): Promise<T> {
    const before = this.#turn;
    const release = this.ask();
    const mine = orAborted(before, options.patient ?? undefined)
      .then(() => this.#use(work, options))
      .finally(release);
    // `#turn` resolves without the results of the saves. Otherwise each promise would reference the
    // results of all earlier saves.
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
      // From here on no run begins. A run that is under way may end before it reaches the state
      // `held`. The save then uses the pipeline as between manual ticks.
      if (!(this.running && (await this.#runHeld(signal)))) await this.#manualHeld(signal);
      return await work();
    } finally {
      this.#manual.letGo();
      this.#save = null;
      // The run's next advance() finds the hold bit cleared, or set by another save.
      if (this.#state === 'held') this.#state = 'quiescing';
      this.#wake();
    }
  }

  /** Waits until the run is held. Returns false if the run ends instead. */
  async #runHeld(signal: AbortSignal | undefined): Promise<boolean> {
    // A run that began after ask() does not have the hold bit yet.
    this.#pause();
    this.#wake();
    await this.#parts.until(() => this.#state === 'held' || !this.running, { signal });
    return this.#state === 'held';
  }

  async #manualHeld(signal: AbortSignal | undefined): Promise<void> {
    const { ring } = this.#parts;
    // Poll rings the client when all requested ticks are over.
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
   * True if a manual tick was requested and its batch is not ready. A tick whose request is held
   * back does not count, because it waits for the save.
   */
  get #waits(): boolean {
    const { requested } = this.#manual;
    return requested !== null && !this.#manual.ready(requested);
  }

  /** True if no tick is under way, except a manual tick that is ready and not sampled. */
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
