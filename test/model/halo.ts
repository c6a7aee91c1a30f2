/**
 * Models the halo exchange between threads: ranks, the words and bytes of their buffers, and ranks
 * that leave, fail or die. The rules Exchange-1 to Exchange-6 are in src/shm/exchange-control.ts.
 */
import type { Model, Move, State } from './checker.ts';
import {
  checkRead,
  DATA,
  FAULTS,
  Fault,
  findsSomething,
  LOCAL,
  MAX_BUFFERS,
  RANK,
  Rank,
  type Route,
  SIDE_STREAM,
  STREAM,
  STREAM_LENGTH,
} from './halo-memory.ts';
import { RankProgram } from './halo-rank.ts';
import { BELL, PLACE, WIDTH } from './memory.ts';
import { BLOCKED, type Grain, type Label, Program } from './program.ts';

export interface HaloSetup {
  /**
   * the pairs of ranks that exchange, each once; a rank may be paired with itself, and two ranks
   * twice
   */
  pairs: readonly (readonly [number, number])[];
  exchanges: number;
  /**
   * Any rank closes early, fails, or computes for ever, each between two calls. One rank dies
   * between any two accesses. While a rank computes for ever, another may wait for ever, but not if
   * its exchange has arrived, nor if another rank has given up.
   */
  faults?: readonly ('close' | 'failure' | 'rest' | 'death')[];
  /** whether arrays are on devices: packing and unpacking are then enqueued on a stream per rank */
  device?: boolean;
  broken?: HaloMutation;
  grain?: Grain;
}

export type HaloMutation =
  | 'a rank uses only one half of a buffer'
  | 'a rank starts an exchange before it waits for the previous one'
  | 'a rank fills a half before it packs the data'
  | 'a rank does not empty the halves that it receives'
  | 'a rank empties a half after it sends the next exchange'
  | 'a rank rings the reader before it stores the word'
  | 'a rank does not ring the reader'
  | 'a rank reads its bell after it checks the words'
  | 'a rank checks for a failure before it reads its bell'
  | 'a rank checks for a failure after it checks the words'
  | 'a rank does not check for a failure'
  | 'a rank reads a failure while another rank writes it'
  | 'a rank reads the state of a sender after its word'
  | 'a rank closes before it sends its last exchange'
  | 'a rank rings all bells before it stores that it left'
  | 'a rank that leaves rings no bell'
  | 'a rank ignores that a sender is lost'
  | 'a rank that misses data reports no failure'
  | 'a rank parks without a time limit'
  | 'a ringer reads the flag before it increments the bell'
  | 'a rank sends before the device packs the data'
  | 'a rank unpacks on a second stream';

