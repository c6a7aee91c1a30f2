/**
 * The steps every waiting agent shares: ringing a bell, reading one's own, looking for a stop,
 * parking.
 */
import type { State } from './checker.ts';
import { BELL, Local, PLACE, STOP } from './memory.ts';
import { BLOCKED, JAVASCRIPT, type Label, NATIVE, type Program, type Sleep } from './program.ts';

/**
 * Marks that this round found work. The count will be read again before it matters, so what it did
 * is forgotten.
 */
export function markDone(state: State, agent: number): void {
  state[BELL + agent] = (state[BELL + agent]! & ~(Local.moved | Local.pending)) | Local.did;
}

function addTo(state: State, target: Program): void {
  const bell = BELL + target.agent;
  if (target.current(state).watching && !(state[bell]! & Local.did))
    state[bell] = state[bell]! | Local.moved;
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
 * First half of waiting: read the count. What is looked at from here on may change without being
 * missed.
 */
export function readBell(by: Program): void {
  // The coarse grain reads as late as it may: a ring between the reading and the first look only
  // costs a round.
  by.reading = true;
  if (by.grain === 'access') by.step('reads its bell', (_, next) => next);
}

/**
 * Leaves for good once the stop word is stored. The failure word is looked at in the same place and
 * the same way.
 */
export function checkStop(by: Program, end: Label): void {
  by.step('looks at the stop word', (state, next) => {
    if (state[STOP] === 0) return next;
    // The bell of a thread that is gone has no reader.
    state[BELL + by.agent] = 0;
    return end.at;
  });
}

/**
 * Second half: flag up, compare and sleep (one step, as futex and Atomics.wait do it), flag down.
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
