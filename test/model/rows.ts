/**
 * Models the seqlock of replay rows (native/rows/rows.cpp). Writers reserve, write and commit, with
 * the board between them, and a reader copies rows. Every access to shared memory is a step. Rows-1
 * to Rows-4 are checked at the steps that could break them.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';
import {
  BOARD,
  COMMITTED,
  commit,
  HELD,
  NOTHING,
  RESERVED,
  ROWS,
  T,
  THREAD,
  THREAD_BYTES,
  whole,
  writing,
} from './rows-memory.ts';

export interface RowsSetup {
  /** for each writer: the number of rows of each add() */
  writers: readonly (readonly number[])[];
  capacity: number;
  /** number of places of the board */
  board: number;
  /** number of batches of one row that the reader takes */
  reads?: number;
  broken?: RowsMutation;
}

export type RowsMutation =
  | 'a writer writes rows before it reserves them'
  | 'a writer overwrites rows that are not committed yet'
  | 'a writer commits its rows before earlier rows'
  | 'a writer checks the board before it stores `committed`'
  | 'a writer checks `reserved` before it stores `committed`'
  | 'a writer checks its turn before it fills the board'
  | 'a writer does not check its turn again'
  | 'a writer takes an entry of the board by a load and a store'
  | 'a writer reads the end after it frees the entry'
  | 'a writer stores its turn before its end'
  | 'add() returns before another writer commits its rows'
  | 'a reader checks `reserved` before its copy'
  | 'a reader checks `committed` after its copy';

const Step = {
  reserve: 0,
  lap: 1,
  write: 2,
  wrote: 3,
  turn: 4,
  claim: 5,
  fill: 6,
  put: 7,
  again: 8,
  retake: 9,
  handed: 10,
  wait: 11,
  store: 12,
  behind: 13,
  scan: 14,
  end: 15,
  free: 16,
  over: 17,
  early: 18,
} as const;