export function haloProtocol(setup: HaloSetup): Model {
  const { pairs, faults = [], grain = 'access' } = setup;
  const count = 1 + Math.max(...pairs.flat());
  const ranks = Array.from(
    { length: count },
    (_, rank) => new Program(`rank ${rank}`, rank, grain),
  );
  const routes: Route[][] = ranks.map(() => []);
  for (const [i, [a, b]] of pairs.entries()) {
    const meet = (rank: number, sender: number, outgoing: number, incoming: number) =>
      routes[rank]!.push({ bit: 1 << routes[rank]!.length, sender, outgoing, incoming });
    meet(a, b, 2 * i, 2 * i + 1);
    meet(b, a, 2 * i + 1, 2 * i);
  }
  if (2 * pairs.length > MAX_BUFFERS || (setup.device && pairs.length > 1))
    throw new Error('a state has no room for so many buffers');
  const streams = setup.device ? streamsOf(setup, routes) : [];
  const programs = ranks.map((_, rank) => new RankProgram(setup, ranks, rank, routes[rank]!));

  if (ranks.some((by) => by.steps.length > 255))
    throw new Error('a state has no room for so long a program');

  const agents = [...ranks, ...streams];
  const moves: Move[] = agents.map((agent) => ({
    optional: false,
    says: (state) => `${agent.name} ${agent.current(state).says}`,
    apply: (state) => agent.advance(state),
  }));
  ranks.forEach((by, rank) => {
    const { close, fail, rest, caught, boundaries } = programs[rank]!;
    const leaves = (says: string, fault: number, to: Label): Move => ({
      optional: true,
      says: () => `${by.name} ${says}`,
      apply: (state) => {
        const at = state[PLACE + rank]!;
        if (!boundaries.has(at) && !(to === rest && at === caught.at)) return false;
        state[FAULTS] = state[FAULTS]! | fault;
        by.moveTo(state, to.at);
        return true;
      },
    });
    if (faults.includes('close')) moves.push(leaves('is closed', Fault.close, close));
    if (faults.includes('failure')) moves.push(leaves('meets a failure', Fault.failure, fail));
    if (faults.includes('rest')) moves.push(leaves('computes for ever', 0, rest));
    if (faults.includes('death')) moves.push(death(by));
  });

  return {
    width: WIDTH,
    moves,
    start: (state) => void state.fill(0),
    unfinished: (state) => {
      // If the writer of a failure dies, only its neighbors learn that it has gone.
      const gaveUp = (state[FAULTS]! & (Fault.failure | Fault.missed)) !== 0;
      const released = gaveUp && (state[FAULTS]! & Fault.death) === 0;
      const resting =
        !released && programs.some(({ rest }, rank) => state[PLACE + rank] === rest.at);
      const stuck = ranks.filter((by, rank) => {
        const { asleep, end } = by.current(state);
        return !end && !(resting && asleep && !findsSomething(state, rank, routes[rank]!));
      });
      return stuck.length > 0
        ? stuck.map((by) => `${by.name} ${by.current(state).says}`).join(', ')
        : null;
    },
  };
}

/**
 * A rank's thread ends. The last act of its environment is to store that. Its stream finishes its
 * queued operations.
 */
function death(by: Program): Move {
  const rank = by.agent;
  const end = by.steps.length - 1;
  return {
    optional: true,
    says: () => `${by.name} dies`,
    apply: (state) => {
      if (state[FAULTS]! & Fault.death || by.current(state).end) return false;
      state[FAULTS] = state[FAULTS]! | Fault.death;
      if (state[RANK + rank] === Rank.open) state[RANK + rank] = Rank.lost;
      state[BELL + rank] = 0;
      state[LOCAL + rank] = 0;
      state[PLACE + rank] = end;
      return true;
    },
  };
}

function streamsOf({ grain = 'access', broken }: HaloSetup, routes: readonly Route[][]): Program[] {
  const all = broken === 'a rank unpacks on a second stream' ? [STREAM, SIDE_STREAM] : [STREAM];
  return all.flatMap((on) => routes.map((of, rank) => stream(rank, on[rank]!, of, grain)));
}

/**
 * A device's stream. Copying into the neighbor's half is one step. Copying out of the rank's own
 * half is two, which both check the bytes.
 */
function stream(rank: number, on: number, [route]: readonly Route[], grain: Grain): Program {
  const by = new Program(`rank ${rank}'s stream`, 5 + rank + (on === STREAM[rank] ? 0 : 2), grain);
  const { incoming, outgoing } = route!;
  const [loop, reading] = [{ at: 0 }, { at: 0 }];
  const next = (state: State) => {
    state.copyWithin(on, on + 1, on + STREAM_LENGTH);
    state[on + STREAM_LENGTH - 1] = 0;
  };
  by.place(loop);
  by.step('begins its next copy', (state) => {
    const operation = state[on]!;
    if (operation === 0) return BLOCKED;
    const exchange = operation >> 1;
    if (operation & 1) {
      checkRead(state, 2 * incoming + (exchange % 2), exchange);
      return reading.at;
    }
    state[DATA + 2 * outgoing + (exchange % 2)] = exchange;
    next(state);
    return loop.at;
  });
  by.place(reading);
  by.step('ends its copy', (state) => {
    const exchange = state[on]! >> 1;
    checkRead(state, 2 * incoming + (exchange % 2), exchange);
    next(state);
    return loop.at;
  });
  return by;
}
