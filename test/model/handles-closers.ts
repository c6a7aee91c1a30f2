/**
 * The closing threads of the modelled handle table, and how the last of them takes the object out
 * of its entry.
 */
import { type State, Violation } from './checker.ts';
import type { HandlesMutation } from './handles.ts';
import {
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
  LOCK,
  lock,
  NEWEST,
  OBJECT,
  OPEN,
  own,
  PINS,
  pins,
  RETIRED,
  SEEN,
  STEP,
  word,
} from './handles-memory.ts';

/**
 * `removes`: sleeps until all pins are released, or gives up. `retires`: leaves the object to the
 * thread that releases the last pin.
 */
export type Closer = 'removes' | 'retires';

/** Steps of a closing thread. The five steps from `takes` on take the object, in this order. */
export const Close = {
  begins: 0,
  looks: 1,
  marks: 2,
  reads: 3,
  sleeps: 4,
  asleep: 5,
  takes: 6,
  over: 11,
};
export const CLOSES = [
  'takes the newest handle',
  'looks at the word',
  'marks it',
  'looks for pins',
  'compares and sleeps',
  'sleeps',
  'locks',
  'takes the object',
  'makes handles stale',
  'gives the entry back',
  'lets the object go',
  'is over',
];

export interface Closers {
  close(state: State, thread: number, how: Closer): boolean;
  /** Ends the wait of a remover that has found pins. Returns false if the thread is not waiting. */
  giveUp(state: State, thread: number, how: Closer): boolean;
  /**
   * Makes one step of taking the object. The thread's steps from `first` on are the five steps of
   * it. Returns 'taken' after the last one, and false if the lock is held.
   */
  take(state: State, thread: number, first: number): boolean | 'taken';
}

export function closersOf(is: (how: HandlesMutation) => boolean): Closers {
  const early = is('a closer releases the entry before it takes the object');

  const takesObject = (state: State, thread: number) => {
    const [object, handle] = [at(state, OBJECT), at(state, own(thread, HANDLE))];
    if (object !== handle)
      throw new Violation('Handles-3', `who closes handle ${handle} gets object ${object}`);
    state[own(thread, SEEN)] = object;
    state[OBJECT] = 0;
  };
  const makesStale = (state: State) => {
    if (!is('a closer does not increment the generation'))
      state[GENERATION] = at(state, GENERATION) + 1;
    state[PINS] = 0;
    state[FLAGS] = 0;
  };
  const givesBack = (state: State) => {
    state[FREE] = at(state, FREE) + 1;
    if (at(state, FREE) > 1) throw new Violation('Handles-4', 'the entry is given back twice');
    state[LOCK] = 0;
  };
  const letsGo = (state: State, thread: number) => {
    state[GONE] = at(state, GONE) | (1 << at(state, own(thread, SEEN)));
    state[own(thread, SEEN)] = 0;
  };
  const taking = early
    ? [givesBack, makesStale, takesObject, letsGo]
    : [takesObject, makesStale, givesBack, letsGo];

  const take = (state: State, thread: number, first: number): boolean | 'taken' => {
    const step = at(state, own(thread, STEP)) - first;
    if (step === 0 && !lock(state, thread)) return false;
    if (step > 0) taking[step - 1]?.(state, thread);
    state[own(thread, STEP)] = first + step + 1;
    return step === taking.length ? 'taken' : true;
  };

  const close = (state: State, thread: number, how: Closer): boolean => {
    const go = (to: number): true => {
      state[own(thread, STEP)] = to;
      return true;
    };
    const seen = at(state, own(thread, SEEN));
    const step = at(state, own(thread, STEP));
    switch (step) {
      case Close.begins:
        state[own(thread, HANDLE)] = at(state, NEWEST);
        return go(Close.looks);
      case Close.looks: {
        const now = word(state);
        const stale = generation(now) !== at(state, own(thread, HANDLE)) || !(flags(now) & OPEN);
        const again =
          is('a remover closes an object that is retired') &&
          flags(now) & RETIRED &&
          how === 'removes';
        if (stale || (flags(now) & CLOSING && !again)) return go(Close.over);
        state[own(thread, SEEN)] = now;
        return go(Close.marks);
      }
      case Close.marks: {
        const mark = () => {
          state[FLAGS] = at(state, FLAGS) | CLOSING | (how === 'retires' ? RETIRED : 0);
        };
        const done = compareAndSet(
          state,
          seen,
          mark,
          is('a closer checks and marks the word in two steps'),
        );
        state[own(thread, SEEN)] = 0;
        if (!done) return go(Close.looks);
        if (how === 'removes') return go(Close.reads);
        return go(
          pins(seen) === 0 || is('a retirer takes an object that is pinned')
            ? Close.takes
            : Close.over,
        );
      }
      case Close.reads:
        if (at(state, PINS) === 0 || is('a remover does not wait for pins')) return go(Close.takes);
        state[own(thread, SEEN)] = word(state);
        return go(Close.sleeps);
      case Close.sleeps: {
        const same = word(state) === seen || is('a remover sleeps without comparing the word');
        state[own(thread, SEEN)] = 0;
        return go(same ? Close.asleep : Close.reads);
      }
      case Close.asleep:
      case Close.over:
        return false;
      default:
        return take(state, thread, Close.takes) !== false;
    }
  };

  const giveUp = (state: State, thread: number, how: Closer): boolean => {
    const step = at(state, own(thread, STEP));
    if (how !== 'removes' || (step !== Close.sleeps && step !== Close.asleep)) return false;
    if (!is('a remover that gives up leaves the entry closing'))
      state[FLAGS] = at(state, FLAGS) & ~CLOSING;
    state[own(thread, SEEN)] = 0;
    state[own(thread, STEP)] = Close.over;
    return true;
  };
  return { close, giveUp, take };
}
