/**
 * One role's part of a slot's life: it looks at the next slot's word, works, and stores the next
 * state. A look that finds the role's own state runs in one step with the first payload access,
 * because no other role may change either. A death between the two leaves the same state as a death
 * before both.
 */
import { markDone } from './bell.ts';
import type { State } from './checker.ts';
import { handOn, isAt, position, Slot, type SlotState } from './memory.ts';
import type { Label, Program } from './program.ts';
import type { Setup } from './setup.ts';

export type Act = (state: State, sequence: number) => void;

export const NONE: Act = () => {};

/** The steps of one hand-over. */
export class Stage {
  readonly by: Program;
  readonly depth: number;
  readonly from: SlotState;
  readonly none: Label = { at: 0 };
  readonly youngest: boolean;

  constructor(by: Program, setup: Setup, from: SlotState) {
    this.by = by;
    this.depth = setup.depth;
    this.from = from;
    this.youngest =
      setup.broken === 'replay launches the newest Ready slot first' && from === Slot.ready;
  }

  /**
   * Returns the role's current sequence. Only this role can change it, so reading it from the words
   * at each step equals a local.
   */
  sequence(state: State): number {
    const lowest = position(state, this.depth, this.from);
    const last = lowest + this.depth - 1;
    return this.youngest && isAt(state, this.depth, last, this.from) ? last : lowest;
  }

  /**
   * Emits the look at the next slot's word. `may` decides whether the role can already work on a
   * slot in its state. `first` is the first payload access. `otherwise` runs if the role cannot
   * work on the slot yet.
   */
  look(
    says: string,
    first: Act,
    may: (state: State, sequence: number) => boolean = () => true,
    otherwise = NONE,
  ): void {
    this.by.step(`looks for a slot and ${says}`, (state, next) => {
      const sequence = this.sequence(state);
      if (!isAt(state, this.depth, sequence, this.from)) return this.none.at;
      if (may(state, sequence)) {
        first(state, sequence);
        return next;
      }
      otherwise(state, sequence);
      return this.none.at;
    });
  }

  /** Emits a further payload access. */
  also(says: string, act: Act): void {
    const run = (state: State, next: number): number => {
      act(state, this.sequence(state));
      return next;
    };
    this.by.step(says, run, { local: this.by.grain === 'hand-over' });
  }

  /**
   * Emits the store of the next state. `late` writes payload after the store, which only mutations
   * do.
   */
  store(says: string, late?: Act): void {
    this.by.step(
      `stores ${says}`,
      (state, next) => {
        handOn(state, this.depth, this.sequence(state), this.from);
        if (!late) markDone(state, this.by.agent);
        return next;
      },
      { local: this.by.grain === 'hand-over' },
    );
    if (!late) return;
    this.by.step(`does too late what ${says} stands for`, (state, next) => {
      late(state, position(state, this.depth, this.from) - 1);
      markDone(state, this.by.agent);
      return next;
    });
  }

  end(): void {
    this.by.place(this.none);
  }
}
