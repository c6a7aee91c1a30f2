/**
 * Models the native thread that carries halos to ranks of other processes: two processes with one
 * rank each, and a route in each direction. With the rules of native/ranks/halo.cpp each rank's own
 * rules Exchange-1, Exchange-2 and Exchange-5 must hold. Waking is left to test/model/halo.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface CarrierSetup {
  exchanges: number;
  /** either rank may close before any exchange */
  faults?: readonly 'close'[];
  broken?: CarrierMutation;
}

export type CarrierMutation =
  | 'the carrier publishes an exchange before the earlier send ends'
  | 'the carrier checks the latest ended send of either half'
  | 'the carrier publishes an exchange before its bytes arrive'
  | 'the carrier marks a rank as gone before its sends arrive'
  | 'the carrier reads halves before states';

/**
 * Bytes of one half of a route (from rank 0 to 1, or back). Exchanges are stored by number, and 0
 * is none.
 */
const HALF = 8;
const Half = {
  /**
   * In the sender's process. `outWord`, `outData`: the half. `sending`: the exchange that is being
   * sent. `wire`: the bytes that MPI has taken. `delivered`: 1 if the receiver finished first, 2 if
   * the sender did.
   */
  outWord: 0,
  outData: 1,
  sending: 2,
  wire: 3,
  delivered: 4,
  /**
   * In the reader's process. `taken`: the exchange that has arrived and is not published. `inWord`,
   * `inData`: the half.
   */
  taken: 5,
  inWord: 6,
  inData: 7,
} as const;
/**
 * Bytes of a route. `started`: the newest send that was started. `over`: by half, the newest send
 * that ended. `latest`: the last send that ended. `told`: the last exchange that was published to
 * the reader.
 */
const ROUTE = 32;
const Route = { started: 0, over: 1, latest: 3, told: 4 } as const;
const ROUTE_BYTES = 6;
/**
 * Bytes of a rank. `at`: its next step. `exchange`: its last finished exchange. `left`: whether it
 * left. `known`: whether the other process knows that. `letter`: 1 + the number of exchanges in its
 * letter. `seen`: whether this rank saw its peer gone.
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

/** Whether a half is filled and its send has not begun. */
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
    // The rank sends over the route of its own number, and receives over the other one.
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
          // A look that finds nothing is not a step.
          const gone = state[ofRank(1 - rank, Rank.known)]!;
          if (gone === 0 && state[half(into, n % 2, Half.inWord)] !== n) return false;
          state[ofRank(rank, Rank.seen)] = gone;
          return goto(At.find);
        }
        case At.find: {
          if (state[half(into, n % 2, Half.inWord)] === n) return goto(At.read);
          if (state[ofRank(rank, Rank.seen)] === 0) throw new Error('a word went back');
          // The exchange is missing, so the peer must not have sent it before it left.
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
    // The process of the rank reports that it left, and how many exchanges it had sent. The other
    // process follows.
    move(`the process of ${name} tells that it left`, (state) => {
      if (state[ofRank(rank, Rank.left)] === 0 || state[ofRank(rank, Rank.letter)] !== 0)
        return false;
      // The native thread reads states before halves. So the sends of all halves that were filled
      // before have begun.
      const waits = [0, 1].some((h) => unsent(state, out, h));
      if (waits && !is('the carrier reads halves before states')) return false;
      state[ofRank(rank, Rank.letter)] = state[ofRoute(out, Route.started)]! + 1;
      return true;
    });
    move(`the other process follows ${name}`, (state) => {
      const letter = state[ofRank(rank, Rank.letter)]!;
      if (letter === 0 || state[ofRank(rank, Rank.known)] !== 0) return false;
      const arrived = state[ofRoute(out, Route.told)]! >= letter - 1;
      if (!arrived && !is('the carrier marks a rank as gone before its sends arrive')) return false;
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
        // If MPI has taken the bytes, they stay on the wire after the send is over.
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
          // This never happens with the rules. A rank may send only after it has received what its
          // reader sent after emptying the half.
          throw new Violation(
            'Exchange-1',
            `${name}: exchange ${wire || sending} would come into a half that is not empty`,
          );
        }
        if (is('the carrier publishes an exchange before its bytes arrive')) {
          state[field(Half.inWord)] = wire || sending;
          return true;
        }
        const bytes = wire || state[field(Half.outData)]!;
        state[field(Half.inData)] = bytes;
        state[field(Half.taken)] = bytes;
        state[field(Half.wire)] = 0;
        // If the send is already over, no flag has to remember the delivery.
        state[field(Half.delivered)] = state[field(Half.delivered)] === 2 ? 0 : 1;
        return true;
      });
      move(`${name}: it is told`, (state) => {
        const n = state[ofRoute(route, Route.told)]! + 1;
        if (n % 2 !== h || state[field(Half.taken)] === 0) return false;
        const back = 1 - route;
        const over = is('the carrier checks the latest ended send of either half')
          ? state[ofRoute(back, Route.latest)]! >= n - 1
          : state[ofRoute(back, Route.over + ((n - 1) % 2))]! >= n - 1;
        if (!over && !is('the carrier publishes an exchange before the earlier send ends'))
          return false;
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
