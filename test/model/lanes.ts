/**
 * Models a lane of trajectories. Its writer may die between any two stores and be followed by
 * another writer. Threads clear the lane, and a reader draws from it. The memory shows stores late
 * and out of order. The rules Lanes-1 to Lanes-6 are in native/rows/lanes.hpp.
 */
import type { Model, Move, State } from './checker.ts';
import * as memory from './lanes-memory.ts';
import { Reader } from './lanes-reader.ts';
import { At, type Life, lifeOf } from './lanes-writer.ts';
import { PLACE, WIDTH } from './memory.ts';

export interface LanesSetup {
  /** number of places of the ring, 2 to 4 */
  places: number;
  /**
   * the steps that the writer adds, a letter each: `s`, or `e` for one that ends an episode, as in
   * 'sses'
   */
  writer: string;
  /**
   * If given, even if empty, the writer may die at any store. The successor then adds these steps.
   */
  successor?: string;
  /** steps of a transition, and frames of a stack; 1 by default */
  n?: number;
  frames?: number;
  /**
   * notes that the reader copies between two checks of begun; by default as many as there are
   * places
   */
  atOnce?: number;
  /** number of threads that clear the lane, each once; at most 2 */
  clears?: number;
  /** samples that the reader makes before it hears that all writers have ended; 1 by default */
  rounds?: number;
  broken?: LanesMutation;
}

export type LanesMutation =
  | 'the writer stores `begun` after the bytes'
  | 'the writer does not fence after it stores `begun`'
  | 'the writer does not count the final observation in `begun`'
  | 'the writer stores `committed` before the bytes'
  | 'the writer stores `committed` without release order'
  | 'the writer commits a step without its final observation'
  | 'a successor lowers `begun` to `committed`'
  | 'a successor does not fence if `begun` is high enough'
  | 'a successor continues at `begun` instead of `committed`'
  | 'a successor continues the episode of the dead writer'
  | 'a successor does not correct the count of steps'
  | 'a clearer stores the floor without comparing it'
  | 'the reader loads `committed` without acquire order'
  | 'the reader accepts a span longer than the ring'
  | 'the reader computes its span from `committed` alone'
  | 'the reader ignores the floor'
  | 'the reader does not fence before it loads `begun`'
  | 'the reader copies notes after it loads `begun`'
  | 'the reader trusts notes that are overwritten'
  | 'the reader checks only the last note against `begun`'
  | 'a lapped reader continues at its old place'
  | 'the reader treats the first step of an episode as the next one'
  | 'the reader keeps a stack until its last frame is gone'
  | 'the reader does not check `begun` after its copy'
  | 'the reader checks `begun` before its copy'
  | 'the reader checks `begun` for the drawn step only'
  | 'the reader draws again without updating its list';

export function lanesProtocol(setup: LanesSetup): Model {
  const alone = lifeOf({ ...setup, successor: '' }).stores.length;
  const lives = [
    lifeOf(setup),
    ...Array.from({ length: alone }, (_, stores) => lifeOf(setup, stores)),
  ];
  for (const { truth } of lives)
    if (truth.length > memory.MAX_PLACES) throw new Error('a state has no room for so many steps');
  const life = (state: State): Life => lives[state[memory.DIED]!]!;
  // A load may find any store of its word or the initial value, and a draw may take any place.
  // `choices` is the larger number.
  const storesOf = ({ stores }: Life, word: number) =>
    stores.filter(({ at }) => at === word).length;
  const words = Array.from({ length: At.bytes + setup.places }, (_, at) => at);
  const choices =
    1 +
    Math.max(...lives.flatMap((each) => words.map((word) => storesOf(each, word))), setup.places);
  const clearers = setup.clears ?? 0;
  const reader = new Reader(setup, life);

  // All stores are made before the reader begins. No interleaving is missed: no writer waits for
  // the reader, and the reader's loads may find any of the stores.
  const cleared = (state: State) => {
    const written = state[memory.STORED] === life(state).stores.length;
    return written && state.subarray(PLACE + 1, PLACE + 1 + clearers).every((place) => place === 2);
  };

  const moves: Move[] = Array.from({ length: choices }, (_, choice) => ({
    optional: false,
    says: (state) =>
      `the reader ${reader.by.current(state).says}${whatItFinds(reader, state, choice)}`,
    apply: (state) => cleared(state) && reader.advance(state, choice),
  }));
  moves.push({
    optional: false,
    says: (state) => `a writer ${life(state).stores[state[memory.STORED]!]?.says ?? 'has ended'}`,
    apply: (state) => {
      if (state[memory.STORED] === life(state).stores.length) return false;
      state[memory.STORED]!++;
      return true;
    },
  });
  if (setup.successor !== undefined)
    moves.push({
      optional: true,
      says: () => 'the writer dies',
      apply: (state) => {
        if (state[memory.DIED] || state[memory.STORED]! >= alone) return false;
        state[memory.DIED] = state[memory.STORED]! + 1;
        return true;
      },
    });
  for (let i = 0; i < clearers; i++) moves.push(...clearing(i, life, choices, setup));
  if (moves.length > 31) throw new Error('the checker has no room for so many choices');

  return {
    width: WIDTH,
    moves,
    start: (state) => void state.fill(0),
    unfinished: (state) =>
      reader.by.current(state).end ? null : `the reader ${reader.by.current(state).says}`,
  };
}

function whatItFinds(reader: Reader, state: State, choice: number): string {
  reader.found = '';
  try {
    reader.advance(state.slice(), choice);
  } catch {
    // The move itself will throw this violation, and the trace ends with it.
  }
  return reader.found && `: ${reader.found}`;
}

/**
 * Lanes-6: a thread finds any committed count. In one atomic step it then raises the floor to that
 * count.
 */
function clearing(
  i: number,
  life: (state: State) => Life,
  choices: number,
  { broken }: LanesSetup,
): Move[] {
  const own = memory.CLEARER + 2 * i;
  const place = PLACE + 1 + i;
  const finds = (choice: number): Move => ({
    optional: false,
    says: () => `clearer ${i} loads committed`,
    apply: (state) => {
      const { stores } = life(state);
      if (state[place] !== 0 || state[memory.STORED] !== stores.length) return false;
      const found = [0, ...stores.flatMap(({ at }, k) => (at === At.committed ? [k + 1] : []))][
        choice
      ];
      if (found === undefined) return false;
      state[own] = found === 0 ? 0 : stores[found - 1]!.value;
      state[own + 1] = found === 0 ? 0 : stores[found - 1]!.brings;
      state[place] = 1;
      return true;
    },
  });
  const raises: Move = {
    optional: false,
    says: (state) => `clearer ${i} raises the floor to ${state[own]}`,
    apply: (state) => {
      if (state[place] !== 1) return false;
      const last = state[memory.FLOORS]!;
      const [floor, brings] = last
        ? [state[memory.FLOOR + last - 1]!, state[memory.FLOOR_BRINGS + last - 1]!]
        : [0, 0];
      const blind = broken === 'a clearer stores the floor without comparing it';
      if (blind || state[own]! > floor) {
        state[memory.FLOOR + last] = state[own]!;
        state[memory.FLOOR_BRINGS + last] = blind
          ? state[own + 1]!
          : Math.max(brings, state[own + 1]!);
        state[memory.FLOORS] = last + 1;
      }
      state[own] = state[own + 1] = 0;
      state[place] = 2;
      return true;
    },
  };
  return [...Array.from({ length: choices }, (_, choice) => finds(choice)), raises];
}
