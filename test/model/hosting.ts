/**
 * Models roles that move between two threads. The client changes which table of hosts is valid. A
 * thread gives up its roles, stores that it has seen the table, and takes up new roles. Another
 * thread rings the host of a role. Threads die and are replaced. The rule is Slot-10 of
 * src/engine/ring/slot.ts. The code is actors/hosted.ts, `host` and `seeHosting` of
 * src/engine/ring/header.ts, and `of` of src/engine/ring/role-bells.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface HostingSetup {
  /** number of times that the client changes the table */
  changes: 1 | 2 | 3;
  /** number of times that another thread needs work of the roles */
  wishes: 0 | 1 | 2;
  deaths: 0 | 1 | 2;
  broken?: HostingMutation;
}

export type HostingMutation =
  | 'a thread takes up roles before the other thread gives them up'
  | 'a thread stores `seen` before it gives up its roles'
  | 'a thread that gives up its roles rings no bell'
  | 'the client changes the table and rings no bell'
  | 'a thread reads the table before it stores its request'
  | 'a successor takes up roles without waiting';

/**
 * Words. `HOSTING`: the valid table. `SEEN`: the table that each thread has seen. `WANTED`: work
 * that is wanted of the roles, a bit each of the client and the other thread.
 */
const [HOSTING, SEEN, WANTED] = [0, 1, 3];
const [CLIENT_AT, CHANGED, OTHER_AT, WISHED, OTHER_READ, DIED] = [4, 5, 6, 7, 8, 9];
/**
 * Bytes of each thread. `STEP`: its step. `READ`: the table that it read. `FOLLOWS`: the table that
 * it follows. `HOSTS`: whether it hosts the roles. `RUNG`: whether its bell was rung.
 */
const THREAD = 10;
const [STEP, READ, FOLLOWS, HOSTS, RUNG] = [0, 1, 2, 3, 4];
const Step = {
  bell: 0,
  reads: 1,
  letsGo: 2,
  says: 3,
  looks: 4,
  takes: 5,
  works: 6,
  parks: 7,
  dead: 8,
};
const NONE = 2;
const THREADS = ['the first thread', 'the second thread'];

