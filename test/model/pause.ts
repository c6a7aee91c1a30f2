/**
 * Models the end of a run. The client pauses, the requester and replay answer, and requested slots
 * still pass through. After the end, replay holds no graphs and the requester makes no request. The
 * code is src/engine/ring/header.ts and `over` of src/engine/pipeline/autonomous.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface PauseSetup {
  /** number of slots, of runs one after the other, and of requests that may be made in each run */
  depth: 1 | 2;
  runs: 1 | 2;
  requests: number;
  broken?: PauseMutation;
}

export type PauseMutation =
  | 'the client checks the answers only after the slots'
  | 'the client does not check the answers again after the slots'
  | 'replay does not withdraw an early answer'
  | 'replay answers the pause while slots are in progress'
  | 'the requester answers the pause before it makes its request'
  | 'the client does not number its pauses';

const At = { free: 0, ready: 1, replaying: 2 } as const;
/** Bytes of the state: shared words, then each agent's step and what it has read. */
const [MODE, PAUSES, ASKER, REPLAY, GRAPHS, LEFT] = [0, 1, 2, 3, 4, 5];
const [ASKER_AT, REPLAY_AT, REPLAY_MODE, CLIENT_AT, CLIENT_RUN, NEXT, LAUNCH, DONE] = [
  6, 7, 8, 9, 10, 11, 12, 13,
];
const SLOT = 14;
const Mode = { run: 0, paused: 1 } as const;

export function pauseProtocol({ depth, runs, requests, broken }: PauseSetup): Model {
  const is = (how: PauseMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const slots = Array.from({ length: depth }, (_, slot) => SLOT + slot);
  const idle = (state: State) => slots.every((slot) => at(state, slot) === At.free);
  const paused = (state: State) =>
    [ASKER, REPLAY].every((word) => at(state, word) === at(state, PAUSES));

  /** The requester reads the mode, then makes the request or answers the pause. */
  const asks = (state: State): boolean => {
    const answer = () => {
      state[ASKER] = at(state, PAUSES);
    };
    if (at(state, ASKER_AT) === 0) {
      if (at(state, MODE) === Mode.paused) {
        if (at(state, ASKER) === at(state, PAUSES)) return false;
        answer();
        return true;
      }
      if (at(state, LEFT) === 0 || at(state, SLOT + at(state, NEXT)) !== At.free) return false;
      state[ASKER_AT] = 1;
      return true;
    }
    const early =
      is('the requester answers the pause before it makes its request') &&
      at(state, MODE) === Mode.paused;
    if (early && at(state, ASKER) !== at(state, PAUSES)) {
      answer();
      return true;
    }
    state[SLOT + at(state, NEXT)] = At.ready;
    state[NEXT] = (at(state, NEXT) + 1) % depth;
    state[LEFT]!--;
    state[ASKER_AT] = 0;
    return true;
  };

  /**
   * Replay reads the mode, then whether all slots are idle. It releases its graphs and answers, or
   * it takes its graphs and launches.
   */
  const replays = (state: State): boolean => {
    const phase = at(state, REPLAY_AT);
    if (phase === 0) {
      const something = at(state, SLOT + at(state, LAUNCH)) === At.ready;
      const all = idle(state) || is('replay answers the pause while slots are in progress');
      const answer =
        all && at(state, MODE) === Mode.paused && at(state, REPLAY) !== at(state, PAUSES);
      if (!something && !answer) return false;
      state[REPLAY_MODE] = at(state, MODE);
      state[REPLAY_AT] = 1;
      return true;
    }
    if (phase === 1) {
      const all = idle(state) || is('replay answers the pause while slots are in progress');
      if (at(state, REPLAY_MODE) === Mode.paused && all) state[REPLAY_AT] = 2;
      else if (at(state, SLOT + at(state, LAUNCH)) === At.ready)
        state[REPLAY_AT] = at(state, GRAPHS) ? 6 : 4;
      else state[REPLAY_AT] = 0;
      return true;
    }
    if (phase === 2) {
      state[GRAPHS] = 0;
      state[REPLAY_AT] = 3;
      return true;
    }
    if (phase === 3) {
      state[REPLAY] = at(state, PAUSES);
      state[REPLAY_AT] = 0;
      return true;
    }
    if (phase === 4 || phase === 5) {
      if (phase === 5) state[GRAPHS] = 1;
      else if (at(state, MODE) === Mode.paused && !is('replay does not withdraw an early answer'))
        state[REPLAY] = at(state, PAUSES) - 1;
      state[REPLAY_AT] = phase + 1;
      return true;
    }
    if (!at(state, GRAPHS))
      throw new Violation('graphs', 'replay launches with graphs that it let go');
    state[SLOT + at(state, LAUNCH)] = At.replaying;
    state[LAUNCH] = (at(state, LAUNCH) + 1) % depth;
    state[REPLAY_AT] = 0;
    return true;
  };

  const polls = (state: State): boolean => {
    const slot = SLOT + at(state, DONE);
    if (at(state, slot) !== At.replaying) return false;
    state[slot] = At.free;
    state[DONE] = (at(state, DONE) + 1) % depth;
    return true;
  };

  /**
   * The client pauses, then looks at the answers, the slots, and the answers again. Any of these
   * looks may start a new round.
   */
  const client = (state: State): boolean => {
    const phase = at(state, CLIENT_AT);
    const go = (to: number) => {
      state[CLIENT_AT] = to;
      return true;
    };
    if (phase === 0) {
      if (at(state, CLIENT_RUN) === runs) return false;
      if (!is('the client does not number its pauses') || at(state, PAUSES) === 0) state[PAUSES]!++;
      state[MODE] = Mode.paused;
      return go(1);
    }
    if (phase === 1) {
      return (
        (is('the client checks the answers only after the slots') ? idle(state) : paused(state)) &&
        go(2)
      );
    }
    // The client may wait between two looks for any time. A round that finds the same is not a
    // move.
    if (phase === 2 && !idle(state)) return paused(state) ? false : go(1);
    if (phase === 2)
      return go(is('the client does not check the answers again after the slots') ? 4 : 3);
    if (phase === 3)
      return paused(state)
        ? go(4)
        : !is('the client checks the answers only after the slots') && go(1);
    if (at(state, GRAPHS))
      throw new Violation('graphs', 'the run is over, and replay holds graphs');
    if (!idle(state)) throw new Violation('slots', 'the run is over, and a slot is under way');
    if (at(state, ASKER_AT) === 1)
      throw new Violation('slots', 'the run is over, and a request is on its way');
    state[CLIENT_RUN]!++;
    state[LEFT] = requests;
    state[MODE] = at(state, CLIENT_RUN) === runs ? Mode.paused : Mode.run;
    return go(0);
  };

  const move = (says: string, apply: (state: State) => boolean): Move => ({
    optional: false,
    says: () => says,
    apply,
  });
  return {
    width: SLOT + 2,
    moves: [
      move('the requester goes on', asks),
      move('replay goes on', replays),
      move('poll frees a slot', polls),
      move('the client goes on', client),
    ],
    start: (state) => {
      state.fill(0);
      state[LEFT] = requests;
    },
    unfinished: (state) =>
      at(state, CLIENT_RUN) === runs
        ? null
        : `run ${at(state, CLIENT_RUN)} of ${runs} does not end`,
  };
}
