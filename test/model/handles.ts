/**
 * The handle table as a model: an entry's word and object, threads that pin and unpin what their handle names, threads that close it, and
 * one that uses the entry again. Every access takes its turn: all of them are sequentially consistent. The rules T1 to T4 are those of
 * native/device/core/handles.hpp.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface HandlesSetup {
  /** threads that pin, of the handle's kind or of another one */
  users: readonly ('right' | 'wrong')[];
  /** how often each of them pins */
  pins: 1 | 2;
  closers: 1 | 2;
  broken?: HandlesMutation;
}

export type HandlesMutation =
  | 'a pin looks not for closing'
  | 'a pin looks not for the generation'
  | 'looked at and pinned in two steps'
  | 'pins are not waited for'
  | 'looked at and closed in two steps'
  | 'the generation stays'
  | 'the entry is given back before its object is taken'
  | 'open before the object is there'
  | 'one that gives up leaves it closing'
  | 'a pin of another kind stays';

/** The word, the object by its number, how often the entry is free, who has the lock; the newest handle; objects that went, a bit each. */
const [GENERATION, FLAGS, PINS, OBJECT, FREE, LOCK, NEWEST, GONE, ADDED] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const [OPEN, CLOSING] = [1, 2];
/** of each thread: its step, its handle, the word it saw, and how often it pinned or which object it took */
const THREAD = 12;
const [STEP, HANDLE, SEEN, HAS] = [0, 1, 2, 3];
const Use = { begins: 0, looks: 1, pins: 2, reads: 3, uses: 4, unpins: 5, over: 6 };
const Close = { begins: 0, looks: 1, marks: 2, waits: 3, takes: 4, frees: 5, gives: 6, drops: 7, over: 8 };
/** The first object is there, the second one comes into its place. */
const OBJECTS = 2;

