/**
 * The native thread that stands in for ranks elsewhere, as a model: two processes, a rank in each,
 * a route either way. What the rules of native/ranks/halo.cpp are for is that each rank's own rules
 * Exchange-1, Exchange-2 and Exchange-5 stay true; waking is test/model/halo.ts's.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface CarrierSetup {
  exchanges: number;
  /** either rank may close before any exchange */
  faults?: readonly 'close'[];
  broken?: CarrierMutation;
}

export type CarrierMutation =
  | 'told before what left before is over'
  | 'told behind the latest send that is over'
  | 'told before its bytes are there'
  | 'a rank is followed before what it sent has arrived'
  | 'halves are looked at before states';

/** Of a route (from rank 0 to 1, or back) and a half; exchanges by number, 0 is none. */
const HALF = 8;
const Half = {
  /**
   * the sender's process: word and bytes; the send is under way; what MPI has of it; it was
   * delivered
   */
  outWord: 0,
  outData: 1,
  sending: 2,
  wire: 3,
  delivered: 4,
  /** the reader's process: taken and not told; word and bytes */
  taken: 5,
  inWord: 6,
  inData: 7,
} as const;
/**
 * Of a route: sends that were started; of each half those that are over; the last exchange that was
 * told.
 */
const ROUTE = 32;
const Route = { started: 0, over: 1, latest: 3, told: 4 } as const;
const ROUTE_BYTES = 6;
/**
 * Of a rank: its next step, exchange and state; as the other process sees it; exchanges in its
 * letter, plus one; seen gone.
 */
const RANK = ROUTE + 2 * ROUTE_BYTES;
const Rank = { at: 0, exchange: 1, left: 2, known: 3, letter: 4, seen: 5 } as const;
const RANK_BYTES = 6;
const At = {
  check: 0,
  pack: 1,
  empty: 2,
  fill: 3,
  look: 4,
  find: 5,
  read: 6,
  readAgain: 7,
  leave: 8,
  end: 9,
} as const;

const half = (route: number, h: number, field: number) => HALF * (2 * route + h) + field;
const ofRoute = (route: number, field: number) => ROUTE + ROUTE_BYTES * route + field;
const ofRank = (rank: number, field: number) => RANK + RANK_BYTES * rank + field;

/** A half that is filled, and of which nothing has begun. */
function unsent(state: State, route: number, h: number): boolean {
  const n = state[half(route, h, Half.outWord)]!;
  return n > state[ofRoute(route, Route.over + h)]! && state[half(route, h, Half.sending)] === 0;
}

