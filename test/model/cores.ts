/**
 * Models the pool of cores. A caller does jobs in pieces, one job after the other, and helpers take
 * pieces of them. The memory shows stores late and out of order. The rules CorePool-1 to CorePool-5
 * are in native/wait/core_pool.hpp.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';
import { WeakMemory } from './weak-memory.ts';

export interface CoresSetup {
  pieces: 1 | 2;
  helpers: 1 | 2;
  /** number of helpers that may join one job */
  places: 1 | 2;
  /** number of the caller's jobs, one after the other in the same memory */
  jobs: 1 | 2;
  broken?: CoresMutation;
}

export type CoresMutation =
  | 'a thread loads and stores the next piece in two steps'
  | 'a thread counts a piece as done before it does the piece'
  | 'a thread counts a piece as done without release order'
  | 'the caller loads `done` without acquire order'
  | 'the caller returns before helpers finish their pieces'
  | 'the caller frees the job when its call returns'
  | 'the caller offers the job before it writes the input'
  | 'a helper checks the list without the lock'
  | 'a helper checks for a free place and joins in two steps';

/**
 * The caller's step and job. Jobs on the list, and jobs whose call has returned, a bit for each. By
 * job: the pieces that are done, and the helpers that joined, a bit for each.
 */
const [AT, JOB, LISTED, OVER, MADE, JOINED] = [0, 1, 2, 3, 4, 6];
/**
 * Bytes of each thread, the caller first: its piece + 1. Helpers also have a step, a job, and
 * whether they sleep.
 */
const THREAD = 8;
const [PIECE, STEP, HAS, ASLEEP] = [0, 1, 2, 3];
const At = {
  input: 0,
  offers: 1,
  takes: 2,
  does: 3,
  counts: 4,
  withdraws: 5,
  waits: 6,
  looks: 7,
  ends: 9,
};
const Step = { looks: 0, takes: 1, does: 2, counts: 3, sleeps: 4, joins: 5 };
/** Words of the weak memory: the input, two results, then `next` and `done` of each job. */
const [INPUT, RESULT, JOBS] = [0, 1, 3];
/** Threads of the weak memory: the caller, two helpers, and the lock, which carries views. */
const LOCK = 3;
const memory = new WeakMemory(THREAD + 12, [2, 4, 4, 5, 3, 5, 3], 4);

