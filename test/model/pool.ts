/**
 * Models a collector pool's stop and hold. Collectors loop, an opener makes them wait during a
 * checkpoint, somebody closes the pool, and threads end. A park has no time limit here, so the
 * model finds a deadlock that only the limit would end. The rules Pool-1 to Pool-4 are in
 * src/run/collectors/control-block.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface PoolSetup {
  workers: 1 | 2;
  /** number of checkpoints, one after the other */
  holds: 0 | 1 | 2;
  /** number of rows that the limiter admits, one at a time */
  rows: number;
  /** whether collectors have a state() */
  states: boolean;
  /**
   * number of threads that end, and how many of them are replaced; the first thread that is not
   * replaced stops the others
   */
  ends?: 0 | 1 | 2;
  restarts?: 0 | 1 | 2;
  /** whether the opener may stop waiting for a collector */
  late?: boolean;
  broken?: PoolMutation;
}

export type PoolMutation =
  | 'a collector reads its bell after the stop word'
  | 'a collector reads its bell after the limiter refuses a row'
  | 'the closer rings the bells before it stores the stop word'
  | 'the closer does not change the hold word'
  | 'the closer rings no bell'
  | 'the opener rings no bell for a hold'
  | 'the opener notifies no collector after a release'
  | 'a collector stands still during any hold'
  | 'a collector does not remember the hold that it answered'
  | 'the opener accepts an answer to an earlier hold'
  | 'a collector continues after its answer without waiting'
  | 'the opener waits for collectors that have ended'
  | 'the opener counts a restarted collector as ended';

/**
 * Bytes of the state: shared words, the opener's and the closer's, then those of each collector.
 */
const [STOP, HOLD, ROOM, ROWS, SAMPLER, OPENER, HOLDS, CLOSER, ENDS, RESTARTS, TAKEN] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
];
const WORKER = 11;
const OWN = 11;
const [AT, BELL, SEEN, TOLD, ASKED, ROW, MAIL, ANSWER, CLEAN, GONE, PORT] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
];
const At = {
  bell: 0,
  stop: 1,
  hold: 2,
  collects: 3,
  adds: 4,
  parks: 5,
  says: 6,
  looks: 7,
  lies: 8,
  sleeps: 9,
  left: 10,
};
const Opener = { idle: 0, rings: 1, waits: 2, held: 3, tells: 4 };
const Closer = { idle: 0, stops: 1, changes: 2, tells: 3, rings: 4, done: 5 };
/** What the opener knows of a collector during this hold. */
const Answer = { none: 0, saved: 1, nothing: 2, late: 3 };