export function hostingProtocol({ changes, wishes, deaths, broken }: HostingSetup): Model {
  const is = (how: HostingMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const own = (thread: number, what: number) => THREAD + 5 * thread + what;
  /** Rings the bell of a thread. The table's number is that of the thread that hosts the roles. */
  const ring = (state: State, thread: number) => {
    state[own(thread, RUNG)] = 1;
  };
  const ringAll = (state: State) => {
    for (const thread of [0, 1]) ring(state, thread);
  };
  const alone = (state: State) => {
    if (at(state, own(0, HOSTS)) && at(state, own(1, HOSTS)))
      throw new Violation('Slot-10', 'both threads host the roles');
  };

  const thread = (state: State, by: number): boolean => {
    const read = at(state, own(by, READ));
    const go = (to: number): true => {
      state[own(by, STEP)] = to;
      return true;
    };
    const letGo = () => {
      if (read !== by) state[own(by, HOSTS)] = 0;
    };
    const say = () => {
      const before = at(state, SEEN + by);
      state[SEEN + by] = read;
      state[own(by, FOLLOWS)] = read;
      if (before !== read && !is('a thread that gives up its roles rings no bell')) ringAll(state);
    };
    const early = is('a thread stores `seen` before it gives up its roles');
    switch (at(state, own(by, STEP))) {
      case Step.bell:
        state[own(by, RUNG)] = 0;
        return go(Step.reads);
      case Step.reads:
        state[own(by, READ)] = at(state, HOSTING);
        return go(at(state, HOSTING) === at(state, own(by, FOLLOWS)) ? Step.looks : Step.letsGo);
      case Step.letsGo:
        (early ? say : letGo)();
        return go(Step.says);
      case Step.says:
        (early ? letGo : say)();
        return go(Step.looks);
      case Step.looks: {
        const others =
          at(state, SEEN + 1 - by) === read ||
          is('a thread takes up roles before the other thread gives them up');
        return go(read === by && !at(state, own(by, HOSTS)) && others ? Step.takes : Step.works);
      }
      case Step.takes:
        state[own(by, HOSTS)] = 1;
        alone(state);
        return go(Step.works);
      case Step.works:
        if (!at(state, own(by, HOSTS)) || !at(state, WANTED)) return go(Step.parks);
        state[WANTED] = 0;
        return go(Step.bell);
      case Step.parks:
        return at(state, own(by, RUNG)) === 1 && go(Step.bell);
      default:
        state[own(by, FOLLOWS)] = NONE;
        if (is('a successor takes up roles without waiting')) {
          state[own(by, HOSTS)] = at(state, SEEN + by) === by ? 1 : 0;
          alone(state);
        }
        ringAll(state);
        return go(Step.bell);
    }
  };

  /**
   * The client changes the table and rings both threads. Unless that was the last change, it asks
   * for work and rings the host. It never waits.
   */
  const client = (state: State): boolean => {
    const go = (to: number): true => {
      state[CLIENT_AT] = to;
      return true;
    };
    switch (at(state, CLIENT_AT)) {
      case 0:
        if (at(state, CHANGED) === changes) return false;
        state[CHANGED] = at(state, CHANGED) + 1;
        state[HOSTING] = 1 - at(state, HOSTING);
        return go(is('the client changes the table and rings no bell') ? 3 : 1);
      case 1:
      case 2:
        ring(state, at(state, CLIENT_AT) - 1);
        return go(at(state, CLIENT_AT) + 1);
      case 3:
        if (at(state, CHANGED) === changes) return go(0);
        state[WANTED] = at(state, WANTED) | 1;
        return go(4);
      default:
        ring(state, at(state, HOSTING));
        return go(0);
    }
  };
  const other = (state: State): boolean => {
    const go = (to: number): true => {
      state[OTHER_AT] = to;
      return true;
    };
    const want = () => {
      state[WANTED] = at(state, WANTED) | 2;
    };
    const look = () => {
      state[OTHER_READ] = at(state, HOSTING);
    };
    const early = is('a thread reads the table before it stores its request');
    switch (at(state, OTHER_AT)) {
      case 0:
        if (at(state, WISHED) === wishes) return false;
        state[WISHED] = at(state, WISHED) + 1;
        (early ? look : want)();
        return go(1);
      case 1:
        (early ? want : look)();
        return go(2);
      default:
        ring(state, at(state, OTHER_READ));
        return go(0);
    }
  };
  const dies = (state: State, by: number): boolean => {
    if (at(state, DIED) === deaths || at(state, own(by, STEP)) === Step.dead) return false;
    state[DIED] = at(state, DIED) + 1;
    state[own(by, STEP)] = Step.dead;
    state[own(by, HOSTS)] = 0;
    return true;
  };

  const over = (state: State) =>
    at(state, CHANGED) === changes &&
    at(state, CLIENT_AT) === 0 &&
    at(state, WISHED) === wishes &&
    at(state, OTHER_AT) === 0;
  const move = (
    says: (state: State) => string,
    apply: (state: State) => boolean,
    optional = false,
  ): Move => ({
    optional,
    says,
    apply,
  });
  const step = (state: State, by: number) => Object.keys(Step)[at(state, own(by, STEP))];
  return {
    width: 20,
    moves: [
      ...[0, 1].map((by) =>
        move(
          (state) => `${THREADS[by]}: ${step(state, by)}`,
          (state) => thread(state, by),
        ),
      ),
      move((state) => `the client, step ${at(state, CLIENT_AT)}`, client),
      move((state) => `another thread, step ${at(state, OTHER_AT)}`, other),
      ...[0, 1].map((by) =>
        move(
          () => `${THREADS[by]} dies`,
          (state) => dies(state, by),
          true,
        ),
      ),
    ],
    start: (state) => {
      state.fill(0);
      state[own(0, HOSTS)] = 1;
    },
    unfinished: (state) => {
      if (!over(state)) return 'the client or the other thread does not come to its end';
      if (at(state, WANTED)) return 'what is wanted of the roles is never done';
      return at(state, own(at(state, HOSTING), HOSTS)) ? null : 'nobody takes up the roles';
    },
  };
}
