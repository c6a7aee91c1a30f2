/**
 * The modelled uplink of a host: what it sends, what it sends again and why, and which epoch it
 * believes in. One host is one set of moves.
 */
import type { Move, State } from './checker.ts';
import type { LinkSetup } from './link.ts';
import * as memory from './link-memory.ts';
import { bit, HELLO, of, span } from './link-memory.ts';

/**
 * Number of beats that a host counts after its last reply before it sends again. The ingest may
 * have looked before the append at the first beat, but not at the second.
 */
const PATIENCE = 2;
/** How often the timer of a host ends, in the mutation that has one. */
const ALARMS = 2;

/** Returns the message that the host would send next, or −1 for none. */
export function nextOf(state: State, host: number, { window = 2 }: LinkSetup): number {
  const todo = state[of(host, memory.TODO)]!;
  const busy = state[of(host, memory.FLIGHT)]!;
  if (todo & bit(HELLO)) return busy & bit(HELLO) ? -1 : HELLO;
  if (!state[of(host, memory.GREETED)] || todo === 0) return -1;
  const row = 31 - Math.clz32(todo & -todo);
  return busy & bit(row) || row >= state[of(host, memory.ACKED)]! + window ? -1 : row;
}

/**
 * Returns the entry that the host sends now. E1: its base is the oldest row that the host keeps.
 */
export const sealed = (state: State, host: number, row: number): number =>
  memory.entryOf({ host, row, base: state[of(host, memory.ACKED)]! });

/** E5: marks every message that is not acknowledged to be sent again, in order. */
export function resendAll(state: State, host: number, { rows }: LinkSetup): void {
  const greeting = state[of(host, memory.GREETED)] ? 0 : bit(HELLO);
  state[of(host, memory.TODO)] = span(state[of(host, memory.ACKED)]!, rows) | greeting;
  state[of(host, memory.WAITED)] = 0;
}

/**
 * E4 and E8: applies an acknowledgement, from a notice or from the hash. Returns whether the host
 * learned anything.
 */
function take(state: State, host: number, ack: number, setup: LinkSetup): boolean {
  if (ack === 0) return false;
  const [epoch, nak, row] = [ack >> 6, (ack >> 3) & 7, ack & 7];
  if (
    epoch !== state[of(host, memory.EPOCH)] &&
    setup.broken !== 'a host accepts an acknowledgement of another epoch'
  )
    return false;
  let learnt = !state[of(host, memory.GREETED)];
  state[of(host, memory.GREETED)] = 1;
  if (learnt) state[of(host, memory.TODO)] = state[of(host, memory.TODO)]! & ~bit(HELLO);
  if (row > state[of(host, memory.ACKED)]!) {
    memory.letGo(state, host, row);
    const kept = ~span(0, row);
    state[of(host, memory.TODO)] = state[of(host, memory.TODO)]! & kept;
    state[of(host, memory.FLIGHT)] = state[of(host, memory.FLIGHT)]! & kept;
    state[of(host, memory.REFUSED)] = state[of(host, memory.REFUSED)]! & kept;
    state[of(host, memory.ACKED)] = row;
    learnt = true;
    if (row >= setup.rows) state[of(host, memory.WAITED)] = 0;
  }
  if (nak <= state[of(host, memory.NAK)]!) return learnt;
  state[of(host, memory.NAK)] = nak;
  resendAll(state, host, setup);
  return true;
}

/** Whether the host has a reply for a message but no acknowledgement. */
function waits(state: State, host: number, { rows }: LinkSetup): boolean {
  if (state[of(host, memory.FLIGHT)]) return false;
  const kept =
    span(state[of(host, memory.ACKED)]!, rows) | (state[of(host, memory.GREETED)] ? 0 : bit(HELLO));
  return (kept & ~state[of(host, memory.TODO)]!) !== 0;
}

