/**
 * A pipeline that stands still between two ticks: nothing is under way on the device, and nobody asks for more until it is let go.
 * Ticks that were begun are ended first; a manual tick whose batch is ready and not yet taken stays as it is.
 */
import { stateError } from '../errors.ts';
import { SlotState } from '../ring/slot.ts';
import type { WaitOptions } from '../wait/wait.ts';
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

export class Standstill {
  readonly hold = new Hold();
  #running = false;
  readonly #parts: PipelineParts;
  readonly #manual: ManualTicks;
  /** those who want it, one after the other */
  #turn: Promise<unknown> = Promise.resolve();
  #standing = false;

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

  /**
   * Does `work` between two ticks. `patient`: where a batch is in the caller's hands this waits for its afterTick(); otherwise it
   * throws ERR_HOTSLOT_STATE_TICK, because a caller that awaits this could not come to that call.
   * `others` stops those that add rows: not before a tick that waits for some has them, and no other begins behind it.
   */
  use<T>(work: () => Promise<T>, options: { patient: boolean; others?: () => Promise<void> }): Promise<T> {
    const mine = this.#turn.then(() => this.#use(work, options));
    this.#turn = mine.catch(() => {});
    return mine;
  }

  async #use<T>(
    work: () => Promise<T>,
    { patient, others }: { patient: boolean; others?: () => Promise<void> },
  ): Promise<T> {
    const { hot } = this.#manual;
    if (hot && !patient)
      throw stateError('TICK', `tick ${hot.tick} is hot: save between afterTick() and the next sample`);
    this.#standing = true;
    try {
      if (others) {
        await this.#parts.until(() => this.#running || !this.#waits);
        this.#manual.hold();
        await others();
      }
      await this.#stop();
      this.#manual.hold();
      return await work();
    } finally {
      this.#manual.letGo();
      if (this.hold.held) this.hold.tell(false);
      this.#standing = false;
      this.#wake();
    }
  }

  async #stop(): Promise<void> {
    const { ring } = this.#parts;
    for (;;) {
      this.#parts.checkRunning();
      if (this.#running) {
        if (await this.hold.reach(() => this.#wake())) return;
      } else {
        // Poll rings when everything that was asked for is over.
        ring.header.setGoal(ring.next);
        await this.#parts.until(() => this.#running || this.#quiet);
        if (!this.#running) return ring.header.setGoal(null);
      }
    }
  }

  /** A manual tick was asked for and has no batch yet. */
  get #waits(): boolean {
    const { pending } = this.#manual;
    return pending !== null && !this.#manual.ready(pending);
  }

  /** Nothing is under way but a manual tick that waits for its caller. */
  get #quiet(): boolean {
    const { hot, pending } = this.#manual;
    if (hot || this.#waits) return false;
    const { ring } = this.#parts;
    for (let slot = 0; slot < ring.depth; slot++)
      if (slot !== pending?.slot && ring.state(slot) !== SlotState.Free) return false;
    return true;
  }

  #wake(): void {
    this.#parts.ring.bells.client.ring();
  }
}
