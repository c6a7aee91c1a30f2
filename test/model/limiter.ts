/**
 * Models the rate limiter: any number of collectors that add and of requesters that sample, on
 * three counts. An agent that finds no room parks on its bell. A requester that is paused gives its
 * last batch back. The rules Limiter-1 to Limiter-5 are in native/rows/limiter.hpp.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface LimiterSetup {
  /** for each collector: how many adds it makes */
  adds: readonly number[];
  /** for each requester: how many batches it takes */
  batches: readonly number[];
  /** number of rows of an add, and of a batch */
  add: number;
  batch: number;
  minSize: number;
  errorBuffer: number;
  /** whether the first requester gives its last batch back after it has taken all its batches */
  givesBack?: boolean;
  broken?: LimiterMutation;
}

export type LimiterMutation =
  | 'a collector stores `admitted` without a compare-exchange'
  | 'a requester stores `samples` without a compare-exchange'
  | 'an agent takes room without a new check after a failed exchange'
  | 'a collector checks `inserts` instead of `admitted`'
  | 'a requester checks `admitted` instead of `inserts`'
  | 'a collector counts inserts before it commits the rows'
  | 'a requester does not check the minimum size'
  | 'the limiter uses a band narrower than a batch and an add'
  | 'an agent checks for room before it reads its bell'
  | 'a collector rings requesters before it counts inserts'
  | 'a requester rings collectors before it counts samples'
  | 'a requester that gives a batch back rings no bell';

/**
 * The three counts. Then, for the checks, the true numbers of rows: committed, taken for adds,
 * taken for batches, given back.
 */
const [ADMITTED, INSERTS, SAMPLES, COMMITTED, ADDED, DRAWN, BACK] = [0, 1, 2, 3, 4, 5, 6];
/**
 * Bytes of each agent. `AT`: its step. `LEFT`: rounds that are left. `READ`: the count that it
 * read. `MOVED`: whether its bell was rung since the agent read it.
 */
const AGENT = 7;
const [AT, LEFT, READ, MOVED] = [0, 1, 2, 3];
const SIZE = 4;
const At = {
  bell: 0,
  reads: 1,
  judges: 2,
  takes: 3,
  commits: 4,
  counts: 5,
  rings: 6,
  parks: 7,
  asleep: 8,
  ends: 9,
  gives: 10,
};