export function rowsProtocol({ writers, capacity, board, reads = 0, broken }: RowsSetup): Model {
  const is = (how: RowsMutation) => broken === how;
  const moves: Move[] = [];
  const turnOf = (place: number) => BOARD + 2 * place;
  const move = (
    says: (at: number) => string,
    thread: number,
    apply: (state: State, t: (field: number) => number) => boolean,
  ) => {
    const t = (field: number) => THREAD + THREAD_BYTES * thread + field;
    moves.push({
      optional: false,
      says: (state) => says(state[t(T.at)]!),
      apply: (state) => apply(state, t),
    });
  };
  const names = Object.keys(Step);
  const looksEarly =
    is('a writer checks the board before it stores `committed`') ||
    is('a writer checks `reserved` before it stores `committed`');

  writers.forEach((adds, thread) => {
    move(
      (at) => `writer ${thread}: ${names[at]}`,
      thread,
      (state, t) => {
        const goto = (step: number) => {
          state[t(T.at)] = step;
          return true;
        };
        const [begin, end] = [state[t(T.begin)]!, state[t(T.end)]!];
        /**
         * Goes to `step` at the first place of the board, or at the next one. Goes to `none` after
         * the last place.
         */
        const place = (first: boolean, step: number, none: number) => {
          const next = first ? 0 : state[t(T.place)]! + 1;
          state[t(T.place)] = next;
          return goto(next < board ? step : none);
        };
        const store = () => goto(looksEarly ? Step.early : Step.store);
        const finish = () => {
          if (state[COMMITTED]! < state[t(T.saw)]!)
            throw new Violation('returns', 'add() returns before its rows are committed');
          state[t(T.add)] = state[t(T.add)]! + 1;
          return goto(state[t(T.add)]! < adds.length ? Step.reserve : Step.over);
        };
        const write = (value: (row: number) => number) => {
          const rows = adds[state[t(T.add)]!]!;
          const [from, to] = is('a writer writes rows before it reserves them')
            ? [state[t(T.begin)]!, state[t(T.begin)]! + rows]
            : [begin, end];
          for (let row = from; row < to; row++) state[ROWS + (row % capacity)] = value(row);
        };
        switch (state[t(T.at)]) {
          case Step.reserve: {
            const rows = adds[state[t(T.add)]!]!;
            state[t(T.begin)] = state[RESERVED]!;
            state[t(T.end)] = state[RESERVED]! + rows;
            // add() promises that these rows are committed when it returns.
            state[t(T.saw)] = state[RESERVED]! + rows;
            if (is('a writer writes rows before it reserves them')) write(writing);
            state[RESERVED] =
              state[RESERVED]! + (is('a writer writes rows before it reserves them') ? 0 : rows);
            return goto(Step.lap);
          }
          case Step.lap:
            if (
              end > capacity &&
              state[COMMITTED]! < end - capacity &&
              !is('a writer overwrites rows that are not committed yet')
            )
              return false;
            return goto(Step.write);
          case Step.write:
            if (is('a writer writes rows before it reserves them'))
              state[RESERVED] = state[RESERVED]! + end - begin;
            for (let row = begin; row < end; row++) {
              const before = state[ROWS + (row % capacity)]!;
              if (row >= capacity && before !== whole(row - capacity) && before !== writing(row))
                throw new Violation(
                  'Rows-2',
                  `row ${row} is written over what is not row ${row - capacity}`,
                );
            }
            write(writing);
            return goto(Step.wrote);
          case Step.wrote:
            for (let row = begin; row < end; row++)
              if (state[ROWS + (row % capacity)] !== writing(row))
                throw new Violation('Rows-2', `two pens are on row ${row}`);
            write(whole);
            return is('a writer commits its rows before earlier rows') ? store() : goto(Step.turn);
          case Step.turn:
            if (state[COMMITTED] === begin) return store();
            return place(true, Step.claim, Step.wait);
          case Step.claim: {
            const at = turnOf(state[t(T.place)]!);
            if (state[at] !== 0) return place(false, Step.claim, Step.wait);
            if (
              is('a writer checks its turn before it fills the board') &&
              state[COMMITTED] === begin
            )
              return store();
            state[at] = HELD;
            return goto(is('a writer stores its turn before its end') ? Step.put : Step.fill);
          }
          case Step.fill:
            state[turnOf(state[t(T.place)]!) + 1] = end;
            return goto(is('a writer stores its turn before its end') ? Step.again : Step.put);
          case Step.put:
            state[turnOf(state[t(T.place)]!)] = begin + 1;
            if (is('a writer stores its turn before its end')) return goto(Step.fill);
            if (is('add() returns before another writer commits its rows')) return finish();
            if (
              is('a writer does not check its turn again') ||
              is('a writer checks its turn before it fills the board')
            )
              return goto(Step.handed);
            return goto(Step.again);
          case Step.again:
            return goto(state[COMMITTED] === begin ? Step.retake : Step.handed);
          case Step.retake: {
            // The place may be the writer's own or another's: no other writer puts this turn on the
            // board.
            const at = turnOf(state[t(T.place)]!);
            if (state[at] !== begin + 1) return goto(Step.handed);
            state[at] = 0;
            return store();
          }
          case Step.handed:
            return state[COMMITTED]! < state[t(T.saw)]! ? false : finish();
          case Step.wait:
            return state[COMMITTED] === begin ? store() : false;
          case Step.store: {
            commit(state, begin, end, capacity);
            state[t(T.begin)] = end;
            if (!looksEarly) return goto(Step.behind);
            return state[t(T.place)] === NOTHING ? finish() : goto(Step.scan);
          }
          case Step.early: {
            const found = [...Array(board).keys()].find((k) => state[turnOf(k)] === end + 1);
            const alone = state[RESERVED] === end;
            const nothing = is('a writer checks `reserved` before it stores `committed`')
              ? alone
              : found === undefined;
            state[t(T.place)] = nothing ? NOTHING : (found ?? 0);
            return goto(Step.store);
          }
          case Step.behind:
            if (state[RESERVED] === begin) return finish();
            return place(true, Step.scan, Step.over);
          case Step.scan: {
            const at = turnOf(state[t(T.place)]!);
            if (state[at] !== begin + 1) {
              const next = state[t(T.place)]! + 1;
              if (next === board) return finish();
              state[t(T.place)] = next;
              return true;
            }
            if (is('a writer reads the end after it frees the entry')) state[at] = 0;
            else if (!is('a writer takes an entry of the board by a load and a store'))
              state[at] = HELD;
            return goto(Step.end);
          }
          case Step.end:
            if (is('a writer takes an entry of the board by a load and a store'))
              state[turnOf(state[t(T.place)]!)] = HELD;
            state[t(T.end)] = state[turnOf(state[t(T.place)]!) + 1]!;
            return is('a writer reads the end after it frees the entry')
              ? store()
              : goto(Step.free);
          case Step.free:
            state[turnOf(state[t(T.place)]!)] = 0;
            return store();
          default:
            return false;
        }
      },
    );
  });

  if (reads > 0) addReader(move, writers.length, capacity, reads, is);

  return {
    width: 36,
    moves,
    start: (state) => void state.fill(0),
    unfinished(state) {
      const total = writers.flat().reduce((sum, rows) => sum + rows, 0);
      for (let thread = 0; thread < writers.length; thread++)
        if (state[THREAD + THREAD_BYTES * thread + T.at] !== Step.over)
          return `writer ${thread} waits`;
      if (state[COMMITTED] !== total) return `${state[COMMITTED]} rows of ${total} are committed`;
      for (let place = 0; place < board; place++)
        if (state[turnOf(place)] !== 0) return 'the board is not empty';
      return null;
    },
  };
}

