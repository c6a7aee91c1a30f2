/**
 * A pipeline that stands still between two ticks: nothing is under way on the device, and nobody asks for more until it is let go.
 * Ticks that were begun are ended first; a manual tick whose batch is ready and not yet taken stays as it is.
 */
import { stateError } from '../../base/errors.ts';
import { orAborted, type WaitOptions } from '../../shm/wait.ts';
import { Pause } from '../ring/header.ts';
import { SlotState } from '../ring/slot.ts';
import type { ManualTicks } from './manual.ts';
import type { PipelineParts } from './parts.ts';

/** What run() and who wants it to stand still tell each other; both in the opener's thread. */
export class Hold {
  /** it stands still */
  held = false;
  #reached: ((held: boolean) => void) | null = null;

  /** Somebody waits for it to stand still. */
  get wanted(): boolean {
    return this.#reached !== null;
  }
  /** Resolves when the run stands still, with true, or when it is over, with false. `wake` makes it look. */
  reach(wake: () => void): Promise<boolean> {
    return new Promise((resolve) => {
      this.#reached = resolve;
      wake();
    });
  }
  /** The run's: it stands, or is over. */
  tell(held: boolean): void {
    this.held = held;
    this.#reached?.(held);
    this.#reached = null;
  }
}

export interface StandstillOptions {
  /** whose end ends the wait for a batch that is in the caller's hands; null: there is no such wait */
  patient: AbortSignal | null;
  others?: () => Promise<void>;
}

export class Standstill {
  readonly hold = new Hold();
  #running = false;
  readonly #parts: PipelineParts;
  readonly #manual: ManualTicks;
  /** those who want it, one after the other */
  #turn: Promise<unknown> = Promise.resolve();
  #standing = false;
  /** saves that asked the run to stand still and have not said that it may go on */
  #asking = 0;

  constructor(parts: PipelineParts, manual: ManualTicks) {
    this.#parts = parts;
    this.#manual = manual;
  }

  /** run() is under way: it looks whether somebody wants it to stand still, until it says that it is over and all is told. */
  get running(): boolean {
    return this.#running;
  }
  begin(): void {
    this.#running = true;
  }
  over(): void {
    this.#running = false;
    if (this.hold.wanted) this.hold.tell(false);
  }

  /** It stands still, or is about to: what begins a tick waits. */
  get standing(): boolean {
    return this.#standing;
  }
  /** Resolves when it does not, or the caller holds a batch already; false when the time is over first. */
  async passed(wait: WaitOptions): Promise<boolean> {
    const free = () => !this.standing || this.#manual.hot !== null;
    return free() || this.#parts.until(free, wait);
  }
  /** For callers that block. */
  refuse(): void {
    if (this.standing && this.#manual.hot === null)
      throw stateError('BUSY', 'the pipeline is being saved: await that first');
  }

  /** Throws ERR_HOTSLOT_STATE_TICK while a batch is in the caller's hands: who awaits a save then could not come to afterTick(). */
  checkCold(): void {
    const { hot } = this.#manual;
    if (hot) throw stateError('TICK', `tick ${hot.tick} is hot: save between afterTick() and the next sample`);
  }

  /**
   * Pauses the run's requests before it returns (I9); the function that it returns lets them go on, unless somebody else asked too.
   * Twice is fine.
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
    if (this.#running && !header.isPaused(Pause.hold)) header.pause(Pause.hold);
  }

  /**
   * Does `work` between two ticks. `patient`: where a batch is in the caller's hands this waits for its afterTick(), until the signal
   * ends the wait with its reason; otherwise it throws as checkCold() does.
   * `others` stops those that add rows: not before a tick that waits for some has them, and no other begins behind it.
   */
  use<T>(work: () => Promise<T>, options: StandstillOptions): Promise<T> {
    const before = this.#turn;
    const release = this.ask();
    const mine = orAborted(before, options.patient ?? undefined)
      .then(() => this.#use(work, options))
      .finally(release);
    // Without what came of it: each would hold all those before, and the whole of what each has saved.
    this.#turn = Promise.allSettled([before, mine]).then(() => {});
    return mine;
  }

  async #use<T>(work: () => Promise<T>, { patient, others }: StandstillOptions): Promise<T> {
    if (patient === null) this.checkCold();
    const signal = patient ?? undefined;
    this.#standing = true;
    try {
      if (others) {
        await this.#parts.until(() => this.#running || !this.#waits, { signal });
        this.#manual.hold();
        await others();
      }
      await this.#stop(signal);
      this.#manual.hold();
      return await work();
    } finally {
      this.#manual.letGo();
      if (this.hold.held || this.hold.wanted) this.hold.tell(false);
      this.#standing = false;
      this.#wake();
    }
  }

  async #stop(signal: AbortSignal | undefined): Promise<void> {
    const { ring } = this.#parts;
    for (;;) {
      this.#parts.checkRunning();
      if (this.#running) {
        // A run that began after this was asked for.
        this.#pause();
        if (
          await orAborted(
            this.hold.reach(() => this.#wake()),
            signal,
          )
        )
          return;
      } else {
        // Poll rings when everything that was asked for is over.
        ring.header.setGoal(ring.next);
        try {
          await this.#parts.until(() => this.#running || this.#quiet, { signal });
        } finally {
          if (!this.#running) ring.header.setGoal(null);
        }
        if (!this.#running) return;
      }
    }
  }

  /** A manual tick was asked for and has no batch yet. One whose request is held back is none: it waits for this. */
  get #waits(): boolean {
    const { asked } = this.#manual;
    return asked !== null && !this.#manual.ready(asked);
  }

  /** Nothing is under way but a manual tick that waits for its caller. */
  get #quiet(): boolean {
    const { hot, asked } = this.#manual;
    if (hot || this.#waits) return false;
    const { ring } = this.#parts;
    for (let slot = 0; slot < ring.depth; slot++)
      if (slot !== asked?.slot && ring.state(slot) !== SlotState.Free) return false;
    return true;
  }

  #wake(): void {
    this.#parts.ring.bells.client.ring();
  }
}
