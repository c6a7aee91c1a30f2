/**
 * What goes between a learner and its collector hosts, as a model: hosts
 * (src/net/remote/uplink.ts), a server that forgets, and repeats itself, and the learner's ingest
 * thread (src/net/remote/ingest.ts). A message is one row, there is one shard, and every
 * interleaving is stepped: a host that freezes, a limiter that says not yet and a slow reply are
 * agents that have not been scheduled.
 *
 * What holds, and which move keeps it:
 * - E1 A row keeps its number. A host keeps all from its base on, which is what was acknowledged to
 *   it (`sealed`).
 * - E2 Of a message, what lies below the mark, or below the message's base, is there or died with
 *   another learner. What goes on from there is committed; what begins further on is a gap: nothing
 *   is committed, and nak grows (`decide`).
 * - E3 Rows and mark move in one step. Mark, nak and the server run that they go with outlive the
 *   thread; the mark of a session stays as long as the learner does (`commit`, 'thread').
 * - E4 An acknowledgement is a state: stored until that is confirmed, all of it again on every
 *   connection, again for what was there before; hosts read it where a notice may be lost
 *   (`acknowledges`, `reads`). What is decided is trimmed before it is acknowledged, so that no
 *   more than the windows lies on the server (`trims`).
 * - E5 A host sends again what has no reply, after a connection; all that is not acknowledged, when
 *   nak grows or the epoch changes. Nothing by a clock (`connects`, `take`, `adopts`).
 * - E6 What vanished without anybody's seeing it comes again by beats. A beat counts when the
 *   ingest has decided on all that lay in its stream at the one before, or has read from 0-0 to the
 *   end since, and what it decided is acknowledged. A host that sees two beats counted behind its
 *   last reply, and its rows still not acknowledged, sends all of them again (`looks`, `beats`,
 *   `reads`). It does not matter whether the ingest found anything: where others send all the time,
 *   it always does.
 * - E7 After every connection the ingest reads from 0-0. To another server run it says everything
 *   anew, and raises every session's nak (ingest's `connects`). A message is trimmed once it is
 *   decided, not before.
 * - E8 One learner has the lease. A host believes in an epoch because the lease says so, and never
 *   again in an older one: a server that comes back with old data has an old lease as well. A new
 *   learner goes on from the marks of its checkpoint, or from a message's base (`adopts`, `leases`,
 *   'learner').
 *
 * The oracle: `twice`, no row is committed twice to one buffer. `lost`, no row is left out of it
 * but those that an earlier learner had, and no host lets go of a row that the newest learner it
 * believes in has not. `copies`, what lies on the server is bounded. `endless`, naks end. A run
 * ends with every row committed and acknowledged and nothing left on the server; else `deadlock`.
 */
import type { Model } from './checker.ts';
import { faultMoves } from './link-faults.ts';
import { hostMoves } from './link-host.ts';
import { ingestMoves } from './link-ingest.ts';
import * as memory from './link-memory.ts';
import { of, span } from './link-memory.ts';

export interface LinkSetup {
  hosts: 1 | 2;
  /** of each host, a message each */
  rows: number;
  /** rows that may be on the way; 2 */
  window?: number;
  /**
   * a host's first message is HELLO; else the learner has said how much may be on the way before it
   * begins
   */
  hello?: boolean;
  faults?: readonly LinkFault[];
  /** faults in all; 1 */
  times?: number;
  /** a new learner goes on from a checkpoint, where there is one */
  restored?: boolean;
  /**
   * no beat is counted: what comes back without one does so at once, what needs one takes two
   * seconds
   */
  quick?: boolean;
  /** hosts besides those of the setup send so much that no read comes to the end */
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
  | 'a beat counted where nothing was found'
  | 'a look is over at once'
  | 'acknowledged before it is trimmed'
  | 'acknowledged before the commit'
  | 'acknowledgement as a notice only'
  | 'acknowledgement of another epoch believed'
  | 'acknowledgements not stored again'
  | 'an older epoch believed again'
  | 'duplicates not acknowledged again'
  | 'everything sent again on every connection'
  | 'mark stored behind the commit'
  | 'naks forgotten with the thread'
  | 'no base'
  | 'no nak for another server run'
  | 'nothing sent again on beats'
  | 'nothing sent again to another epoch'
  | 'one beat is enough'
  | 'only an end counts'
  | 'read on behind the last id'
  | 'read to the end behind an id'
  | 'restored marks ignored'
  | 'sent again by a timer'
  | 'the mark of a silent host forgotten'
  | 'trimmed before the commit'
  | 'what has no reply not sent again';

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
