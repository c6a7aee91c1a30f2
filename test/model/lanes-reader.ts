/**
 * A reader's program: it finds the drawable steps (native/rows/drawable.cpp), draws, copies
 * (native/rows/view.cpp), and checks again.
 */
import { type State, Violation } from './checker.ts';
import type { LanesMutation, LanesSetup } from './lanes.ts';
import { Drawable } from './lanes-drawable.ts';
import * as memory from './lanes-memory.ts';
import {
  COUNTER,
  FIRST,
  KEPT,
  LOWEST,
  NOW_FROM,
  NOW_TO,
  ROW,
  SEEN_FROM,
  SEEN_TO,
  STEPS,
  WRONG,
} from './lanes-memory.ts';
import { At, type Life } from './lanes-writer.ts';
import { PLACE } from './memory.ts';
import { BLOCKED, type Label, Program } from './program.ts';

/** bit of STEPS: the last note that the reader read ends its episode */
const ENDS = 128;

export class Reader {
  readonly by = new Program('the reader', 0, 'access');
  /** number of the alternative that a step tries */
  choice = 0;
  /** what the last step found, for traces */
  found = '';
  readonly #choosing = new Set<number>();
  readonly #setup: LanesSetup;
  readonly #lifeOf: (state: State) => Life;
  readonly #list: Drawable;
  readonly #back: number;
  readonly #n: number;

  constructor(setup: LanesSetup, lifeOf: (state: State) => Life) {
    this.#setup = setup;
    this.#lifeOf = lifeOf;
    this.#list = new Drawable(setup, lifeOf);
    this.#back = (setup.frames ?? 1) - 1;
    this.#n = setup.n ?? 1;
    for (let round = 0; round < (setup.rounds ?? 1); round++) this.#sample();
    this.by.step('hears that all writers have ended', (state, next) => {
      memory.join(state);
      return next;
    });
    this.#sync();
    this.by.step('has seen everything', (state, next) => {
      this.#list.checkEnd(state);
      return next;
    });
    this.by.end();
  }

