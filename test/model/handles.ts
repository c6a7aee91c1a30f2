/**
 * Models the handle table: one entry with its word and its object. Threads pin and unpin the object
 * that their handle names, threads close it (handles-closers.ts), and one thread uses the entry
 * again. Every access is a step, because all of them are sequentially consistent. The rules
 * Handles-1 to Handles-5 are in native/device/core/handles.hpp.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';
import { CLOSES, Close, type Closer, closersOf } from './handles-closers.ts';
import {
  ADDED,
  at,
  CLOSING,
  compareAndSet,
  FLAGS,
  FREE,
  flags,
  GENERATION,
  GONE,
  generation,
  HANDLE,
  HAS,
  LOCK,
  lock,
  NEWEST,
  OBJECT,
  OPEN,
  own,
  PINS,
  RETIRED,
  SEEN,
  STEP,
  THREAD,
  word,
} from './handles-memory.ts';

export interface HandlesSetup {
  /** threads that pin, each with the right kind of object or with a wrong one */
  users: readonly ('right' | 'wrong')[];
  /** number of times that each of them pins */
  pins: 1 | 2;
  /** what each closing thread does */
  closers: readonly Closer[];
  broken?: HandlesMutation;
}

export type HandlesMutation =
  | 'a pin does not check for closing'
  | 'a pin does not check the generation'
  | 'a pin checks and changes the word in two steps'
  | 'a remover does not wait for pins'
  | 'a closer checks and marks the word in two steps'
  | 'a closer does not increment the generation'
  | 'a closer releases the entry before it takes the object'
  | 'an adder opens the entry before it stores the object'
  | 'a remover that gives up leaves the entry closing'
  | 'a thread keeps a pin of the wrong kind'
  | 'a remover sleeps without comparing the word'
  | 'the last unpin wakes no remover'
  | 'a retired handle grants pins'
  | 'the last unpin does not free a retired object'
  | 'every unpin frees a retired object'
  | 'a retirer takes an object that is pinned'
  | 'a remover closes an object that is retired';

/** Steps of a thread that pins. The last five steps, from `takes` on, take the object. */
const Use = {
  begins: 0,
  looks: 1,
  pins: 2,
  reads: 3,
  uses: 4,
  unpins: 5,
  wakes: 6,
  over: 7,
  takes: 8,
};
/** The first object exists at the start. The second one is added to the same entry. */
const OBJECTS = 2;