/** The reader takes the newest row, `reads` times (Rows-4). */
function addReader(
  move: (
    says: (at: number) => string,
    thread: number,
    apply: (state: State, t: (field: number) => number) => boolean,
  ) => void,
  thread: number,
  capacity: number,
  reads: number,
  is: (how: RowsMutation) => boolean,
): void {
  const late = is('a reader checks `committed` after its copy');
  const early = is('a reader checks `reserved` before its copy');
  /**
   * The reader's bytes: step, number of reads, the row's index, committed before the copy, the
   * value, and reserved after it.
   */
  move(
    (at) => `reader: step ${at}`,
    thread,
    (state, t) => {
      const [index, before, value, after] = [t(T.begin), t(T.end), t(T.saw), t(T.place)];
      switch (state[t(T.at)]) {
        case 0:
          if (state[COMMITTED] === 0) return false;
          state[index] = (state[COMMITTED]! - 1) % capacity;
          state[before] = state[COMMITTED]!;
          state[after] = state[RESERVED]!;
          state[t(T.at)] = 1;
          return true;
        case 1:
          state[value] = state[ROWS + state[index]!]!;
          state[t(T.at)] = 2;
          return true;
        case 2: {
          if (late) state[before] = state[COMMITTED]!;
          if (!early) state[after] = state[RESERVED]!;
          const touched = Array.from(
            { length: state[after]! - state[before]! },
            (_, i) => (state[before]! + i) % capacity,
          );
          if (!touched.includes(state[index]!)) {
            const row = state[value]! / 2 - 1;
            if (state[value]! % 2 !== 0 || row < 0)
              throw new Violation('Rows-4', `a row that is half written is trusted`);
          }
          // The real reader copies an overtaken row again. Here every try counts, so that the
          // reader ends with the writers.
          state[t(T.add)] = state[t(T.add)]! + 1;
          state[t(T.at)] = state[t(T.add)]! < reads ? 0 : 3;
          return true;
        }
        default:
          return false;
      }
    },
  );
}
