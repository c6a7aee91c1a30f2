/**
 * Faults of the modelled link: of connections, the server, threads and learners. Each may happen at
 * any moment, at most `times` in all.
 */
import type { Move, State } from './checker.ts';
import type { LinkFault, LinkSetup } from './link.ts';
import { nextOf, sealed } from './link-host.ts';
import { ackTo } from './link-ingest.ts';
import * as memory from './link-memory.ts';
import { HELD, INGEST_UP, of, PHASE, SNAPSHOT, STREAM, STREAM_LENGTH } from './link-memory.ts';

/** How often an idle connection may be lost. */
const FLAPS = 2;

/** Returns whether the fault can happen now, and only then changes the state. */
type Happens = (state: State) => boolean;

export function faultMoves(setup: LinkSetup): Move[] {
  const { faults = [], hosts, times = 1, broken } = setup;
  const all = Array.from({ length: hosts }, (_, host) => host);
  const moves: Move[] = [];
  const may = (says: string, happens: Happens) => {
    moves.push({ optional: true, says: () => says, apply: happens });
  };
  const fault = (says: string, happens: Happens) =>
    may(says, (state) => {
      if (state[memory.FAULTS]! >= times || !happens(state)) return false;
      state[memory.FAULTS] = state[memory.FAULTS]! + 1;
      return true;
    });
  const declares: Record<LinkFault, () => void> = {
    cut: () => {
      for (const host of all)
        fault(`host ${host} loses its connection`, (state) => {
          if (!state[of(host, memory.UP)]) return false;
          disconnect(state, host);
          return true;
        });
      for (const host of all)
        fault(`host ${host} loses its connection, and what it appends`, (state) => {
          const next = state[of(host, memory.UP)] ? nextOf(state, host, setup) : -1;
          if (next < 0) return false;
          underWay(state, host, next);
          disconnect(state, host);
          return true;
        });
    },
    late: () => {
      for (const host of all) {
        const ghost = of(host, memory.GHOST);
        fault(`host ${host} loses its connection, but not what it says last`, (state) => {
          const next =
            state[of(host, memory.UP)] && !state[ghost] ? nextOf(state, host, setup) : -1;
          if (next < 0) return false;
          state[ghost] = sealed(state, host, next);
          disconnect(state, host);
          return true;
        });
        may(`what host ${host} said last arrives`, (state) => {
          if (!state[ghost]) return false;
          memory.append(state, setup, state[ghost]);
          state[ghost] = 0;
          return true;
        });
      }
    },
    flap: () => {
      for (const host of all)
        may(`host ${host} loses an idle connection`, (state) => {
          if (
            state[memory.FLAPS]! >= FLAPS ||
            !state[of(host, memory.UP)] ||
            state[of(host, memory.FLIGHT)]
          )
            return false;
          state[memory.FLAPS] = state[memory.FLAPS]! + 1;
          disconnect(state, host);
          return true;
        });
    },
    full: () => {
      for (const host of all)
        fault(`host ${host} appends, and the server is full`, (state) => {
          const next = state[of(host, memory.UP)] ? nextOf(state, host, setup) : -1;
          if (next < 0) return false;
          underWay(state, host, next);
          state[of(host, memory.REFUSED)] = state[of(host, memory.REFUSED)]! | memory.bit(next);
          return true;
        });
    },
    notice: () => {
      for (const host of all)
        fault(`a notice to host ${host} is lost`, (state) => {
          if (!state[of(host, memory.NOTICE)]) return false;
          state[of(host, memory.NOTICE)] = 0;
          return true;
        });
    },
    reader: () => {
      fault('the ingest loses its connection', (state) => {
        if (!state[INGEST_UP]) return false;
        state[INGEST_UP] = 0;
        return true;
      });
      fault('the ingest loses its connection, and what it stores', (state) => {
        if (!state[INGEST_UP] || !state[memory.DIRTY]) return false;
        state[INGEST_UP] = state[memory.DIRTY] = 0;
        return true;
      });
    },
    thread: () =>
      fault('the ingest thread dies and is replaced', (state) => {
        threadDies(state);
        if (broken === 'the ingest loses its naks when its thread dies')
          for (const host of all) state[of(host, memory.ASKED)] = 0;
        return true;
      }),
    learner: () => {
      fault('the learner dies, and another one begins', (state) => {
        threadDies(state);
        for (const host of all) learnerDies(state, host, setup);
        state[memory.NOW] = state[memory.NOW]! + 1;
        state[memory.LEASE] = 0;
        return true;
      });
      if (!setup.restored) return;
      may('the learner stores a checkpoint', (state) => {
        if (state[memory.CHECKPOINT] || state[memory.NOW] !== 1) return false;
        state[memory.CHECKPOINT] = 1;
        for (const host of all) {
          state[of(host, memory.KEPT_MARK)] = state[of(host, memory.MARK)]!;
          state[of(host, memory.KEPT_BUFFER)] = state[of(host, memory.BUFFER)]!;
        }
        return true;
      });
    },
    zombie: () => {
      fault('a learner that lost its lease says again what it said', (state) => {
        if (!all.some((host) => state[of(host, memory.OLD)])) return false;
        for (const host of all) {
          const old = state[of(host, memory.OLD)]!;
          if (old === 0) continue;
          state[of(host, memory.ACK)] = old;
          if (state[of(host, memory.UP)]) state[of(host, memory.NOTICE)] = old;
        }
        state[memory.HEART] = state[memory.NOW]! - 1;
        return true;
      });
      fault('a learner that lost its lease trims', (state) => {
        const count = memory.lengthOf(state);
        if (state[memory.NOW] === 1 || count === 0) return false;
        const cursor = state[memory.CURSOR]!;
        memory.replaceStream(state, cursor === memory.BLIND ? cursor : 0);
        return true;
      });
    },
    empty: () =>
      fault('the server is killed and starts empty', (state) => {
        serverEnds(state, setup);
        flushAll(state, setup, 0);
        return true;
      }),
    snapshot: () => {
      may('the server stores a snapshot', (state) => {
        if (state[memory.SAVED] || state[memory.FAULTS]! >= times) return false;
        state[memory.SAVED] = 1 + memory.lengthOf(state);
        state.copyWithin(SNAPSHOT, STREAM, STREAM + STREAM_LENGTH);
        state[memory.SAVED_LEASE] = state[memory.LEASE]!;
        state[memory.SAVED_HEART] = state[memory.HEART]!;
        for (const host of all) state[of(host, memory.SAVED_ACK)] = state[of(host, memory.ACK)]!;
        return true;
      });
      fault('the server is killed and starts with its snapshot', (state) => {
        if (!state[memory.SAVED]) return false;
        serverEnds(state, setup);
        memory.replaceStream(state, 0);
        state.copyWithin(STREAM, SNAPSHOT, SNAPSHOT + STREAM_LENGTH);
        state.fill(0, SNAPSHOT, SNAPSHOT + STREAM_LENGTH);
        state[memory.LEASE] = state[memory.SAVED_LEASE]!;
        state[memory.HEART] = state[memory.SAVED_HEART]!;
        for (const host of all) {
          state[of(host, memory.ACK)] = state[of(host, memory.SAVED_ACK)]!;
          state[of(host, memory.SAVED_ACK)] = 0;
        }
        // The snapshot is not used again, so its bytes are cleared. Otherwise equal states would
        // differ.
        state[memory.SAVED] = memory.BROUGHT_BACK;
        state[memory.SAVED_LEASE] = state[memory.SAVED_HEART] = 0;
        return true;
      });
    },
    'flush stream': () =>
      fault('the stream is dropped', (state) => {
        if (memory.lengthOf(state) === 0) return false;
        memory.replaceStream(state, 0);
        return true;
      }),
    flush: () =>
      fault('everything on the server is dropped', (state) => {
        flushAll(state, setup, 0);
        return true;
      }),
    clock: () =>
      fault("everything on the server is dropped, and the server's clock is set back", (state) => {
        flushAll(state, setup, memory.BLIND);
        return true;
      }),
    lease: () =>
      fault('the lease runs out', (state) => {
        if (!state[memory.LEASE]) return false;
        state[memory.LEASE] = 0;
        return true;
      }),
  };
  if (faults.includes('learner') && times >= memory.EPOCHS)
    throw new Error(`a setup has ${memory.EPOCHS} learners at most`);
  for (const each of faults) declares[each]();
  if (broken === 'the ingest forgets the mark of a silent host')
    for (const host of all)
      may(`the mark of host ${host} is forgotten`, (state) => {
        if (!state[of(host, memory.MARK)]) return false;
        state[of(host, memory.MARK)] = state[of(host, memory.ASKED)] = 0;
        return true;
      });
  return moves;
}

