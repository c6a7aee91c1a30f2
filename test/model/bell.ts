/**
 * The steps that every waiting agent shares: it rings a bell, reads its own bell, checks for a
 * stop, and parks.
 */
import type { State } from './checker.ts';
import { BELL, Local, PLACE, STOP } from './memory.ts';
import { BLOCKED, JAVASCRIPT, type Label, NATIVE, type Program, type Sleep } from './program.ts';

/**
 * Marks that this round found work. The agent reads the bell's count again before it parks, so
 * `moved` and `pending` are cleared.
 */
export function markDone(state: State, agent: number): void {
  state[BELL + agent] = (state[BELL + agent]! & ~(Local.moved | Local.pending)) | Local.did;
}

function addTo(state: State, target: Program): void {
  const bell = BELL + target.agent;
  if (target.current(state).watching && !(state[bell]! & Local.did))
    state[bell] = state[bell]! | Local.moved;
}

/** Atomics.notify wakes only a JavaScript sleeper, and a futex wake only a native sleeper. */
function wake(state: State, target: Program, how: Sleep): void {
  if (target.current(state).asleep === how) target.moveTo(state, state[PLACE + target.agent]! + 1);
}

export interface Ringing {
  /** the ringer is native code, which has no Atomics.notify */
  from?: 'native';
  broken?: 'flag first' | 'always notify' | undefined;
}

/**
 * The second half of a hand-over. The ringer adds 1 to the count, loads the flag, then makes the
 * wake that the flag asks for.
 */
export function ring(by: Program, target: Program, how: Ringing = {}): void {
  // A thread's own bell is not rung: `markDone` already makes the thread look again.
  if (by === target) return;
  const name = `the bell of ${target.name}`;
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
  by.step(`adds to ${name}`, (state, next) => {
    addTo(state, target);
    return next;
  });
  by.step(`looks at the flag of ${name}`, wakeBy);
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

/**
 * First half of waiting: the agent reads its bell's count. If a word that it looks at later
 * changes, the count has changed too, so no change is missed.
 */
export function readBell(by: Program): void {
  // At the coarse grain the read is part of the next step, which is as late as possible. A ring
  // between the read and the first look would only cost one more round.
  by.reading = true;
  if (by.grain === 'access') by.step('reads its bell', (_, next) => next);
}

/**
 * Ends the agent's program once the stop word is stored. The real code checks the failure word at
 * the same point and in the same way.
 */
export function checkStop(by: Program, end: Label): void {
  by.step('looks at the stop word', (state, next) => {
    if (state[STOP] === 0) return next;
    // Nobody reads the bell of a thread that has ended, so it is cleared.
    state[BELL + by.agent] = 0;
    return end.at;
  });
}

/**
 * Second half of waiting: the agent raises its flag, compares and sleeps, then lowers its flag.
 * Compare and sleep are one step, as in futex and Atomics.wait.
 */
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
