/**
 * Models claims: one word that threads take, release, and lose if they end, at any moment. A native
 * call is one step, because a thread that is terminated still finishes the call. The rules Claim-1
 * to Claim-3 are in src/shm/claim.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface ClaimsSetup {
  threads: 2 | 3;
  /** number of times that each thread takes the word */
  takes: 1 | 2;
  /** whether each thread may end at any step */
  ends: boolean;
  broken?: ClaimsMutation;
}

export type ClaimsMutation =
  | 'a thread checks and takes the word in two steps'
  | 'a thread takes the word and registers the claim in two steps'
  | 'all threads use the same claim number'
  | 'a thread releases the word without comparing its claim'
  | 'a thread that ends frees the word without comparing its claim'
  | 'a thread unregisters its claim before it releases the word';

/**
 * The word, the number of the newest claim, and the owners: a bit for each thread that was granted
 * the word.
 */
const [WORD, NUMBER, OWNERS] = [0, 1, 2];
/**
 * Bytes of each thread: its step, its claim's number, the claim that native code watches for it,
 * and how often it took the word.
 */
const THREAD = 4;
const [STEP, CLAIM, WATCHED, TAKES] = [0, 1, 2, 3];
const Step = {
  numbers: 0,
  looks: 1,
  takes: 2,
  watches: 3,
  owns: 4,
  gives: 5,
  unwatches: 6,
  again: 7,
  over: 8,
  gone: 9,
};

export function claimsProtocol({ threads, takes, ends, broken }: ClaimsSetup): Model {
  const is = (how: ClaimsMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const own = (thread: number, what: number) => THREAD + 4 * thread + what;

  const owns = (state: State, thread: number, yes: boolean) => {
    const bit = 1 << thread;
    if (!yes) state[OWNERS] = at(state, OWNERS) & ~bit;
    else if (at(state, OWNERS) !== 0)
      throw new Violation('Claim-1', `thread ${thread} has the word, and so has another`);
    else state[OWNERS] = bit;
  };
  /** Frees the word, either for its owner or because its owner has ended. */
  const free = (state: State, thread: number) => {
    const others = at(state, OWNERS) & ~(1 << thread);
    if (others !== 0)
      throw new Violation('Claim-2', `thread ${thread} gives back what another one has`);
    state[WORD] = 0;
    state[OWNERS] = 0;
  };

  const step = (state: State, thread: number): boolean => {
    const go = (to: number): true => {
      state[own(thread, STEP)] = to;
      return true;
    };
    const claim = at(state, own(thread, CLAIM));
    const done = () => {
      const count = at(state, own(thread, TAKES)) + 1;
      state[own(thread, TAKES)] = count;
      state[own(thread, CLAIM)] = 0;
      return go(count === takes ? Step.over : Step.numbers);
    };
    const watch = () => {
      state[own(thread, WATCHED)] = claim;
    };
    const twice = is('a thread takes the word and registers the claim in two steps');
    const take = () => {
      owns(state, thread, true);
      state[WORD] = claim;
      if (!twice) watch();
      return go(twice ? Step.watches : Step.owns);
    };
    const early = is('a thread unregisters its claim before it releases the word');
    const unwatch = () => {
      state[own(thread, WATCHED)] = 0;
    };
    switch (at(state, own(thread, STEP))) {
      case Step.numbers: {
        const number = at(state, NUMBER) + 1;
        state[NUMBER] = number;
        state[own(thread, CLAIM)] = is('all threads use the same claim number') ? 1 : number;
        return go(is('a thread checks and takes the word in two steps') ? Step.looks : Step.takes);
      }
      case Step.looks:
        return at(state, WORD) === 0 ? go(Step.takes) : done();
      case Step.takes:
        if (is('a thread checks and takes the word in two steps')) return take();
        return at(state, WORD) === 0 ? take() : done();
      case Step.watches:
        watch();
        return go(Step.owns);
      case Step.owns:
        if (early) unwatch();
        return go(Step.gives);
      case Step.gives:
        if (
          at(state, WORD) === claim ||
          is('a thread releases the word without comparing its claim')
        ) {
          owns(state, thread, false);
          free(state, thread);
        }
        return go(early ? Step.again : Step.unwatches);
      case Step.unwatches:
        unwatch();
        return go(Step.again);
      case Step.again:
        // Releasing twice is allowed: close() may be called twice.
        if (
          at(state, WORD) === claim ||
          is('a thread releases the word without comparing its claim')
        )
          free(state, thread);
        return done();
      default:
        return false;
    }
  };
  /** What native code does when a thread's environment ends, at any step of the thread. */
  const end = (state: State, thread: number): boolean => {
    if (!ends || at(state, own(thread, STEP)) === Step.gone) return false;
    const watched = at(state, own(thread, WATCHED));
    if (
      watched !== 0 &&
      (at(state, WORD) === watched ||
        is('a thread that ends frees the word without comparing its claim'))
    )
      free(state, thread);
    state.fill(0, own(thread, 0), own(thread, 4));
    state[own(thread, STEP)] = Step.gone;
    if (at(state, OWNERS) & (1 << thread))
      throw new Violation('Claim-3', `thread ${thread} has gone, and has the word still`);
    return true;
  };

  const moves: Move[] = Array.from({ length: threads }, (_, i): Move[] => [
    {
      optional: false,
      says: (state) => `thread ${i} ${SAYS[at(state, own(i, STEP))]}`,
      apply: (state) => step(state, i),
    },
    { optional: true, says: () => `thread ${i} ends`, apply: (state) => end(state, i) },
  ]).flat();
  return {
    width: THREAD + 4 * threads,
    moves,
    start: (state) => void state.fill(0),
    unfinished(state) {
      const left = Array.from({ length: threads }, (_, i) => at(state, own(i, STEP))).find(
        (of) => of < Step.over,
      );
      if (left !== undefined) return `a thread ${SAYS[left]}`;
      return at(state, WORD) === 0 ? null : 'nobody has the word, and nobody can take it';
    },
  };
}

const SAYS = [
  'takes a number',
  'looks at the word',
  'takes the word',
  'has it watched',
  'owns it',
  'gives it back',
  'has it watched no more',
  'gives it back again',
  'is over',
  'has gone',
];