/** Records that the host has sent the message. The server appends nothing. */
function underWay(state: State, host: number, message: number): void {
  state[of(host, memory.TODO)] = state[of(host, memory.TODO)]! & ~memory.bit(message);
  state[of(host, memory.FLIGHT)] = state[of(host, memory.FLIGHT)]! | memory.bit(message);
  state[of(host, memory.WAITED)] = 0;
}

function disconnect(state: State, host: number): void {
  state[of(host, memory.UP)] = 0;
  state[of(host, memory.NOTICE)] = 0;
}

/**
 * The thread's connection ends with it. Its successor begins like a new connection, so these bytes
 * are cleared.
 */
function threadDies(state: State): void {
  state[HELD] = state[PHASE] = state[INGEST_UP] = state[memory.DIRTY] = state[memory.LOOKED] = 0;
  state[memory.CURSOR] = state[memory.DECIDED] = 0;
}

function learnerDies(state: State, host: number, setup: LinkSetup): void {
  const ignored = setup.broken === 'a new learner ignores the marks of its checkpoint';
  state[of(host, memory.OLD)] = state[of(host, memory.MARK)] ? ackTo(state, host, setup) : 0;
  state[of(host, memory.PAST)] = state[of(host, memory.PAST)]! | state[of(host, memory.BUFFER)]!;
  state[of(host, memory.MARK)] = ignored ? 0 : state[of(host, memory.KEPT_MARK)]!;
  state[of(host, memory.BUFFER)] = state[of(host, memory.KEPT_BUFFER)]!;
  state[of(host, memory.ASKED)] = 0;
}

function serverEnds(state: State, { hosts }: LinkSetup): void {
  state[memory.RUN] = state[memory.RUN]! + 1;
  state[INGEST_UP] = 0;
  for (let host = 0; host < hosts; host++) {
    disconnect(state, host);
    state[of(host, memory.GHOST)] = 0;
  }
}

function flushAll(state: State, { hosts }: LinkSetup, cursor: number): void {
  memory.replaceStream(state, cursor);
  state[memory.LEASE] = state[memory.HEART] = 0;
  for (let host = 0; host < hosts; host++) state[of(host, memory.ACK)] = 0;
}