export function poolProtocol(setup: PoolSetup): Model {
  const { workers, holds, rows, states, ends = 0, restarts = 0, late = false, broken } = setup;
  const is = (how: PoolMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const own = (worker: number, what: number) => WORKER + OWN * worker + what;
  const all = Array.from({ length: workers }, (_, worker) => worker);
  const of = (state: State, worker: number, what: number) => at(state, own(worker, what));

  /** Records that a collector changes its state. Throws if a checkpoint has saved that state. */
  const changes = (state: State, worker: number) => {
    state[own(worker, CLEAN)] = 0;
    if (at(state, OPENER) === Opener.held && of(state, worker, ANSWER) === Answer.saved)
      throw new Violation(
        'Pool-2',
        `collector ${worker} goes on while a checkpoint is taken of it`,
      );
  };
  const ring = (state: State) => {
    for (const worker of all) state[own(worker, BELL)] = (of(state, worker, BELL) + 1) % 16;
  };
  const tell = (state: State) => {
    for (const worker of all)
      if (of(state, worker, AT) === At.sleeps) state[own(worker, AT)] = At.looks;
  };

  const collector = (state: State, worker: number): boolean => {
    const set = (what: number, value: number) =>
      state.fill(value, own(worker, what), own(worker, what) + 1);
    const go = (to: number): true => {
      set(AT, to);
      return true;
    };
    const stopped = () => at(state, STOP) === 1;
    const listen = () => set(SEEN, of(state, worker, BELL));
    switch (of(state, worker, AT)) {
      case At.bell:
        if (!is('a collector reads its bell after the stop word')) listen();
        return go(At.stop);
      case At.stop:
        if (stopped()) set(GONE, 1);
        return go(stopped() ? At.left : At.hold);
      case At.hold: {
        if (is('a collector reads its bell after the stop word')) listen();
        const hold = at(state, HOLD);
        set(ASKED, hold);
        if (hold % 2 === 0 || hold === of(state, worker, TOLD)) return go(At.collects);
        if (!is('a collector does not remember the hold that it answered')) set(TOLD, hold);
        return go(At.says);
      }
      case At.collects:
        if (of(state, worker, ROW) === 0) {
          changes(state, worker);
          set(ROW, 1);
        }
        return go(At.adds);
      case At.adds:
        if (at(state, ROOM) === 0) {
          if (is('a collector reads its bell after the limiter refuses a row')) listen();
          return go(At.parks);
        }
        changes(state, worker);
        state[ROOM]!--;
        set(ROW, 0);
        return go(At.bell);
      case At.parks:
        return of(state, worker, SEEN) !== of(state, worker, BELL) && go(At.bell);
      case At.says:
        set(MAIL, of(state, worker, ASKED));
        set(CLEAN, 1);
        return go(
          states && !is('a collector continues after its answer without waiting')
            ? At.looks
            : At.bell,
        );
      case At.looks:
        // The collector checks the hold word and the stop word.
        return stands(state, worker) && !stopped() ? go(At.lies) : go(At.bell);
      case At.lies:
        // Atomics.waitAsync compares and sleeps in one step.
        return go(stands(state, worker) ? At.sleeps : At.looks);
    }
    return false;
  };
  const stands = (state: State, worker: number) =>
    is('a collector stands still during any hold')
      ? at(state, HOLD) % 2 !== 0
      : at(state, HOLD) === of(state, worker, ASKED);

  /** A thread ends, at any step. */
  const end = (state: State, worker: number): boolean => {
    if (at(state, ENDS) === 0 || of(state, worker, GONE) !== 0) return false;
    state[ENDS]!--;
    state[own(worker, GONE)] = 2;
    state[own(worker, AT)] = At.left;
    return true;
  };

  /**
   * The opener's event loop delivers an event of a collector: its answer, or the end of its thread.
   */
  const hears = (state: State, worker: number): boolean => {
    // No event arrives between the opener's store of the hold word and its ring.
    if (at(state, OPENER) === Opener.rings) return false;
    const waits = at(state, OPENER) === Opener.waits;
    const mail = of(state, worker, MAIL);
    if (mail !== 0) {
      state[own(worker, MAIL)] = 0;
      if (
        waits &&
        (mail === at(state, TAKEN) || is('the opener accepts an answer to an earlier hold'))
      )
        state[own(worker, ANSWER)] = states ? Answer.saved : Answer.nothing;
      return true;
    }
    const how = of(state, worker, GONE);
    if (how === 0 || of(state, worker, PORT) === 0) return false;
    const nothing = () => {
      if (waits) state[own(worker, ANSWER)] = Answer.nothing;
    };
    if (how === 2 && at(state, RESTARTS) > 0 && at(state, STOP) === 0) {
      state[RESTARTS]!--;
      for (const what of [AT, SEEN, TOLD, ASKED, ROW, GONE]) state[own(worker, what)] = 0;
      // The successor has done nothing yet, and it waits for the hold before it does.
      state[own(worker, CLEAN)] = 1;
      if (is('the opener counts a restarted collector as ended')) nothing();
      return true;
    }
    state[own(worker, PORT)] = 0;
    nothing();
    if (how === 2 && at(state, CLOSER) === Closer.idle) state[CLOSER] = Closer.stops;
    return true;
  };

  const opener = (state: State): boolean => {
    const go = (to: number): true => {
      state[OPENER] = to;
      return true;
    };
    switch (at(state, OPENER)) {
      case Opener.idle: {
        if (at(state, HOLDS) === 0) return false;
        state[HOLDS]!--;
        state[TAKEN] = ++state[HOLD]!;
        const gone = (worker: number) =>
          of(state, worker, PORT) === 0 && !is('the opener waits for collectors that have ended');
        for (const worker of all)
          state[own(worker, ANSWER)] = gone(worker) ? Answer.nothing : Answer.none;
        return go(Opener.rings);
      }
      case Opener.rings:
        if (!is('the opener rings no bell for a hold')) ring(state);
        return go(Opener.waits);
      case Opener.waits:
        if (all.some((worker) => of(state, worker, ANSWER) === Answer.none)) return false;
        for (const worker of all) {
          const answer = of(state, worker, ANSWER);
          if (
            answer === Answer.saved &&
            of(state, worker, GONE) === 0 &&
            of(state, worker, CLEAN) === 0
          )
            throw new Violation(
              'Pool-2',
              `collector ${worker} has gone on since it said where it is`,
            );
          if (states && answer === Answer.nothing && of(state, worker, GONE) === 0)
            throw new Violation(
              'Pool-4',
              `collector ${worker} runs, and is neither saved nor named`,
            );
        }
        return go(Opener.held);
      case Opener.tells:
        if (!is('the opener notifies no collector after a release')) tell(state);
        return go(Opener.idle);
    }
    return false;
  };
  /** A checkpoint may take any time to write. The pool can be closed meanwhile. */
  const releases = (state: State): boolean => {
    if (at(state, OPENER) !== Opener.held) return false;
    state[HOLD]!++;
    state[OPENER] = Opener.tells;
    return true;
  };
  const givesUp = (state: State): boolean => {
    if (!late || at(state, OPENER) !== Opener.waits) return false;
    const missing = all.find((worker) => of(state, worker, ANSWER) === Answer.none);
    if (missing !== undefined) state[own(missing, ANSWER)] = Answer.late;
    return missing !== undefined;
  };

  const early = is('the closer rings the bells before it stores the stop word');
  const closer = (state: State): boolean => {
    const phase = at(state, CLOSER);
    if (phase === Closer.idle || phase === Closer.done) return false;
    if (phase === Closer.stops) {
      if (early) ring(state);
      else state[STOP] = 1;
    }
    if (phase === Closer.changes && !is('the closer does not change the hold word'))
      state[HOLD]! += 2;
    if (phase === Closer.tells) tell(state);
    if (phase === Closer.rings) {
      if (early) state[STOP] = 1;
      else if (!is('the closer rings no bell')) ring(state);
    }
    state[CLOSER] = phase + 1;
    return true;
  };

  const closes = (state: State): boolean => {
    if (at(state, CLOSER) !== Closer.idle) return false;
    state[CLOSER] = Closer.stops;
    return true;
  };

  const sampler = (state: State): boolean => {
    if (at(state, SAMPLER) === 1) {
      ring(state);
      state[SAMPLER] = 0;
      return true;
    }
    if (at(state, ROWS) === 0) return false;
    state[ROWS]!--;
    state[ROOM]!++;
    state[SAMPLER] = 1;
    return true;
  };

  const move = (says: string, apply: (state: State) => boolean, optional = false): Move => ({
    optional,
    apply,
    says: () => says,
  });
  const moves = [
    ...all.flatMap((worker) => [
      move(`collector ${worker} goes on`, (state) => collector(state, worker)),
      move(`the opener hears of collector ${worker}`, (state) => hears(state, worker)),
      move(`the thread of collector ${worker} ends`, (state) => end(state, worker), true),
    ]),
    move('the opener goes on', opener),
    move('the opener gives up', givesUp, true),
    move('the opener releases', releases, true),
    move('somebody closes', closes, true),
    move('the closer goes on', closer),
    move('the limiter lets a row in', sampler),
  ];
  return {
    width: Math.ceil((WORKER + OWN * workers) / 4) * 4,
    moves,
    start(state) {
      state.fill(0);
      [state[ROWS], state[HOLDS], state[ENDS], state[RESTARTS]] = [rows, holds, ends, restarts];
      for (const worker of all) state[own(worker, PORT)] = 1;
    },
    unfinished(state) {
      const [opens, closed] = [at(state, OPENER), at(state, CLOSER) === Closer.done];
      const left = all.find((worker) => of(state, worker, PORT) === 1);
      if (closed && left !== undefined)
        return `collector ${left} does not leave (${of(state, left, AT)})`;
      if (opens === Opener.held) return null;
      if (opens !== Opener.idle || at(state, HOLDS) > 0) return 'a checkpoint waits for ever';
      const still = all.find((worker) => of(state, worker, AT) === At.sleeps);
      return still === undefined ? null : `collector ${still} stands still behind the checkpoint`;
    },
  };
}
