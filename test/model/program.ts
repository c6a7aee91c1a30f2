/**
 * An agent's program: a list of steps, each with at most one access to shared memory. The checker
 * interleaves the steps of all agents.
 */
import type { State } from './checker.ts';
import { BELL, Local, PLACE } from './memory.ts';

/** Returned by a step that cannot run now. The step must not have changed anything. */
export const BLOCKED = -1;
/** How a thread sleeps, as the bell's flag says. 0 is awake. */
export type Sleep = 1 | 2;
export const JAVASCRIPT = 1;
export const NATIVE = 2;

/**
 * How finely threads are modelled. `access`: every load and store is a step. `hand-over`: a role's
 * work on a slot is one step, unless a death cuts it short. It lasts from the look that finds the
 * slot to the rings after its store. Raising the flag, comparing and sleeping are also one step.
 *
 * The coarse grain misses no violation. A role's accesses to its own slot, up to its store, commute
 * with the steps of all other agents. For the bell, the fine grain shows the following. If a ring
 * comes before the owner reads its bell, the owner's look sees what was published. If it comes
 * later, the compare fails or the ringer finds the flag raised. Finer orders only add wakes that
 * are late or needless. A thread that makes a needless round or sleeps a little longer behaves like
 * a thread that is slow to look.
 */
export type Grain = 'access' | 'hand-over';

export interface Label {
  at: number;
}

interface Step {
  says: string;
  /** returns the index of the next step, or BLOCKED */
  run: (state: State, next: number) => number;
  /** whether the step runs together with the step before it */
  local?: boolean;
  /** how the thread sleeps at this step; omitted if it is awake */
  asleep?: Sleep;
  /** whether the owner has read its bell's count here and will still compare it */
  watching: boolean;
  end: boolean;
}

export class Program {
  readonly name: string;
  readonly agent: number;
  readonly grain: Grain;
  readonly steps: Step[] = [];
  /** the step at which a successor begins */
  readonly restart: Label = { at: -1 };
  /** whether the steps emitted now are between reading the bell and comparing it */
  watching = false;
  /** whether the next emitted step also reads the bell */
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
