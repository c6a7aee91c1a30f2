/**
 * The modelled ingest thread: it reads, decides, commits, acknowledges, trims and beats. The words
 * that it keeps in shared memory outlive it.
 */
import { type Move, type State, Violation } from './checker.ts';
import type { LinkSetup } from './link.ts';
import * as memory from './link-memory.ts';
import { CURSOR, DECIDED, HELD, HELLO, of, PHASE, STREAM } from './link-memory.ts';

/** A host that is asked for its rows more often in one setup would be asked without end. */
const MAX_NAKS = memory.NAKS - 1;

function raise(state: State, host: number): void {
  if (state[of(host, memory.ASKED)] === MAX_NAKS)
    throw new Violation('endless', `host ${host} is asked for its rows again and again`);
  state[of(host, memory.ASKED)] = state[of(host, memory.ASKED)]! + 1;
}

const dirty = (state: State, host: number): void => {
  state[memory.DIRTY] = state[memory.DIRTY]! | (1 << host);
};

/**
 * E4 and E7: the first acts of a thread that starts or has a new connection. It reads from 0-0, and
 * stores every acknowledgement again.
 */
export function beginAnew(state: State, { hosts, busy }: LinkSetup): void {
  state[CURSOR] = state[DECIDED] = state[memory.LOOKED] = 0;
  if (busy) state[memory.LAY] = memory.lengthOf(state);
  if (state[HELD]) state[PHASE] = state[PHASE]! | memory.STALE;
  for (let host = 0; host < hosts; host++) if (state[of(host, memory.MARK)]) dirty(state, host);
}

/**
 * E2. Decides on the message: the mark and the rows move in one step. A session is unknown before
 * its first message, and begins with that message's base.
 */
function decide(state: State, { broken }: LinkSetup): void {
  const entry = state[HELD]!;
  const { host, row, base } = memory.messageOf(entry);
  const session = of(host, memory.MARK);
  const mark = state[session]! - 1;
  const from = row === HELLO ? 0 : row;
  const to = row === HELLO ? 0 : row + 1;
  if (state[PHASE]! & memory.HALF) {
    state[session] = to + 1;
    decided(state);
    dirty(state, host);
    return;
  }
  const least = Math.max(mark, base, 0);
  memory.skip(state, host, Math.max(mark, 0), least);
  if (from <= least && to > least) {
    memory.commit(state, host, row);
    if (broken === 'the ingest stores the mark after the commit') {
      state[PHASE] = state[PHASE]! | memory.HALF;
      return;
    }
    state[session] = to + 1;
    dirty(state, host);
  } else {
    const known = mark >= 0;
    state[session] = least + 1;
    if (to > least) raise(state, host);
    if (to > least || !known || broken !== 'the ingest does not acknowledge duplicates again')
      dirty(state, host);
  }
  decided(state);
}

function decided(state: State): void {
  if (!(state[PHASE]! & memory.STALE)) {
    state[DECIDED] = state[CURSOR]!;
    if (state[memory.LAY]) state[memory.LAY] = state[memory.LAY]! - 1;
  }
  state[HELD] = state[PHASE] = 0;
}

/** Returns the acknowledgement of a host's session. */
export function ackTo(state: State, host: number, { broken }: LinkSetup): number {
  const held = state[HELD]! ? memory.messageOf(state[HELD]!) : null;
  const early =
    broken === 'the ingest acknowledges a row before it commits the row' &&
    held?.host === host &&
    held.row !== HELLO;
  const row = early
    ? Math.max(state[of(host, memory.MARK)]! - 1, held.row + 1)
    : state[of(host, memory.MARK)]! - 1;
  return memory.ackOf(state[memory.NOW]!, row, state[of(host, memory.ASKED)]!);
}

