/**
 * Models a broadcast ring: a writer that keeps the last entries, each of two words, and a reader
 * that follows the writer. Stores become visible in program order, with one exception that arm64
 * allows. The head's new value may become visible after the words that the writer stores later,
 * until the writer loads the head. The rules Broadcast-1 and Broadcast-2 are in
 * src/shm/broadcast.ts.
 */
import { type Model, type State, Violation } from './checker.ts';

export interface BroadcastSetup {
  capacity: 2 | 4;
  /** number of entries that the writer writes */
  entries: number;
  broken?: BroadcastMutation;
}

export type BroadcastMutation =
  | 'the writer publishes an entry before it writes the words'
  | 'the writer begins an entry without loading the head'
  | 'the reader does not check the head after its copy'
  | 'the reader tolerates a lag that is one entry too long'
  | 'the reader checks the head before its copy is complete'
  | 'the reader does not count an overwritten entry as missed'
  | 'the reader continues at the newest head and skips entries';

/**
 * Bytes of the state. HEAD is the head as others see it, MINE the head as the writer sees it.
 * WRITES is the writer's step. STEP, NEXT, UNTIL, AT, MISSED, SEEN, FIRST and LATE belong to the
 * reader.
 */
const [HEAD, MINE, WRITES, STEP, NEXT, UNTIL, AT, MISSED, SEEN, FIRST, LATE] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
];
const ENTRY = 12;
const Write = { begins: 0, first: 1, second: 2, publishes: 3 };
const Read = { head: 0, first: 1, second: 2, looks: 3, over: 4 };

export function broadcastProtocol({ capacity, entries, broken }: BroadcastSetup): Model {
  const is = (how: BroadcastMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const word = (n: number, which: number) => ENTRY + 2 * (n % capacity) + which;
  const early = is('the writer publishes an entry before it writes the words');

  const write = (state: State): boolean => {
    const n = at(state, MINE);
    const go = (to: number): true => {
      state[WRITES] = to;
      return true;
    };
    switch (at(state, WRITES)) {
      case Write.begins:
        if (n === entries) return false;
        // The writer loads the head with acquire. The load waits until the writer's last addition
        // is visible, and the words that follow wait for the load.
        if (at(state, HEAD) !== n && !is('the writer begins an entry without loading the head'))
          return false;
        return go(early ? Write.publishes : Write.first);
      case Write.first:
        state[word(early ? n - 1 : n, 0)] = early ? n : n + 1;
        return go(Write.second);
      case Write.second:
        state[word(early ? n - 1 : n, 1)] = early ? n : n + 1;
        return go(early ? Write.begins : Write.publishes);
      default:
        // The writer's last addition to the head must be visible before its next one.
        if (at(state, HEAD) !== n) return false;
        state[MINE] = n + 1;
        return go(early ? Write.first : Write.begins);
    }
  };
  const comesOut = (state: State): boolean => {
    if (at(state, HEAD) === at(state, MINE)) return false;
    state[HEAD] = at(state, HEAD) + 1;
    return true;
  };

  const read = (state: State): boolean => {
    const n = at(state, AT);
    const go = (to: number): true => {
      state[STEP] = to;
      return true;
    };
    const entry = (): boolean => {
      if (n + 1 < at(state, UNTIL)) {
        state[AT] = n + 1;
        return go(Read.first);
      }
      state[NEXT] = is('the reader continues at the newest head and skips entries')
        ? at(state, HEAD)
        : at(state, UNTIL);
      state[FIRST] = 0;
      if (at(state, NEXT) < entries) return go(Read.head);
      const counted = at(state, SEEN) + at(state, MISSED);
      if (counted !== entries)
        throw new Violation('Broadcast-2', `${counted} of ${entries} entries were read or missed`);
      return go(Read.over);
    };
    const takes = (): boolean => {
      if (at(state, FIRST) !== n + 1 || at(state, LATE) !== n + 1)
        throw new Violation(
          'Broadcast-1',
          `entry ${n} has words of entries ${at(state, FIRST) - 1} and ${at(state, LATE) - 1}`,
        );
      state[SEEN] = at(state, SEEN) + 1;
      return entry();
    };
    const before = is('the reader checks the head before its copy is complete');
    const looks = (): boolean => {
      const far = at(state, HEAD) - n;
      if (far < capacity || is('the reader does not check the head after its copy')) return false;
      if (is('the reader tolerates a lag that is one entry too long') && far === capacity)
        return false;
      if (!is('the reader does not count an overwritten entry as missed'))
        state[MISSED] = at(state, MISSED) + 1;
      return true;
    };
    switch (at(state, STEP)) {
      case Read.head: {
        const head = at(state, HEAD);
        if (head === at(state, NEXT)) return false;
        const missed = Math.max(0, head - at(state, NEXT) - (capacity - 1));
        state[UNTIL] = head;
        state[MISSED] = at(state, MISSED) + missed;
        state[AT] = at(state, NEXT) + missed;
        return go(Read.first);
      }
      case Read.first:
        state[FIRST] = at(state, word(n, 0));
        if (before && looks()) return entry();
        return go(Read.second);
      case Read.second:
        state[LATE] = at(state, word(n, 1));
        return before ? takes() : go(Read.looks);
      case Read.looks:
        return looks() ? entry() : takes();
      default:
        return false;
    }
  };

  return {
    width: (ENTRY + 2 * capacity + 3) & ~3,
    moves: [
      {
        optional: false,
        says: (state) => `the writer ${WRITING[at(state, WRITES)]} (${at(state, MINE)})`,
        apply: write,
      },
      {
        optional: false,
        says: (state) => `the head comes out as ${at(state, HEAD) + 1}`,
        apply: comesOut,
      },
      {
        optional: false,
        says: (state) => `the reader ${READING[at(state, STEP)]} (${at(state, AT)})`,
        apply: read,
      },
    ],
    start: (state) => void state.fill(0),
    unfinished: (state) =>
      at(state, STEP) === Read.over ? null : `the reader ${READING[at(state, STEP)]}`,
  };
}

const WRITING = [
  'begins an entry',
  'writes its first word',
  'writes its second word',
  'adds one to the head',
];
const READING = [
  'looks at the head',
  'copies the first word',
  'copies the second word',
  'looks again',
  'is over',
];
