/**
 * Pack's thread, which owns the tree and runs the requester: actors/requester.ts, actors/pack.ts,
 * native/pack/binding.cpp.
 */
import { checkStop, markDone, park, readBell } from './bell.ts';
import type { State } from './checker.ts';
import { BELL, handOn, isAt, Local, position, Slot } from './memory.ts';
import { JAVASCRIPT, type Label, type Program } from './program.ts';
import type { UpdatesMutation, UpdatesSetup } from './updates.ts';
import * as memory from './updates-memory.ts';
import { APPLIED, HALF, MODE, Mode, RECORD, type Rings, RUN, step } from './updates-memory.ts';

export class PackThread {
  readonly #by: Program;
  readonly #setup: UpdatesSetup;
  readonly #ring: Rings;
  readonly #others: readonly Program[];

  /** `others` are the thread that submits, and the client. */
  constructor(by: Program, setup: UpdatesSetup, ring: Rings, others: readonly [Program, Program]) {
    this.#by = by;
    this.#setup = setup;
    this.#ring = ring;
    this.#others = others;
    const [loop, again, end] = [{ at: 0 }, { at: 0 }, { at: 0 }];
    by.place(loop);
    readBell(by);
    checkStop(by, end);
    this.#requester();
    this.#pack();
    const bell = BELL + by.agent;
    this.#jump((state) => (state[bell]! & Local.did) !== 0, again);
    park(by, JAVASCRIPT);
    by.goto(loop);
    by.place(again);
    this.#local((state) => {
      state[bell]! &= ~Local.did;
    });
    by.goto(loop);
    by.place(end);
    by.end();
    by.place(by.restart);
    this.#step('takes up the role', (state) => {
      state[HALF] = 0;
      if (!this.#broken('a successor derives the applied count from the slots')) return;
      state[APPLIED] = Math.max(0, position(state, setup.depth, Slot.requested) - setup.depth);
    });
    for (const other of others) ring(other);
    by.goto(loop);
  }

  #broken(how: UpdatesMutation): boolean {
    return this.#setup.broken === how;
  }
  #step(says: string, act: (state: State) => void): void {
    step(this.#by, says, act);
  }
  #local(act: (state: State) => void): void {
    const run = (state: State, next: number): number => {
      act(state);
      return next;
    };
    this.#by.step('', run, { local: true });
  }
  #jump(when: (state: State) => boolean, to: Label): void {
    this.#by.step('', (state, next) => (when(state) ? to.at : next), { local: true });
  }

  #requester(): void {
    const by = this.#by;
    const { depth, ticks } = this.#setup;
    const [paused, over] = [{ at: 0 }, { at: 0 }];
    by.step('looks at the mode', (state, next) => {
      if (state[MODE] === Mode.paused) return paused.at;
      const sequence = position(state, depth, Slot.free);
      const asked = state[MODE] === Mode.run && sequence < ticks[state[RUN]! - 1]!;
      if (!asked || !isAt(state, depth, sequence, Slot.free)) return over.at;
      state[RECORD + (sequence % depth)] = state[RUN]!;
      return next;
    });
    this.#step('stores Requested', (state) => {
      handOn(state, depth, position(state, depth, Slot.free), Slot.free);
      markDone(state, by.agent);
    });
    by.goto(over);
    by.place(paused);
    if (this.#broken('the requester takes back a request during its batch')) this.#takeBack();
    by.step('answers the pause', (state, next) => {
      if (state[memory.ANSWERED]) return over.at;
      state[memory.ANSWERED] = 1;
      return next;
    });
    this.#ring(this.#others[1]!);
    by.place(over);
  }

  #pack(): void {
    const by = this.#by;
    const { depth } = this.#setup;
    const [none, apply, rest, empty, taken] = [
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
    ];
    const sequence = (state: State) => position(state, depth, Slot.requested);
    by.step('looks for a request', (state) => {
      if (!isAt(state, depth, sequence(state), Slot.requested)) return none.at;
      return state[HALF] ? rest.at : apply.at;
    });
    by.place(apply);
    const late = this.#broken('pack applies the update after the draw');
    if (!late) this.#apply();
    by.step('draws, and makes half of the batch', (state, next) => {
      if (!state[memory.FILLED]) return empty.at;
      memory.draw(state, this.#setup, sequence(state));
      state[HALF] = state[RECORD + (sequence(state) % depth)]!;
      return next;
    });
    if (late) this.#apply();
    this.#local((state) => markDone(state, by.agent));
    by.goto(none);

    by.place(rest);
    by.step('makes the rest, priorities not written', (state, next) => {
      const slot = sequence(state) % depth;
      memory.checkHalf(state, depth, sequence(state));
      state[HALF] = 0;
      // The drawn steps were cleared, and no other step can be drawn.
      if (!state[memory.FILLED]) return empty.at;
      if (!this.#broken('pack does not reset the priorities of the slot'))
        state[memory.COLUMN + slot] = memory.unwritten(sequence(state));
      return next;
    });
    this.#step('stores Packed', (state) => {
      handOn(state, depth, sequence(state), Slot.requested);
      markDone(state, by.agent);
    });
    this.#ring(this.#others[0]!);
    by.goto(none);

    by.place(empty);
    by.step('looks whether the run is paused', (state, next) => {
      return state[MODE] === Mode.paused || this.#broken('pack takes back a request during the run')
        ? next
        : taken.at;
    });
    if (!this.#broken('the client takes back the requests of pack')) this.#takeBack();
    by.place(taken);
    by.place(none);
  }

  /** Emits one native call: it applies the update, and records that it is applied. */
  #apply(): void {
    const { depth } = this.#setup;
    const early = this.#broken('pack applies an update one sequence early') ? 1 : 0;
    const due = (state: State) => position(state, depth, Slot.requested) - depth + early;
    const says = 'applies the update that is due';
    const apart = this.#broken('pack records an applied update by a later store')
      ? 1
      : this.#broken('pack records an applied update by an earlier store')
        ? -1
        : 0;
    const update = (state: State) => {
      memory.apply(state, this.#setup, due(state));
      if (apart === 0) state[APPLIED] = due(state) + 1;
    };
    const over = { at: 0 };
    this.#by.step(`${apart < 0 ? 'records' : says}`, (state, next) => {
      if (due(state) < state[APPLIED]!) return over.at;
      if (apart < 0) state[APPLIED] = due(state) + 1;
      else update(state);
      return next;
    });
    if (apart < 0) this.#step(says, update);
    if (apart > 0) this.#step('records', (state) => (state[APPLIED] = due(state) + 1));
    this.#by.place(over);
  }

  /**
   * Takes requests back, from the newest to the oldest. The client waits until every slot is Free.
   */
  #takeBack(): void {
    const by = this.#by;
    const { depth } = this.#setup;
    const [loop, over] = [{ at: 0 }, { at: 0 }];
    const oldest = this.#broken('pack takes back the oldest request first');
    const onwards = this.#broken('pack takes back a request to the next sequence') ? depth : 0;
    by.place(loop);
    by.step('takes a request back', (state, next) => {
      const last = oldest ? memory.oldest(state, depth) : memory.newest(state, depth);
      if (last < 0) return over.at;
      memory.takeBack(state, depth, last, last + onwards);
      markDone(state, by.agent);
      return next;
    });
    if (!this.#broken('pack does not ring the client after it takes back a request'))
      this.#ring(this.#others[1]!);
    by.goto(loop);
    by.place(over);
  }
}