export function ingestMoves(setup: LinkSetup): Move[] {
  const { hosts, broken, quick, busy } = setup;
  const all = Array.from({ length: hosts }, (_, host) => host);
  const up = (state: State) => state[memory.INGEST_UP] === 1;
  /** Whether any host waits for a beat. Other beats would change nothing. */
  const awaited = (state: State) =>
    !quick &&
    all.some((host) => state[of(host, memory.WAITED)]! > 0 && state[of(host, memory.WAITED)]! < 3);

  const reads: Move = {
    optional: false,
    says: (state) => `the ingest reads ${memory.inWords(state[STREAM + state[CURSOR]!]!)}`,
    apply: (state) => {
      if (!up(state) || state[HELD] || state[CURSOR]! >= memory.lengthOf(state)) return false;
      state[HELD] = state[STREAM + state[CURSOR]!]!;
      state[CURSOR] = state[CURSOR]! + 1;
      if (broken === 'the ingest acknowledges a row before it commits the row')
        dirty(state, memory.messageOf(state[HELD]!).host);
      if (broken === 'the ingest trims a message before it commits the row')
        state[DECIDED] = state[CURSOR]!;
      return true;
    },
  };
  const decides: Move = {
    optional: false,
    says: (state) => `the ingest decides ${memory.inWords(state[HELD]!)}`,
    apply: (state) => {
      if (!state[HELD]) return false;
      decide(state, setup);
      return true;
    },
  };
  const acknowledges: Move = {
    optional: false,
    says: (state) => {
      const to = all.filter((host) => state[memory.DIRTY]! & (1 << host));
      return `the ingest stores ${to.map((host) => `${memory.ackInWords(ackTo(state, host, setup))} for host ${host}`).join(', ')}`;
    },
    apply: (state) => {
      if (!up(state) || state[memory.DIRTY] === 0) return false;
      if (state[DECIDED] && broken !== 'the ingest acknowledges messages before it trims them')
        return false;
      for (const host of all) {
        if (!(state[memory.DIRTY]! & (1 << host))) continue;
        const ack = ackTo(state, host, setup);
        state[of(host, memory.ACK)] = ack;
        if (state[of(host, memory.UP)]) state[of(host, memory.NOTICE)] = ack;
      }
      state[memory.DIRTY] = 0;
      return true;
    },
  };
  const trims: Move = {
    optional: false,
    says: (state) => `the ingest trims ${state[DECIDED]}`,
    apply: (state) => {
      const count = state[DECIDED]!;
      if (!up(state) || count === 0) return false;
      memory.dropFirst(state, count);
      state[CURSOR] = state[CURSOR]! - count;
      state[DECIDED] = 0;
      return true;
    },
  };
  /**
   * E6, first half: the look is over when the ingest has read from 0-0 to the end and everything is
   * trimmed. A busy stream has no end. There the look is over when the ingest has decided on all
   * messages that were there at the last beat. A lost message is replaced by a later message of
   * another host in that count.
   */
  const looks: Move = {
    optional: false,
    says: (state) =>
      `the ingest has looked${state[CURSOR] === memory.BLIND ? ', and goes back to 0-0' : ''}`,
    apply: (state) => {
      if (quick || !up(state)) return false;
      const atEnd = !state[HELD] && !state[DECIDED] && state[CURSOR]! >= memory.lengthOf(state);
      if (
        atEnd &&
        state[CURSOR] === memory.BLIND &&
        broken !== 'the ingest does not return to id 0-0 at the end of the stream'
      ) {
        state[CURSOR] = 0;
        return true;
      }
      const never = broken === 'the ingest counts a beat only at the end of the stream';
      const over = busy
        ? (state[memory.LAY] === 0 ||
            broken === 'the ingest ends a look before it decides all messages') &&
          !never
        : atEnd;
      if (!over || state[memory.LOOKED] || !awaited(state)) return false;
      state[memory.LOOKED] = 1;
      return true;
    },
  };
  const beats: Move = {
    optional: false,
    says: (state) => `the ingest's heart beats${state[memory.LOOKED] ? ', and counts' : ''}`,
    apply: (state) => {
      // In this mutation hosts outside the setup send all the time, so no look finds an empty
      // stream.
      const others = broken === 'the ingest counts a beat only if it found no messages';
      const counts =
        state[memory.LOOKED] === 1 && state[memory.DIRTY] === 0 && awaited(state) && !others;
      const known = state[memory.HEART] === state[memory.NOW];
      if (!up(state) || (known && !counts)) return false;
      state[memory.HEART] = state[memory.NOW]!;
      if (!counts) return true;
      state[memory.LOOKED] = 0;
      if (busy) state[memory.LAY] = memory.lengthOf(state);
      for (const host of all) {
        const waited = of(host, memory.WAITED);
        if (state[waited]! > 0 && state[waited]! < 3) state[waited] = state[waited]! + 1;
      }
      return true;
    },
  };
  /** E8: the ingest takes the free lease, or the lease of an older epoch runs out. */
  const leases: Move = {
    optional: false,
    says: (state) =>
      state[memory.LEASE] ? 'the lease of an older epoch runs out' : 'the ingest takes the lease',
    apply: (state) => {
      if (state[memory.LEASE] === state[memory.NOW]) return false;
      if (state[memory.LEASE] === 0 && !up(state)) return false;
      state[memory.LEASE] = state[memory.LEASE] === 0 ? state[memory.NOW]! : 0;
      return true;
    },
  };
  const connects: Move = {
    optional: false,
    says: () => 'the ingest connects again',
    apply: (state) => {
      if (up(state)) return false;
      const cursor = state[CURSOR]!;
      const another = state[memory.RUN_KNOWN] !== state[memory.RUN];
      state[memory.INGEST_UP] = 1;
      beginAnew(state, setup);
      // Ids of another server run may be lower than the last id that was read.
      if (broken === 'a reconnected ingest continues after its last id')
        state[CURSOR] = another ? memory.BLIND : cursor;
      state[memory.RUN_KNOWN] = state[memory.RUN]!;
      if (broken === 'a reconnected ingest does not store acknowledgements again')
        state[memory.DIRTY] = 0;
      if (!another || broken === 'the ingest raises no nak for another server run') return true;
      for (const host of all) {
        if (!state[of(host, memory.MARK)]) continue;
        raise(state, host);
        dirty(state, host);
      }
      return true;
    },
  };
  return [leases, connects, looks, beats, reads, acknowledges, trims, decides];
}
