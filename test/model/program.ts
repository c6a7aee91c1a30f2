/**
 * An agent's program: a list of steps, each at most one access to shared memory, taken one at a time in any
 * interleaving. Here are also the steps every agent shares: ringing a bell, and parking on one's own.
 */
import type { State } from './checker.ts';
import { BELL, Local, PLACE, STOP } from './memory.ts';

/** What a step that cannot run now returns; it must then have changed nothing. */
export const BLOCKED = -1;
/** How a thread sleeps (the bell's flag); 0 is awake. */
export type Sleep = 1 | 2;
export const JAVASCRIPT = 1;
export const NATIVE = 2;

/**
 * How finely bells are modelled. `access`: every load and store is a step. `hand-over`: a store and the rings that follow
 * it are one step, and so is putting the flag up, comparing and sleeping.
 *
 * The coarse grain misses nothing that a sound handshake can do, and the fine grain shows that it is sound: whatever the
 * order of its accesses, a ring comes before the owner reads its bell, and then the owner's look sees what was published,
 * or the compare fails, or it finds the flag up. All that the finer orders add is wakes that come later or for nothing;
 * a thread that goes one round for nothing, or sleeps a little longer, changes as much as one that is slow to look.
 */
export type Grain = 'access' | 'hand-over';

export interface Label {
  at: number;
}

interface Step {
  says: string;
  /** returns the next step, or BLOCKED */
  run: (state: State, next: number) => number;
  /** touches nothing shared and goes together with the step before it */
  local?: boolean;
  /** True where nothing any other agent can do affects this step or is affected by it: no order but one is needed. */
  alone?: (state: State) => boolean;
  /** a store that hands a slot on; a death may still come before its rings */
  hands?: boolean;
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

/** Marks that this round found work. The count will be read again before it matters, so what it did is forgotten. */
export function markDone(state: State, agent: number): void {
  state[BELL + agent] = (state[BELL + agent]! & ~(Local.moved | Local.pending)) | Local.did;
}

function addTo(state: State, target: Program): void {
  const bell = BELL + target.agent;
  if (target.current(state).watching && !(state[bell]! & Local.did)) state[bell] = state[bell]! | Local.moved;
}

/** Atomics.notify reaches only a JavaScript sleeper, a futex wake only a native one. */
function wake(state: State, target: Program, how: Sleep): void {
  if (target.current(state).asleep === how) target.moveTo(state, state[PLACE + target.agent]! + 1);
}

export interface Ringing {
  /** a native ringer has no Atomics.notify */
  from?: 'native';
  broken?: 'flag first' | 'always notify' | undefined;
}

/** The wake half of a hand-over: count + 1, then the flag, then the wake it asks for. */
export function ring(by: Program, target: Program, how: Ringing = {}): void {
  // Its own bell only tells a thread what it knows: it did something and will look again.
  if (by === target) return;
  const name = `the bell of ${target.name}`;
  const gone = (state: State): boolean => target.current(state).end;
  const [over, notify, native] = [{ at: 0 }, { at: 0 }, { at: 0 }];
  const flagOf = (state: State): number => state[BELL + target.agent]! & Local.flag;
  const wakeBy = (state: State): number => {
    const flag = how.broken === 'always notify' && flagOf(state) !== 0 ? JAVASCRIPT : flagOf(state);
    if (flag === JAVASCRIPT) return how.from === 'native' ? over.at : notify.at;
    return flag === NATIVE ? native.at : over.at;
  };
  if (how.broken === 'flag first') {
    const after = [{ at: 0 }, { at: 0 }, { at: 0 }];
    by.step(`looks at the flag of ${name}`, (state) => after[flagOf(state)]!.at);
    for (const flag of [0, JAVASCRIPT, NATIVE] as const) {
      by.place(after[flag]!);
      by.step(`adds to ${name} and wakes it if its flag was up`, (state) => {
        addTo(state, target);
        if (flag !== 0) wake(state, target, flag);
        return over.at;
      });
    }
    by.place(over);
    return;
  }
  if (by.grain === 'hand-over') {
    const run = (state: State, next: number): number => {
      addTo(state, target);
      const { asleep } = target.current(state);
      if (asleep && !(how.from === 'native' && asleep === JAVASCRIPT)) wake(state, target, asleep);
      return next;
    };
    by.step(`rings ${name}`, run, { local: true });
    return;
  }
  by.step(
    `adds to ${name}`,
    (state, next) => {
      if (gone(state)) return over.at;
      addTo(state, target);
      return next;
    },
    { alone: gone },
  );
  by.step(`looks at the flag of ${name}`, wakeBy, { alone: gone });
  by.place(notify);
  by.step(`notifies ${name}`, (state) => {
    wake(state, target, JAVASCRIPT);
    return over.at;
  });
  by.place(native);
  by.step(`wakes ${name} natively`, (state) => {
    wake(state, target, NATIVE);
    return over.at;
  });
  by.place(over);
}

/** First half of waiting: read the count. What is looked at from here on may change without being missed. */
export function readBell(by: Program): void {
  // The coarse grain reads as late as it may: a ring between the reading and the first look only costs a round.
  by.reading = true;
  if (by.grain === 'access') by.step('reads its bell', (_, next) => next);
}

/** Leaves for good once the stop word is stored. The failure word is looked at in the same place and the same way. */
export function checkStop(by: Program, end: Label): void {
  by.step('looks at the stop word', (state, next) => {
    if (state[STOP] === 0) return next;
    // Nobody reads the bell of a thread that is gone.
    state[BELL + by.agent] = 0;
    return end.at;
  });
}

/** Second half: flag up, compare and sleep (one step, as futex and Atomics.wait do it), flag down. */
export function park(by: Program, how: Sleep, self: (state: State) => boolean = () => false): void {
  const bell = BELL + by.agent;
  const awake = { at: 0 };
  const flag = (up: 0 | Sleep): void => {
    if (by.grain === 'hand-over') return;
    by.step(`puts its flag to ${up}`, (state, next) => {
      state[bell] = (state[bell]! & ~(Local.flag | Local.pending)) | up;
      return next;
    });
  };
  by.watching = true;
  flag(how);
  by.step('compares and sleeps', (state, next) => {
    const moved = state[bell]! & Local.moved;
    state[bell] = state[bell]! & ~(Local.moved | Local.pending);
    return moved ? awake.at : next;
  });
  by.watching = false;
  by.step('sleeps', (state, next) => (self(state) ? next : BLOCKED), { asleep: how });
  by.place(awake);
  flag(0);
}