  /**
   * Makes the next step with this choice. Returns false if the step has no such choice or is
   * blocked.
   */
  advance(state: State, choice: number): boolean {
    if (choice > 0 && !this.#choosing.has(state[PLACE]!)) return false;
    this.choice = choice;
    return this.by.advance(state);
  }

  #broken(how: LanesMutation): boolean {
    return this.#setup.broken === how;
  }
  #local(act: (state: State) => void): void {
    this.by.step(
      '',
      (state, next) => {
        act(state);
        return next;
      },
      { local: true },
    );
  }
  #jump(when: (state: State) => boolean, to: Label): void {
    this.by.step('', (state, next) => (when(state) ? to.at : next), { local: true });
  }
  #choose(says: string, run: (state: State) => boolean): void {
    this.#choosing.add(this.by.steps.length);
    this.by.step(says, (state, next) => (run(state) ? next : BLOCKED));
  }
  #load(
    says: string,
    at: (state: State) => number,
    order: memory.Order,
    use: (state: State, value: number) => void,
  ): void {
    this.#choose(says, (state) => {
      const value = memory.load(state, this.#lifeOf(state), at(state), order, this.choice);
      if (value < 0) return false;
      this.found = `${value}`;
      use(state, value);
      return true;
    });
  }

  // ---- what may be read -------------------------------------------------------------------------

  /** `lowest_kept`: stores its result in KEPT. */
  #lowestKept(fenced = !this.#broken('the reader does not fence before it loads `begun`')): void {
    if (fenced) this.#local(memory.fence);
    this.#load(
      'loads begun',
      () => At.begun,
      'acquire',
      (state, begun) => {
        state[KEPT] = Math.max(0, begun - this.#setup.places);
      },
    );
    if ((this.#setup.clears ?? 0) === 0 || this.#broken('the reader ignores the floor')) return;
    this.#choose('loads the floor', (state) => {
      const floor = memory.loadFloor(state, this.choice);
      if (floor < 0) return false;
      this.found = `${floor}`;
      state[KEPT] = Math.max(state[KEPT]!, floor);
      return true;
    });
  }

  /** `span`: stores its result in NOW_FROM and NOW_TO. */
  #span(): void {
    const { places } = this.#setup;
    const relaxed = this.#broken('the reader loads `committed` without acquire order');
    this.#lowestKept();
    this.#load(
      'loads committed',
      () => At.committed,
      relaxed ? 'relaxed' : 'acquire',
      (state, value) => {
        state[NOW_TO] = value;
      },
    );
    this.#local((state) => {
      const to = state[NOW_TO]!;
      if (this.#broken('the reader computes its span from `committed` alone'))
        state[KEPT] = Math.max(0, to - places);
      // Between the two loads the writer may have written further.
      const held = this.#broken('the reader accepts a span longer than the ring') ? 0 : to - places;
      state[NOW_FROM] = Math.min(Math.max(state[KEPT]!, held), to);
      state[KEPT] = 0;
      this.#list.checkSpan(state);
    });
  }

  // ---- what is drawable -------------------------------------------------------------------------

  #sync(): void {
    const [loop, chunk, note, overtaken, done] = [
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
    ];
    const { by } = this;
    const atOnce = this.#setup.atOnce ?? this.#setup.places;
    this.#span();
    this.#jump(
      (state) => state[NOW_TO] === state[SEEN_TO] && state[NOW_FROM] === state[SEEN_FROM],
      done,
    );
    by.place(loop);
    this.#local((state) => this.#list.drop(state));
    by.place(chunk);
    this.#jump((state) => state[SEEN_TO] === state[NOW_TO], done);
    this.#local((state) => {
      state[COUNTER] = state[SEEN_TO]!;
      state[WRONG] = 0;
    });
    const early = this.#broken('the reader copies notes after it loads `begun`');
    if (early) this.#lowestKept();
    by.place(note);
    this.#load('copies a note', (state) => this.#noteOf(state[COUNTER]!), 'relaxed', this.#compare);
    const more = (state: State) =>
      state[COUNTER]! < Math.min(state[SEEN_TO]! + atOnce, state[NOW_TO]!);
    this.#jump(more, note);
    if (!early) this.#lowestKept();
    const last = this.#broken('the reader checks only the last note against `begun`');
    const believed = this.#broken('the reader trusts notes that are overwritten');
    this.#jump(
      (state) => !believed && state[KEPT]! > (last ? state[COUNTER]! - 1 : state[SEEN_TO]!),
      overtaken,
    );
    this.#local((state) => {
      if (state[WRONG])
        throw new Violation('Lanes-4', `a note of ${state[SEEN_TO]} or behind it was overwritten`);
      for (; state[SEEN_TO]! < state[COUNTER]!; state[SEEN_TO]!++)
        this.#list.take(state, state[SEEN_TO]!);
    });
    by.goto(chunk);
    by.place(overtaken);
    this.#span();
    by.goto(loop);
    by.place(done);
    this.#local((state) => {
      state.fill(0, NOW_FROM, ROW);
      this.#list.checkList(state);
    });
  }

  readonly #compare = (state: State, version: number): void => {
    if (version !== this.#lifeOf(state).truth[state[COUNTER]!]) state[WRONG] = 1;
    state[COUNTER]!++;
  };

  #noteOf(place: number): number {
    return At.note + (place % this.#setup.places);
  }

  // ---- a sample ---------------------------------------------------------------------------------

  #sample(): void {
    const { by } = this;
    const [again, draw, notes, bytes, none] = [
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
      { at: 0 },
    ];
    by.place(again);
    this.#sync();
    by.place(draw);
    this.#jump((state) => memory.list(state).length === 0, none);
    this.#choose('draws a step', (state) => {
      const drawn = memory.list(state)[this.choice];
      if (drawn === undefined) return false;
      this.found = `${drawn}`;
      state[ROW] = state[COUNTER] = drawn;
      return true;
    });
    const early = this.#broken('the reader checks `begun` before its copy');
    if (early) this.#lowestKept();
    by.place(notes);
    this.#load(
      'reads a note',
      (state) => this.#noteOf(state[COUNTER]!),
      'relaxed',
      (state, version) => {
        const [place, read] = [state[ROW]!, this.#list.versionOf(state, version)];
        if (state[COUNTER] === place) {
          state[FIRST] = place - Math.min(read.step, this.#back, place);
          state[LOWEST] = this.#broken('the reader checks `begun` for the drawn step only')
            ? place
            : state[FIRST]!;
          state[STEPS] = 0;
        }
        this.#compare(state, version);
        state[STEPS]!++;
        if (read.ends) state[STEPS]! |= ENDS;
      },
    );
    this.#jump((state) => state[STEPS]! < this.#n, notes);
    this.#local((state) => {
      state[STEPS]! &= ~ENDS;
      state[COUNTER] = state[FIRST]!;
    });
    by.place(bytes);
    this.#load(
      'copies a place',
      (state) => At.bytes + (state[COUNTER]! % this.#setup.places),
      'relaxed',
      this.#compare,
    );
    this.#jump((state) => state[COUNTER]! <= state[ROW]! + state[STEPS]!, bytes);
    if (!early && !this.#broken('the reader does not check `begun` after its copy'))
      this.#lowestKept();
    const same = this.#broken('the reader draws again without updating its list');
    const forget = (state: State): void => {
      state.fill(0, NOW_FROM, FIRST + 1);
    };
    const over = { at: 0 };
    this.#jump((state) => state[KEPT]! <= state[LOWEST]!, over);
    this.#local(forget);
    by.goto(same ? draw : again);
    by.place(over);
    this.#local((state) => {
      if (state[WRONG])
        throw new Violation('Lanes-4', `a sample of ${state[ROW]} shows something else`);
      forget(state);
    });
    by.place(none);
  }
}