export function handlesProtocol({ users, pins, closers, broken }: HandlesSetup): Model {
  const is = (how: HandlesMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const own = (thread: number, what: number) => THREAD + 4 * thread + what;
  const word = (state: State) => at(state, GENERATION) * 32 + at(state, PINS) * 4 + at(state, FLAGS);
  const flags = (seen: number) => seen & 3;
  const generation = (seen: number) => seen >> 5;

  const lock = (state: State, thread: number): boolean => {
    if (at(state, LOCK) !== 0) return false;
    state[LOCK] = thread + 1;
    return true;
  };
  const compareAndSet = (state: State, seen: number, act: () => void, twoSteps: boolean): boolean => {
    if (!twoSteps && word(state) !== seen) return false;
    if (twoSteps) [state[GENERATION], state[PINS], state[FLAGS]] = [seen >> 5, (seen >> 2) & 7, seen & 3];
    act();
    return true;
  };

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
        // Later pins are by the handle it has by then.
        state[own(thread, HANDLE)] = at(state, NEWEST);
        return go(Use.looks);
      case Use.looks: {
        const now = word(state);
        const stale = generation(now) !== handle && !is('a pin looks not for the generation');
        const closing = flags(now) & CLOSING && !is('a pin looks not for closing');
        if (stale || closing || !(flags(now) & OPEN)) {
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
        const done = compareAndSet(state, seen, pin, is('looked at and pinned in two steps'));
        state[own(thread, SEEN)] = 0;
        return go(done ? Use.reads : Use.looks);
      }
      case Use.reads: {
        const object = at(state, OBJECT);
        if (object === 0) throw new Violation('T1', 'what is pinned is not there');
        if (object !== handle) throw new Violation('T2', `handle ${handle} pins object ${object}`);
        if (users[thread] === 'right') return go(Use.uses);
        return is('a pin of another kind stays') ? next() : go(Use.unpins);
      }
      case Use.uses:
        if (at(state, GONE) & (1 << handle)) throw new Violation('T1', `object ${handle} went while it is pinned`);
        return go(Use.unpins);
      case Use.unpins:
        if (at(state, PINS) === 0) throw new Violation('T4', 'a pin that nobody has is given back');
        state[PINS] = at(state, PINS) - 1;
        return next();
      default:
        return false;
    }
  };

  const closer = (state: State, thread: number): boolean => {
    const go = (to: number): true => {
      state[own(thread, STEP)] = to;
      return true;
    };
    const handle = at(state, own(thread, HANDLE));
    const early = is('the entry is given back before its object is taken');
    switch (at(state, own(thread, STEP))) {
      case Close.begins:
        state[own(thread, HANDLE)] = at(state, NEWEST);
        return go(Close.looks);
      case Close.looks: {
        const now = word(state);
        if (generation(now) !== handle || !(flags(now) & OPEN) || flags(now) & CLOSING) return go(Close.over);
        state[own(thread, SEEN)] = now;
        return go(Close.marks);
      }
      case Close.marks: {
        const mark = () => {
          state[FLAGS] = at(state, FLAGS) | CLOSING;
        };
        const done = compareAndSet(state, at(state, own(thread, SEEN)), mark, is('looked at and closed in two steps'));
        state[own(thread, SEEN)] = 0;
        return go(done ? Close.waits : Close.looks);
      }
      case Close.waits:
        if (at(state, PINS) !== 0 && !is('pins are not waited for')) return false;
        return lock(state, thread) && go(early ? Close.gives : Close.takes);
      case Close.takes: {
        const object = at(state, OBJECT);
        if (object !== handle) throw new Violation('T3', `who closes handle ${handle} gets object ${object}`);
        state[own(thread, HAS)] = object;
        state[OBJECT] = 0;
        return go(early ? Close.drops : Close.frees);
      }
      case Close.frees:
        if (!is('the generation stays')) state[GENERATION] = at(state, GENERATION) + 1;
        state[PINS] = 0;
        state[FLAGS] = 0;
        return go(Close.gives);
      case Close.gives:
        state[FREE] = at(state, FREE) + 1;
        if (at(state, FREE) > 1) throw new Violation('T4', 'the entry is given back twice');
        state[LOCK] = 0;
        if (!early) return go(Close.drops);
        state[GENERATION] = at(state, GENERATION) + 1;
        state[FLAGS] = 0;
        return go(Close.takes);
      case Close.drops:
        state[GONE] = at(state, GONE) | (1 << at(state, own(thread, HAS)));
        return go(Close.over);
      default:
        return false;
    }
  };
  /** Its patience may be over while others have pins. */
  const givesUp = (state: State, thread: number): boolean => {
    if (at(state, own(thread, STEP)) !== Close.waits || at(state, PINS) === 0) return false;
    if (!is('one that gives up leaves it closing')) state[FLAGS] = at(state, FLAGS) & ~CLOSING;
    state[own(thread, STEP)] = Close.over;
    return true;
  };

  const adder = users.length + closers;
  const [POPS, PUTS, OPENS] = [0, 1, 2];
  const add = (state: State): boolean => {
    const opens = () => {
      state[FLAGS] = OPEN;
    };
    const puts = () => {
      state[OBJECT] = at(state, ADDED) + 1;
    };
    const early = is('open before the object is there');
    switch (at(state, own(adder, STEP))) {
      case POPS:
        if (at(state, ADDED) === OBJECTS || at(state, FREE) === 0 || !lock(state, adder)) return false;
        state[FREE] = at(state, FREE) - 1;
        state[own(adder, STEP)] = PUTS;
        return true;
      case PUTS:
        (early ? opens : puts)();
        // A number can be guessed.
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

  const threads = (count: number, first: number) => Array.from({ length: count }, (_, i) => first + i);
  const closing = threads(closers, users.length);
  const moves: Move[] = [
    ...threads(users.length, 0).map(
      (i): Move => ({
        optional: false,
        says: (state) => `user ${i} ${USES[at(state, own(i, STEP))]} (${at(state, own(i, HANDLE))})`,
        apply: (state) => user(state, i),
      }),
    ),
    ...closing.map(
      (i): Move => ({
        optional: false,
        says: (state) => `closer ${i} ${CLOSES[at(state, own(i, STEP))]} (${at(state, own(i, HANDLE))})`,
        apply: (state) => closer(state, i),
      }),
    ),
    ...closing.map(
      (i): Move => ({ optional: true, says: () => `closer ${i} gives up`, apply: (state) => givesUp(state, i) }),
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
      [state[GENERATION], state[FLAGS], state[OBJECT], state[NEWEST], state[ADDED]] = [1, OPEN, 1, 1, 1];
    },
    unfinished(state) {
      const waits = threads(users.length, 0).find((i) => at(state, own(i, STEP)) !== Use.over);
      if (waits !== undefined) return `user ${waits} ${USES[at(state, own(waits, STEP))]}`;
      const closes = closing.find((i) => at(state, own(i, STEP)) !== Close.over);
      if (closes !== undefined) return `closer ${closes} ${CLOSES[at(state, own(closes, STEP))]}`;
      if (at(state, PINS) !== 0) return 'a pin is left behind';
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
  'is over',
];
const CLOSES = [
  ...['takes the newest handle', 'looks at the word', 'marks it', 'waits for pins', 'takes the object'],
  ...['makes handles stale', 'gives the entry back', 'lets the object go', 'is over'],
];
const ADDS = ['takes the entry', 'goes in', 'is opened'];