export function coresProtocol({ pieces, helpers, places, jobs, broken }: CoresSetup): Model {
  const is = (how: CoresMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const own = (thread: number, what: number) => THREAD + 4 * thread + what;
  const next = (job: number) => JOBS + 2 * job;
  const done = (job: number) => JOBS + 2 * job + 1;

  /**
   * Runs `act` with the lock held. The next holder of the lock acquires all that this holder knows.
   */
  const locked = (state: State, thread: number, act: () => void) => {
    memory.hand(state, LOCK, thread);
    act();
    memory.hand(state, thread, LOCK);
  };
  const alive = (state: State, job: number, what: string) => {
    if (at(state, OVER) & (1 << job))
      throw new Violation('CorePool-2', `${what} of job ${job}, whose call has returned`);
  };

  /**
   * Takes the job's next piece for the thread. Returns false if no piece is left, and null if
   * `choice` finds no store. One atomic addition gives each piece to one thread (CorePool-1).
   */
  const take = (state: State, thread: number, job: number, choice: number): boolean | null => {
    if (is('the caller frees the job when its call returns'))
      alive(state, job, 'a piece is asked for');
    let piece: number;
    if (
      is('a thread loads and stores the next piece in two steps') &&
      !at(state, own(thread, PIECE))
    ) {
      piece = memory.load(state, thread, next(job), 'relaxed', choice);
      if (piece < 0 || piece > pieces) return null;
      if (piece < pieces) memory.store(state, thread, next(job), piece + 1, 'relaxed');
    } else {
      if (choice > 0) return null;
      piece = memory.change(state, thread, next(job), 'relaxed', (value) => value + 1);
    }
    state[own(thread, PIECE)] = piece < pieces ? piece + 1 : 0;
    return piece < pieces;
  };
  const does = (state: State, thread: number, job: number, choice: number): boolean => {
    const piece = at(state, own(thread, PIECE)) - 1;
    const input = memory.load(state, thread, INPUT, 'bytes', choice);
    if (input < 0) return false;
    alive(state, job, `piece ${piece} is done`);
    if (input !== job + 1)
      throw new Violation('CorePool-3', `piece ${piece} of job ${job} finds the input of another`);
    if (at(state, MADE + job) & (1 << piece))
      throw new Violation('CorePool-1', `piece ${piece} is done twice`);
    state[MADE + job] = at(state, MADE + job) | (1 << piece);
    memory.store(state, thread, RESULT + piece, job + 1, 'relaxed');
    return true;
  };
  const counts = (state: State, thread: number, job: number) => {
    memory.change(
      state,
      thread,
      done(job),
      is('a thread counts a piece as done without release order') ? 'relaxed' : 'release',
      (n) => n + 1,
    );
  };

  const caller = (state: State, choice: number): boolean => {
    const job = at(state, JOB);
    const go = (to: number): true => {
      state[AT] = to;
      return true;
    };
    const early = is('a thread counts a piece as done before it does the piece');
    const late = is('the caller offers the job before it writes the input');
    const only = (act: () => void, to: number): boolean => {
      if (choice > 0) return false;
      act();
      return go(to);
    };
    const withdraw = () =>
      locked(state, 0, () => {
        state[LISTED] = at(state, LISTED) & ~(1 << job);
      });
    const input = () => memory.store(state, 0, INPUT, job + 1, 'relaxed');
    const offer = () =>
      locked(state, 0, () => {
        state[LISTED] = at(state, LISTED) | (1 << job);
        let wanted = places as number;
        for (let i = 1; i <= helpers && wanted > 0; i++) {
          if (at(state, own(i, ASLEEP))) wanted--;
          state[own(i, ASLEEP)] = 0;
        }
      });
    switch (at(state, AT)) {
      case At.input:
        return only(late ? offer : input, At.offers);
      case At.offers:
        return only(late ? input : offer, At.takes);
      case At.takes: {
        const got = take(state, 0, job, choice);
        return got !== null && go(got ? (early ? At.counts : At.does) : At.withdraws);
      }
      case At.does:
        return does(state, 0, job, choice) && go(early ? At.takes : At.counts);
      case At.counts:
        return only(() => counts(state, 0, job), early ? At.does : At.takes);
      case At.withdraws:
        return only(withdraw, At.waits);
      case At.waits: {
        const order = is('the caller loads `done` without acquire order') ? 'relaxed' : 'acquire';
        if (!is('the caller returns before helpers finish their pieces')) {
          const found = memory.load(state, 0, done(job), order, choice);
          if (found < pieces) return false;
        } else if (choice > 0) return false;
        state[own(0, PIECE)] = 0;
        return go(At.looks);
      }
      case At.looks:
      case At.looks + 1: {
        const piece = at(state, AT) - At.looks;
        if (piece < pieces) {
          const found = memory.load(state, 0, RESULT + piece, 'bytes', choice);
          if (found < 0) return false;
          if (found !== job + 1)
            throw new Violation(
              'CorePool-3',
              `job ${job} is over, and piece ${piece} is not there`,
            );
        } else if (choice > 0) return false;
        if (piece === 0) return go(At.looks + 1);
        state[OVER] = at(state, OVER) | (1 << job);
        state[JOB] = job + 1;
        return go(job + 1 === jobs ? At.ends : At.input);
      }
      default:
        return false;
    }
  };

  const helper = (state: State, thread: number, choice: number): boolean => {
    const job = at(state, own(thread, HAS));
    const go = (to: number): true => {
      state[own(thread, STEP)] = to;
      return true;
    };
    const early = is('a thread counts a piece as done before it does the piece');
    const joined = (each: number) =>
      [0, 1].filter((bit) => at(state, JOINED + each) & (1 << bit)).length;
    const found = () =>
      [0, 1].find(
        (each) => at(state, LISTED) & (1 << each) && joined(each) < places && !taken(state, each),
      );
    const join = (each: number) => {
      state[JOINED + each] = at(state, JOINED + each) | (1 << (thread - 1));
      if (joined(each) > places)
        throw new Violation('CorePool-5', `${joined(each)} helpers join job ${each}`);
    };
    switch (at(state, own(thread, STEP))) {
      case Step.looks: {
        if (choice > 0) return false;
        const there = found();
        if (there === undefined) {
          if (is('a helper checks the list without the lock')) return go(Step.sleeps);
          state[own(thread, ASLEEP)] = 1;
          return go(Step.sleeps);
        }
        const apart = is('a helper checks for a free place and joins in two steps');
        locked(state, thread, () => {
          state[own(thread, HAS)] = there;
          if (!apart) join(there);
        });
        return go(apart ? Step.joins : Step.takes);
      }
      case Step.joins:
        if (choice > 0) return false;
        join(job);
        return go(Step.takes);
      case Step.takes: {
        const got = take(state, thread, job, choice);
        if (got === null) return false;
        if (!got) state[own(thread, HAS)] = 0;
        return go(got ? (early ? Step.counts : Step.does) : Step.looks);
      }
      case Step.does:
        return does(state, thread, job, choice) && go(early ? Step.takes : Step.counts);
      case Step.counts:
        if (choice > 0) return false;
        counts(state, thread, job);
        return go(early ? Step.does : Step.takes);
      default: {
        if (choice > 0) return false;
        if (is('a helper checks the list without the lock') && !at(state, own(thread, ASLEEP))) {
          state[own(thread, ASLEEP)] = 1;
          if (found() !== undefined)
            throw new Violation('CorePool-4', 'a helper goes to sleep while there is work');
        }
        return at(state, own(thread, ASLEEP)) === 0 && go(Step.looks);
      }
    }
  };
  /**
   * Whether a helper that holds the lock sees that no piece is left. The newest value is enough: a
   * helper with an older value learns the truth when it asks for a piece.
   */
  const taken = (state: State, job: number) => memory.newest(state, next(job)) >= pieces;

  const choices = [0, 1, 2];
  const moves: Move[] = choices.flatMap((choice) => [
    {
      optional: false,
      says: (state) => `the caller ${CALLS[at(state, AT)]}`,
      apply: (state) => caller(state, choice),
    },
    ...Array.from(
      { length: helpers },
      (_, i): Move => ({
        optional: false,
        says: (state) => `helper ${i} ${HELPS[at(state, own(i + 1, STEP))]}`,
        apply: (state) => helper(state, i + 1, choice),
      }),
    ),
  ]);
  return {
    width: (memory.end + 3) & ~3,
    moves,
    start: (state) => void state.fill(0),
    unfinished: (state) =>
      at(state, AT) === At.ends ? null : `the caller ${CALLS[at(state, AT)]}`,
  };
}

const CALLS = [
  'writes its input',
  'offers the job',
  'asks for a piece',
  'does a piece',
  'counts it',
  'withdraws the job',
  'waits for what helpers began',
  'looks at piece 0',
  'looks at piece 1',
  'has ended',
];
const HELPS = [
  'looks at the list',
  'asks for a piece',
  'does a piece',
  'counts it',
  'sleeps',
  'takes a place',
];