export function limiterProtocol(setup: LimiterSetup): Model {
  const { adds, batches, add, batch, minSize } = setup;
  const is = (how: LimiterMutation) => setup.broken === how;
  const errorBuffer = is('the limiter uses a band narrower than a batch and an add')
    ? (add + batch) / 2 - 1
    : setup.errorBuffer;
  const all = adds.length + batches.length;
  const own = (agent: number) => AGENT + agent * SIZE;
  const at = (state: State, index: number) => state[index] as number;
  const writes = (agent: number) => agent < adds.length;
  const name = (agent: number) =>
    writes(agent) ? `collector ${agent}` : `requester ${agent - adds.length}`;

  const mayInsert = (admitted: number, samples: number) => {
    const after = admitted + add - minSize;
    return after <= 0 || after - samples <= errorBuffer;
  };
  const maySample = (inserts: number, samples: number) => {
    const since = inserts - minSize;
    return (
      (since >= 0 || is('a requester does not check the minimum size')) &&
      samples + batch - since <= errorBuffer
    );
  };
  const room = (state: State, agent: number, taken: number) => {
    if (writes(agent)) return mayInsert(taken, at(state, SAMPLES));
    return maySample(
      at(state, is('a requester checks `admitted` instead of `inserts`') ? ADMITTED : INSERTS),
      taken,
    );
  };
  const countOf = (agent: number) =>
    writes(agent)
      ? is('a collector checks `inserts` instead of `admitted`')
        ? INSERTS
        : ADMITTED
      : SAMPLES;

  const rings = (state: State, agent: number) => {
    for (let other = 0; other < all; other++) {
      if (writes(other) === writes(agent)) continue;
      ring(state, other);
    }
  };
  const ring = (state: State, other: number) => {
    state[own(other) + MOVED] = 1;
    if (at(state, own(other) + AT) === At.asleep) state[own(other) + AT] = At.bell;
  };

  /**
   * Steps of one round. The agent reads its bell and its count, and compares the count with the
   * others. It exchanges the count, then adds rows or takes the batch.
   */
  const advance = (state: State, agent: number): boolean => {
    const here = own(agent);
    const go = (to: number): true => {
      state[here + AT] = to;
      return true;
    };
    const count = writes(agent) ? ADMITTED : SAMPLES;
    const rows = writes(agent) ? add : batch;
    const early = is(
      writes(agent)
        ? 'a collector rings requesters before it counts inserts'
        : 'a requester rings collectors before it counts samples',
    );
    switch (at(state, here + AT)) {
      case At.bell:
        if (at(state, here + LEFT) === 0) {
          return go(setup.givesBack && agent === adds.length ? At.gives : At.ends);
        }
        state[here + MOVED] = 0;
        return go(At.reads);
      case At.reads:
        state[here + READ] = at(state, countOf(agent));
        return go(At.judges);
      case At.judges: {
        const there = room(state, agent, at(state, here + READ));
        if (there && early) rings(state, agent);
        return go(there ? At.takes : At.parks);
      }
      case At.takes: {
        const found = at(state, count);
        const inTime = found === at(state, here + READ) || countOf(agent) !== count;
        const blind = is(
          writes(agent)
            ? 'a collector stores `admitted` without a compare-exchange'
            : 'a requester stores `samples` without a compare-exchange',
        );
        const careless = is('an agent takes room without a new check after a failed exchange');
        if (!inTime && !blind && !careless) {
          state[here + READ] = found;
          return go(At.judges);
        }
        state[count] = (blind ? at(state, here + READ) : found) + rows;
        state[here + READ] = 0;
        state[writes(agent) ? ADDED : DRAWN] = at(state, writes(agent) ? ADDED : DRAWN) + rows;
        checkBand(state, agent);
        return writes(agent) ? go(At.commits) : taken(state, here, early, agent);
      }
      case At.commits:
        if (is('a collector counts inserts before it commits the rows'))
          state[INSERTS] = at(state, INSERTS) + add;
        else state[COMMITTED] = at(state, COMMITTED) + add;
        return go(At.counts);
      case At.counts:
        if (is('a collector counts inserts before it commits the rows'))
          state[COMMITTED] = at(state, COMMITTED) + add;
        else state[INSERTS] = at(state, INSERTS) + add;
        return taken(state, here, early, agent);
      case At.rings:
        rings(state, agent);
        return go(At.bell);
      case At.parks: {
        if (is('an agent checks for room before it reads its bell')) state[here + MOVED] = 0;
        state[here + READ] = 0;
        return go(at(state, here + MOVED) ? At.bell : At.asleep);
      }
      case At.gives:
        state[SAMPLES] = at(state, SAMPLES) - batch;
        state[BACK] = at(state, BACK) + batch;
        return go(At.gives + 1);
      case At.gives + 1:
        // The batch that was given back is room for other requesters.
        if (!is('a requester that gives a batch back rings no bell'))
          for (let other = adds.length; other < all; other++) ring(state, other);
        return go(At.ends);
      default:
        return false;
    }
  };
  const taken = (state: State, here: number, early: boolean, agent: number): true => {
    state[here + LEFT]!--;
    state[here + AT] = early ? At.bell : At.rings;
    if (!writes(agent) && at(state, COMMITTED) < Math.max(1, minSize))
      throw new Violation('Limiter-2', `a batch is taken of ${at(state, COMMITTED)} rows`);
    return true;
  };

  /**
   * Checks the true numbers after each exchange. A collector may be ahead by the batch that was
   * given back, because it was admitted before that.
   */
  const checkBand = (state: State, agent: number): void => {
    if (writes(agent)) {
      const lead =
        at(state, ADMITTED) - minSize - at(state, SAMPLES) - (setup.givesBack ? batch : 0);
      if (at(state, ADMITTED) !== at(state, ADDED))
        throw new Violation('Limiter-1', 'rows are admitted and not counted');
      if (lead > errorBuffer && at(state, ADMITTED) > minSize)
        throw new Violation(
          'Limiter-1',
          `${at(state, ADMITTED)} are admitted, ${at(state, SAMPLES)} sampled`,
        );
      return;
    }
    if (at(state, SAMPLES) !== at(state, DRAWN) - at(state, BACK))
      throw new Violation('Limiter-1', 'rows are sampled and not counted');
    if (at(state, SAMPLES) - (at(state, COMMITTED) - minSize) > errorBuffer)
      throw new Violation(
        'Limiter-2',
        `${at(state, SAMPLES)} are sampled, ${at(state, COMMITTED)} there`,
      );
  };

  const moves: Move[] = Array.from({ length: all }, (_, agent) => ({
    optional: false,
    says: (state) => `${name(agent)} ${STEPS[at(state, own(agent) + AT)]}`,
    apply: (state) => advance(state, agent),
  }));
  return {
    width: (AGENT + all * SIZE + 3) & ~3,
    moves,
    start: (state) => {
      state.fill(0);
      for (const [i, many] of [...adds, ...batches].entries()) state[own(i) + LEFT] = many;
    },
    unfinished: (state) => {
      const asleep = Array.from({ length: all }, (_, i) => i).filter(
        (i) => at(state, own(i) + AT) === At.asleep,
      );
      for (const i of asleep)
        if (room(state, i, at(state, countOf(i))))
          return `${name(i)} sleeps, and there is room for it`;
      return asleep.some(writes) && !asleep.every(writes)
        ? 'collectors and requesters wait for each other'
        : null;
    },
  };
}

const STEPS = [
  'reads its bell',
  'reads its count',
  'looks for room',
  'takes it',
  'commits rows',
  'counts its inserts',
  'rings the others',
  'parks',
  'sleeps',
  'ends',
  'gives its last batch back',
  'rings who samples',
];
