/**
 * Models the link between a learner and its collector hosts: hosts (src/net/remote/uplink.ts), a
 * server that may forget and repeat, and the learner's ingest thread (src/net/remote/ingest.ts). A
 * message is one row, and there is one shard. Every interleaving is stepped. So a frozen host, a
 * limiter that refuses and a slow reply are agents that are not scheduled.
 *
 * The rules, and the moves that implement them:
 * - E1 A row keeps its number. A host keeps all rows from its base on. The base is the row up to
 *   which rows are acknowledged to the host (`sealed`).
 * - E2 The rows of a message below the mark, or below the message's base, are in the buffer or died
 *   with another learner. Rows that follow without a gap are committed. If the message begins
 *   further on, nothing is committed and the nak grows (`decide`).
 * - E3 Rows and mark change in one step. The mark, the nak and the server run that they belong to
 *   outlive the thread. The mark of a session exists as long as the learner does (`commit`,
 *   'thread').
 * - E4 An acknowledgement is a state. The ingest stores it until the store is confirmed. It stores
 *   all of them again on every connection, and one again for a duplicate. Hosts also read the
 *   state, because a notice may be lost (`acknowledges`, `reads`). Decided messages are trimmed
 *   before they are acknowledged, so the server never stores more than the windows (`trims`).
 * - E5 After a connection, a host sends again the messages without a reply. If the nak grows or the
 *   epoch changes, it sends all unacknowledged messages again. No clock makes it send (`connects`,
 *   `take`, `adopts`).
 * - E6 Messages that vanished unnoticed are sent again after beats. A beat counts if the ingest has
 *   stored all acknowledgements and its look is over. A look is over when the ingest has decided on
 *   all messages that were there at the beat before. It is also over when the ingest has read from
 *   0-0 to the end since that beat. A host sends all its rows again if two beats counted after its
 *   last reply and the rows are still not acknowledged (`looks`, `beats`, `reads`). A look counts
 *   even if it found messages, because others may send all the time.
 * - E7 After every connection the ingest reads from 0-0. On another server run it stores every
 *   acknowledgement again, and raises every session's nak (ingest's `connects`). A message is
 *   trimmed after it is decided, not before.
 * - E8 One learner has the lease. A host believes in an epoch because of the lease, and never in an
 *   older one again. So it ignores the old lease of a server that restarts with old data. A new
 *   learner continues from the marks of its checkpoint, or from a message's base (`adopts`,
 *   `leases`, 'learner').
 *
 * The oracle:
 * - `twice`: no row is committed twice to one buffer.
 * - `lost`: no row is missing in the buffer unless an earlier learner had it. No host drops a row
 *   that its newest learner does not have.
 * - `copies`: the number of messages on the server is bounded.
 * - `endless`: naks end.
 * - `deadlock`: a run ends with every row committed and acknowledged, and with no message on the
 *   server.
 */
import type { Model } from './checker.ts';
import { faultMoves } from './link-faults.ts';
import { hostMoves } from './link-host.ts';
import { ingestMoves } from './link-ingest.ts';
import * as memory from './link-memory.ts';
import { of, span } from './link-memory.ts';

export interface LinkSetup {
  hosts: 1 | 2;
  /** number of rows of each host; each row is a message */
  rows: number;
  /** number of rows that a host may have in transit; 2 by default */
  window?: number;
  /**
   * whether a host's first message is HELLO; otherwise the host knows at the start how many rows it
   * may have in transit
   */
  hello?: boolean;
  faults?: readonly LinkFault[];
  /** number of faults in all; 1 by default */
  times?: number;
  /** whether a new learner continues from a checkpoint, if there is one */
  restored?: boolean;
  /** whether beats never count, so that the link must repair every fault at once */
  quick?: boolean;
  /** whether hosts outside the setup send all the time, so that no read reaches the end */
  busy?: boolean;
  broken?: LinkMutation;
}

export type LinkFault =
  | 'cut'
  | 'late'
  | 'flap'
  | 'full'
  | 'notice'
  | 'reader'
  | 'thread'
  | 'learner'
  | 'zombie'
  | 'empty'
  | 'snapshot'
  | 'flush stream'
  | 'flush'
  | 'clock'
  | 'lease';

export type LinkMutation =
  | 'the ingest counts a beat only if it found no messages'
  | 'the ingest ends a look before it decides all messages'
  | 'the ingest acknowledges messages before it trims them'
  | 'the ingest acknowledges a row before it commits the row'
  | 'a host does not read stored acknowledgements'
  | 'a host accepts an acknowledgement of another epoch'
  | 'a reconnected ingest does not store acknowledgements again'
  | 'a host accepts an older epoch again'
  | 'the ingest does not acknowledge duplicates again'
  | 'a host sends every message again on each connection'
  | 'the ingest stores the mark after the commit'
  | 'the ingest loses its naks when its thread dies'
  | 'a host sends its messages without a base'
  | 'the ingest raises no nak for another server run'
  | 'a host sends no message again after beats'
  | 'a host sends no message again to another epoch'
  | 'a host sends its messages again after one beat'
  | 'the ingest counts a beat only at the end of the stream'
  | 'a reconnected ingest continues after its last id'
  | 'the ingest does not return to id 0-0 at the end of the stream'
  | 'a new learner ignores the marks of its checkpoint'
  | 'a host sends its messages again after a timeout'
  | 'the ingest forgets the mark of a silent host'
  | 'the ingest trims a message before it commits the row'
  | 'a host does not send messages without a reply again';

export function linkProtocol(setup: LinkSetup): Model {
  const { hosts, rows, hello } = setup;
  const all = Array.from({ length: hosts }, (_, host) => host);
  const moves = [
    ...faultMoves(setup),
    ...all.flatMap((host) => hostMoves(host, setup)),
    ...ingestMoves(setup),
  ];
  if (moves.length > 31) throw new Error('the checker has no room for so many faults');
  return {
    width: memory.WIDTH,
    moves,
    start: (state) => {
      state.fill(0);
      for (const each of [memory.LEASE, memory.HEART, memory.NOW, memory.INGEST_UP])
        state[each] = 1;
      for (const host of all) {
        state[of(host, memory.UP)] =
          state[of(host, memory.EPOCH)] =
          state[memory.HIGHEST + host] =
            1;
        state[of(host, memory.GREETED)] = state[of(host, memory.MARK)] = hello ? 0 : 1;
        state[of(host, memory.TODO)] = span(0, rows) | (hello ? memory.bit(memory.HELLO) : 0);
      }
    },
    unfinished: (state) => {
      const left = memory.lengthOf(state);
      if (left > 0) return `${left} messages are left on the server`;
      for (const host of all) {
        const acknowledged = state[of(host, memory.ACKED)]!;
        const had = state[of(host, memory.BUFFER)]! | state[of(host, memory.PAST)]!;
        if (acknowledged === rows && (had & span(0, rows)) === span(0, rows)) continue;
        return `host ${host} waits: ${acknowledged} of ${rows} rows are acknowledged to it`;
      }
      return null;
    },
  };
}