export function hostMoves(host: number, setup: LinkSetup): Move[] {
  const { rows, broken } = setup;
  const [up, todo, flight] = [of(host, memory.UP), of(host, memory.TODO), of(host, memory.FLIGHT)];
  const [refused, notice, waited] = [
    of(host, memory.REFUSED),
    of(host, memory.NOTICE),
    of(host, memory.WAITED),
  ];
  const name = `host ${host}`;
  const unfinished = (state: State) =>
    state[of(host, memory.ACKED)]! < rows || !state[of(host, memory.GREETED)];

  const sends: Move = {
    optional: false,
    says: (state) =>
      `${name} appends ${memory.inWords(sealed(state, host, nextOf(state, host, setup)))}`,
    apply: (state) => {
      const next = state[up] ? nextOf(state, host, setup) : -1;
      if (next < 0) return false;
      const base =
        broken === 'a host sends its messages without a base' ? 0 : state[of(host, memory.ACKED)]!;
      memory.append(state, setup, memory.entryOf({ host, row: next, base }));
      state[todo] = state[todo]! & ~bit(next);
      state[flight] = state[flight]! | bit(next);
      state[waited] = 0;
      return true;
    },
  };
  const hears: Move = {
    optional: false,
    says: (state) =>
      `${name} has a reply (without one: ${state[flight]!.toString(2)}, full: ${state[refused]})`,
    apply: (state) => {
      if (!state[up] || state[flight] === 0) return false;
      const first = state[flight]! & -state[flight]!;
      if (state[refused]! & first) state[todo] = state[todo]! | first;
      state[flight] = state[flight]! & ~first;
      state[refused] = state[refused]! & ~first;
      state[waited] = 0;
      return true;
    },
  };
  const notices: Move = {
    optional: false,
    says: (state) => `${name} takes the notice ${memory.ackInWords(state[notice]!)}`,
    apply: (state) => {
      if (!state[up] || state[notice] === 0) return false;
      const ack = state[notice]!;
      state[notice] = 0;
      take(state, host, ack, setup);
      return true;
    },
  };
  const reads: Move = {
    optional: false,
    says: (state) =>
      `${name} reads ${memory.ackInWords(state[of(host, memory.ACK)]!)}, ${state[waited]} beats waited`,
    apply: (state) => {
      if (!state[up] || !unfinished(state)) return false;
      const learnt = take(state, host, state[of(host, memory.ACK)]!, setup);
      if (state[memory.HEART] !== state[of(host, memory.EPOCH)] || !waits(state, host, setup))
        return learnt;
      const patience = broken === 'a host sends its messages again after one beat' ? 1 : PATIENCE;
      if (state[waited] === 0) state[waited] = 1;
      else if (state[waited]! > patience && broken !== 'a host sends no message again after beats')
        resendAll(state, host, setup);
      else return learnt;
      return true;
    },
  };
  const adopts: Move = {
    optional: false,
    says: (state) => `${name} believes in epoch ${state[memory.LEASE]}, as the lease says`,
    apply: (state) => {
      const lease = state[memory.LEASE]!;
      const believed = state[of(host, memory.EPOCH)]!;
      const older =
        broken === 'a host accepts an older epoch again' ? lease === believed : lease <= believed;
      const heard =
        state[memory.HEART] !== believed || state[of(host, memory.ACK)]! >> 6 !== believed;
      if (!state[up] || lease === 0 || older || !heard) return false;
      state[of(host, memory.EPOCH)] = lease;
      state[memory.HIGHEST + host] = Math.max(lease, state[memory.HIGHEST + host]!);
      state[of(host, memory.NAK)] = 0;
      if (broken !== 'a host sends no message again to another epoch')
        resendAll(state, host, setup);
      return true;
    },
  };
  const connects: Move = {
    optional: false,
    says: () => `${name} connects again`,
    apply: (state) => {
      if (state[up]) return false;
      state[up] = 1;
      if (broken !== 'a host does not send messages without a reply again')
        state[todo] = state[todo]! | state[flight]!;
      state[flight] = state[refused] = 0;
      if (broken === 'a host sends every message again on each connection')
        resendAll(state, host, setup);
      return true;
    },
  };
  const moves = [adopts, connects, notices, hears, sends];
  if (broken !== 'a host does not read stored acknowledgements') moves.unshift(reads);
  if (broken !== 'a host sends its messages again after a timeout') return moves;
  const timer = (state: State): boolean => {
    if (!state[up] || !waits(state, host, setup) || state[memory.FLAPS]! >= ALARMS) return false;
    state[memory.FLAPS] = state[memory.FLAPS]! + 1;
    resendAll(state, host, setup);
    return true;
  };
  return [...moves, { optional: true, says: () => `${name}'s timer ends`, apply: timer }];
}