export function carrierProtocol({ exchanges, faults = [], broken }: CarrierSetup): Model {
  const is = (how: CarrierMutation) => broken === how;
  const moves: Move[] = [];
  const move = (says: string, apply: (state: State) => boolean, optional = false) =>
    moves.push({ optional, says: () => says, apply });

  for (const rank of [0, 1]) {
    // What leaves goes over the route of its number; what arrives over the other.
    const [out, into] = [rank, 1 - rank];
    const name = `rank ${rank}`;
    const at = ofRank(rank, Rank.at);
    move(`${name} goes on`, (state) => {
      const n = state[ofRank(rank, Rank.exchange)]! + 1;
      const goto = (place: number) => {
        state[at] = place;
        return true;
      };
      switch (state[at]) {
        case At.check: {
          const holds = state[half(out, n % 2, Half.outWord)];
          if (holds !== 0)
            throw new Violation(
              'Exchange-2',
              `${name} starts exchange ${n}, and its half holds ${holds}`,
            );
          return goto(At.pack);
        }
        case At.pack:
          state[half(out, n % 2, Half.outData)] = n;
          return goto(n > 1 ? At.empty : At.fill);
        case At.empty:
          state[half(into, (n - 1) % 2, Half.inWord)] = 0;
          return goto(At.fill);
        case At.fill:
          state[half(out, n % 2, Half.outWord)] = n;
          return goto(At.look);
        case At.look: {
          // Only a look that finds something is worth a step.
          const gone = state[ofRank(1 - rank, Rank.known)]!;
          if (gone === 0 && state[half(into, n % 2, Half.inWord)] !== n) return false;
          state[ofRank(rank, Rank.seen)] = gone;
          return goto(At.find);
        }
        case At.find: {
          if (state[half(into, n % 2, Half.inWord)] === n) return goto(At.read);
          if (state[ofRank(rank, Rank.seen)] === 0) throw new Error('a word went back');
          // It is missing: then it was never sent.
          const other = 1 - rank;
          const sent =
            state[ofRank(other, Rank.exchange)]! +
            (state[ofRank(other, Rank.at)]! > At.fill ? 1 : 0);
          const filled =
            state[ofRank(other, Rank.left)] === 0 ? sent : state[ofRank(other, Rank.exchange)]!;
          if (filled >= n)
            throw new Violation(
              'Exchange-5',
              `${name} misses exchange ${n}, which was sent before the other one left`,
            );
          return goto(At.leave);
        }
        case At.read:
        case At.readAgain: {
          const holds = state[half(into, n % 2, Half.inData)];
          if (holds !== n)
            throw new Violation(
              'Exchange-1',
              `a half that should hold exchange ${n} holds ${holds}`,
            );
          if (state[at] === At.read) return goto(At.readAgain);
          state[ofRank(rank, Rank.exchange)] = n;
          return goto(n === exchanges ? At.leave : At.check);
        }
        case At.leave:
          state[ofRank(rank, Rank.left)] = 1;
          return goto(At.end);
        default:
          return false;
      }
    });
    if (faults.includes('close'))
      move(
        `${name} is closed`,
        (state) => {
          if (state[at] !== At.check) return false;
          state[at] = At.leave;
          return true;
        },
        true,
      );
    // The process of this rank tells that it has left, how much it had sent; the other one follows.
    move(`the process of ${name} tells that it left`, (state) => {
      if (state[ofRank(rank, Rank.left)] === 0 || state[ofRank(rank, Rank.letter)] !== 0)
        return false;
      // States are read before halves are looked at: what was filled is under way by now.
      const waits = [0, 1].some((h) => unsent(state, out, h));
      if (waits && !is('halves are looked at before states')) return false;
      state[ofRank(rank, Rank.letter)] = state[ofRoute(out, Route.started)]! + 1;
      return true;
    });
    move(`the other process follows ${name}`, (state) => {
      const letter = state[ofRank(rank, Rank.letter)]!;
      if (letter === 0 || state[ofRank(rank, Rank.known)] !== 0) return false;
      const arrived = state[ofRoute(out, Route.told)]! >= letter - 1;
      if (!arrived && !is('a rank is followed before what it sent has arrived')) return false;
      state[ofRank(rank, Rank.known)] = 1;
      return true;
    });
  }

  for (const route of [0, 1]) {
    for (const h of [0, 1]) {
      const field = (name: number) => half(route, h, name);
      const name = `route ${route}, half ${h}`;
      move(`${name}: its send begins`, (state) => {
        const n = state[field(Half.outWord)]!;
        if (!unsent(state, route, h)) return false;
        state[field(Half.sending)] = n;
        state[ofRoute(route, Route.started)] = Math.max(n, state[ofRoute(route, Route.started)]!);
        return true;
      });
      move(`${name}: MPI takes its bytes along`, (state) => {
        if (
          state[field(Half.sending)] === 0 ||
          state[field(Half.wire)] !== 0 ||
          state[field(Half.delivered)] !== 0
        )
          return false;
        state[field(Half.wire)] = state[field(Half.outData)]!;
        return true;
      });
      move(`${name}: its send is over`, (state) => {
        const n = state[field(Half.sending)]!;
        if (n === 0 || (state[field(Half.wire)] === 0 && state[field(Half.delivered)] === 0))
          return false;
        // What MPI has taken along stays on the wire.
        if (state[field(Half.delivered)] !== 0) state[field(Half.delivered)] = 0;
        else state[field(Half.delivered)] = 2;
        state[field(Half.sending)] = 0;
        state[field(Half.outWord)] = 0;
        state[ofRoute(route, Route.over + h)] = n;
        state[ofRoute(route, Route.latest)] = n;
        return true;
      });
      move(`${name}: it is received`, (state) => {
        const [wire, sending] = [state[field(Half.wire)]!, state[field(Half.sending)]!];
        if (
          state[field(Half.taken)] !== 0 ||
          (wire === 0 && (sending === 0 || state[field(Half.delivered)] !== 0))
        )
          return false;
        if (state[field(Half.inWord)] !== 0) {
          // It never comes to that: who may send has had what the reader sent behind emptying it.
          throw new Violation(
            'Exchange-1',
            `${name}: exchange ${wire || sending} would come into a half that is not empty`,
          );
        }
        if (is('told before its bytes are there')) {
          state[field(Half.inWord)] = wire || sending;
          return true;
        }
        const bytes = wire || state[field(Half.outData)]!;
        state[field(Half.inData)] = bytes;
        state[field(Half.taken)] = bytes;
        state[field(Half.wire)] = 0;
        // Of a send that is over already nothing is left to say.
        state[field(Half.delivered)] = state[field(Half.delivered)] === 2 ? 0 : 1;
        return true;
      });
      move(`${name}: it is told`, (state) => {
        const n = state[ofRoute(route, Route.told)]! + 1;
        if (n % 2 !== h || state[field(Half.taken)] === 0) return false;
        const back = 1 - route;
        const over = is('told behind the latest send that is over')
          ? state[ofRoute(back, Route.latest)]! >= n - 1
          : state[ofRoute(back, Route.over + ((n - 1) % 2))]! >= n - 1;
        if (!over && !is('told before what left before is over')) return false;
        state[field(Half.taken)] = 0;
        state[field(Half.inWord)] = n;
        state[ofRoute(route, Route.told)] = n;
        return true;
      });
    }
  }

  return {
    width: 56,
    moves,
    start: (state) => void state.fill(0),
    unfinished(state) {
      for (const rank of [0, 1]) {
        if (state[ofRank(rank, Rank.at)] !== At.end) return `rank ${rank} waits`;
        if (state[ofRank(rank, Rank.known)] === 0) return `that rank ${rank} left is not known`;
      }
      for (const route of [0, 1])
        for (const h of [0, 1])
          if (
            state[half(route, h, Half.outWord)] !== 0 ||
            state[half(route, h, Half.sending)] !== 0
          )
            return `a send over route ${route} is never over`;
      return null;
    },
  };
}