export function handlesProtocol({ users, pins, closers, broken }: HandlesSetup): Model {
  const is = (how: HandlesMutation) => broken === how;
  const { close, giveUp, take } = closersOf(is);
  const closing = closers.map((how, i) => ({ how, thread: users.length + i }));

  const user = (state: State, thread: number): boolean => {
    const go = (to: number): true => {
      state[own(thread, STEP)] = to;
      return true;
    };
    const next = () => {
      const done = at(state, own(thread, HAS)) + 1;
      state[own(thread, HAS)] = done;
      return go(done === pins ? Use.over : Use.looks);
    };
    const handle = at(state, own(thread, HANDLE));
    const seen = at(state, own(thread, SEEN));
    switch (at(state, own(thread, STEP))) {
      case Use.begins:
        // All pins of the thread use the handle that is newest at this step.
        state[own(thread, HANDLE)] = at(state, NEWEST);
        return go(Use.looks);
      case Use.looks: {
        const now = word(state);
        const stale = generation(now) !== handle && !is('a pin does not check the generation');
        const ignored =
          is('a pin does not check for closing') ||
          (flags(now) & RETIRED && is('a retired handle grants pins'));
        if (stale || (flags(now) & CLOSING && !ignored) || !(flags(now) & OPEN)) {
          state[own(thread, SEEN)] = 0;
          return next();
        }
        state[own(thread, SEEN)] = now;
        return go(Use.pins);
      }
      case Use.pins: {
        const pin = () => {
          state[PINS] = at(state, PINS) + 1;
        };
        const done = compareAndSet(
          state,
          seen,
          pin,
          is('a pin checks and changes the word in two steps'),
        );
        state[own(thread, SEEN)] = 0;
        return go(done ? Use.reads : Use.looks);
      }
      case Use.reads: {
        const object = at(state, OBJECT);
        if (object === 0) throw new Violation('Handles-1', 'what is pinned is not there');
        if (object !== handle)
          throw new Violation('Handles-2', `handle ${handle} pins object ${object}`);
        if (users[thread] === 'right') return go(Use.uses);
        return is('a thread keeps a pin of the wrong kind') ? next() : go(Use.unpins);
      }
      case Use.uses:
        if (at(state, GONE) & (1 << handle))
          throw new Violation('Handles-1', `object ${handle} went while it is pinned`);
        return go(Use.unpins);
      case Use.unpins: {
        const before = at(state, PINS);
        if (before === 0) throw new Violation('Handles-4', 'a pin that nobody has is given back');
        state[PINS] = before - 1;
        const retired = (at(state, FLAGS) & RETIRED) !== 0;
        if (retired && is('every unpin frees a retired object')) return go(Use.takes);
        if (before > 1 || !(at(state, FLAGS) & CLOSING)) return next();
        if (retired)
          return is('the last unpin does not free a retired object') ? next() : go(Use.takes);
        return is('the last unpin wakes no remover') ? next() : go(Use.wakes);
      }
      case Use.wakes:
        for (const { thread: closer } of closing)
          if (at(state, own(closer, STEP)) === Close.asleep) state[own(closer, STEP)] = Close.reads;
        return next();
      case Use.over:
        return false;
      default: {
        const took = take(state, thread, Use.takes);
        return took === 'taken' ? next() : took;
      }
    }
  };

  const adder = users.length + closers.length;
  const [POPS, PUTS, OPENS] = [0, 1, 2];
  const add = (state: State): boolean => {
    const opens = () => {
      state[FLAGS] = OPEN;
    };
    const puts = () => {
      state[OBJECT] = at(state, ADDED) + 1;
    };
    const early = is('an adder opens the entry before it stores the object');
    switch (at(state, own(adder, STEP))) {
      case POPS:
        if (at(state, ADDED) === OBJECTS || at(state, FREE) === 0 || !lock(state, adder))
          return false;
        state[FREE] = at(state, FREE) - 1;
        state[own(adder, STEP)] = PUTS;
        return true;
      case PUTS:
        (early ? opens : puts)();
        // A program can guess the number of a handle before add() has returned it.
        if (early) state[NEWEST] = at(state, GENERATION);
        state[own(adder, STEP)] = OPENS;
        return true;
      default:
        (early ? puts : opens)();
        state[NEWEST] = at(state, GENERATION);
        state[LOCK] = 0;
        state[ADDED] = at(state, ADDED) + 1;
        state[own(adder, STEP)] = POPS;
        return true;
    }
  };

  const threads = (count: number, first: number) =>
    Array.from({ length: count }, (_, i) => first + i);
  const moves: Move[] = [
    ...threads(users.length, 0).map(
      (i): Move => ({
        optional: false,
        says: (state) =>
          `user ${i} ${USES[at(state, own(i, STEP))]} (${at(state, own(i, HANDLE))})`,
        apply: (state) => user(state, i),
      }),
    ),
    ...closing.map(
      ({ how, thread }): Move => ({
        optional: false,
        says: (state) =>
          `${thread} ${how}: ${CLOSES[at(state, own(thread, STEP))]} (${at(state, own(thread, HANDLE))})`,
        apply: (state) => close(state, thread, how),
      }),
    ),
    ...closing.map(
      ({ how, thread }): Move => ({
        optional: true,
        says: () => `${thread} gives up`,
        apply: (state) => giveUp(state, thread, how),
      }),
    ),
    {
      optional: false,
      says: (state) => `the next object ${ADDS[at(state, own(adder, STEP))]}`,
      apply: add,
    },
  ];
  return {
    width: (THREAD + 4 * (adder + 1) + 3) & ~3,
    moves,
    start(state) {
      state.fill(0);
      [state[GENERATION], state[FLAGS], state[OBJECT], state[NEWEST], state[ADDED]] = [
        1,
        OPEN,
        1,
        1,
        1,
      ];
    },
    unfinished(state) {
      const waits = threads(users.length, 0).find((i) => at(state, own(i, STEP)) !== Use.over);
      if (waits !== undefined) return `user ${waits} ${USES[at(state, own(waits, STEP))]}`;
      const closes = closing.find(({ thread }) => at(state, own(thread, STEP)) !== Close.over);
      if (closes)
        return `${closes.thread} ${closes.how}: ${CLOSES[at(state, own(closes.thread, STEP))]}`;
      if (at(state, PINS) !== 0) return 'a pin is left behind';
      if (at(state, FLAGS) & RETIRED) return 'nobody frees the retired object';
      return at(state, FLAGS) & CLOSING ? 'nobody can close it any more' : null;
    },
  };
}

const USES = [
  'takes the newest handle',
  'looks at the word',
  'pins',
  'reads the object',
  'uses it',
  'unpins',
  'wakes removers',
  'is over',
  ...CLOSES.slice(Close.takes),
];
const ADDS = ['takes the entry', 'goes in', 'is opened'];
