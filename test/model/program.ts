/**
 * An agent's program: a list of steps, each at most one access to shared memory, taken in any
 * interleaving.
 */
import type { State } from './checker.ts';
import { BELL, Local, PLACE } from './memory.ts';

/** What a step that cannot run now returns; it must then have changed nothing. */
export const BLOCKED = -1;
/** How a thread sleeps (the bell's flag); 0 is awake. */
export type Sleep = 1 | 2;
export const JAVASCRIPT = 1;
export const NATIVE = 2;

/**
 * How finely threads are modelled. `access`: every load and store is a step. `hand-over`: a role's
 * work on a slot, from the look that finds it to the rings that follow its store, is one step
 * (unless a death cuts it short), and so is putting the flag up, comparing and sleeping.
 *
 * The coarse grain misses nothing. What a role does to its own slot commutes with everything others
 * do, up to its store. And whatever the order of a handshake's accesses, a ring comes before the
 * owner reads its bell, and then the owner's look sees what was published, or the compare fails, or
 * it finds the flag up; the fine grain shows that. All that the finer orders add is wakes that come
 * later or for nothing, and a thread that goes one round for nothing, or sleeps a little longer,
 * changes as much as one that is slow to look.
 */
export type Grain = 'access' | 'hand-over';

export interface Label {
  at: number;
}

interface Step {
  says: string;
  /** returns the next step, or BLOCKED */
  run: (state: State, next: number) => number;
  /** goes together with the step before it */
  local?: boolean;
  /** set on the step a sleeper stands on */
  asleep?: Sleep;
  /** the owner has read its count and will still compare it */
  watching: boolean;
  end: boolean;
}

export class Program {
  readonly name: string;
  readonly agent: number;
  readonly grain: Grain;
  readonly steps: Step[] = [];
  /** where a successor begins */
  readonly restart: Label = { at: -1 };
  /** steps emitted now are between reading the bell and comparing it */
  watching = false;
  /** the next step emitted reads the bell as well */
  reading = false;

  constructor(name: string, agent: number, grain: Grain) {
    this.name = name;
    this.agent = agent;
    this.grain = grain;
  }

  step(says: string, run: Step['run'], more: Omit<Partial<Step>, 'says' | 'run'> = {}): void {
    this.steps.push({ says, run, watching: this.watching, end: false, ...more });
    this.watching ||= this.reading;
    if (!this.reading) return;
    this.reading = false;
    const bell = BELL + this.agent;
    this.steps.at(-1)!.run = (state, next) => {
      state[bell] = state[bell]! & ~Local.moved;
      return run(state, next);
    };
  }

  goto(label: Label): void {
    this.step('', () => label.at, { local: true });
  }

  place(label: Label): void {
    label.at = this.steps.length;
  }

  end(): void {
    this.watching = false;
    this.step('ends', () => BLOCKED, { end: true });
  }

  current(state: State): Step {
    return this.steps[state[PLACE + this.agent]!]!;
  }

  advance(state: State): boolean {
    const at = state[PLACE + this.agent]!;
    const next = this.steps[at]!.run(state, at + 1);
    if (next === BLOCKED) return false;
    this.moveTo(state, next);
    return true;
  }

  moveTo(state: State, step: number): void {
    let next = step;
    while (this.steps[next]!.local) next = this.steps[next]!.run(state, next + 1);
    state[PLACE + this.agent] = next;
  }
}
