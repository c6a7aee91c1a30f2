/**
 * Adds rows from other machines to a buffer of rows, or to lanes of a buffer of steps. A session
 * keeps its lanes until it ends.
 */

import type { Bell } from '../../shm/bell.ts';
import { endsEpisode, laneOf, rowBytesOf } from '../../store/lanes/packed-rows.ts';
import type { SharedTrajectoryBuffer } from '../../store/lanes/shared-steps.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';
import { internalsOfLimiter } from '../../store/rate-limiter.ts';
import { ReplayBuffer, type SharedReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { Sink } from './ingest.ts';
import type { Session } from './session.ts';

/** A sink, and the bell that is rung when its limiter may admit more rows. */
export interface OpenSink extends Sink {
  /**
   * null if the buffer has no limiter that makes add() wait, or if all bells of the limiter are
   * claimed
   */
  readonly bell: Bell | null;
  close(): void;
}

/**
 * Maximum bytes of rows that one call adds, because the buffer's other writers wait during the
 * call.
 */
const MAX_BYTES = 2 ** 20;

const nothing = new Uint8Array();
/**
 * Returns the first `length` bytes. Usually that is `bytes` itself, which creates no view for the
 * garbage collector.
 */
const firstOf = (bytes: Uint8Array, length: number) =>
  length < bytes.length ? bytes.subarray(0, length) : bytes;

export function sinkOf(shared: SharedReplayBuffer | SharedTrajectoryBuffer): OpenSink {
  return shared.kind === 'hotslot.ReplayBuffer' ? rowsSink(shared) : stepsSink(shared);
}

function rowsSink(shared: SharedReplayBuffer): OpenSink {
  const buffer = ReplayBuffer.attach(shared);
  const { rowBytes, capacity } = buffer;
  const limiter = buffer.limiter && internalsOfLimiter(buffer.limiter);
  const gated = buffer.limiter?.gateAdd ? limiter : null;
  const bell = gated?.bells.claim() ?? null;
  const most = Math.max(1, Math.min(capacity, Math.floor(MAX_BYTES / rowBytes)));
  return {
    rowBytes,
    bell,
    reserve: () => {},
    admit: () => ({ firstLane: 0 }),
    open: () => null,
    add({ mark }, bytes, rows) {
      const some = Math.min(rows, most, gated?.mostAtOnce() ?? most);
      const before = mark.value;
      mark.value = before + some;
      let added = 0;
      try {
        added = buffer.addPacked(firstOf(bytes, some * rowBytes), some, mark);
        return added;
      } catch (error) {
        return wrongRow(error);
      } finally {
        mark.value = before + added;
      }
    },
    skip({ mark }, to) {
      mark.value = to;
      buffer.addPacked(nothing, 0, mark);
    },
    goesOn: () => true,
    end: () => {},
    close() {
      if (bell) gated?.bells.release(bell);
      buffer.close();
    },
  };
}

/**
 * Returns what is wrong with a received row. Throws any other error again, because that is an error
 * of this side.
 */
function wrongRow(error: unknown): string {
  if ('row' in (error as object)) return (error as Error).message;
  throw error;
}

interface Lanes {
  readonly firstLane: number;
  readonly lanes: number;
}
/** Returns the lowest first lane of `lanes` adjacent free lanes. */
function firstFree(taken: readonly Lanes[], lanes: number): number {
  let free = 0;
  for (const one of [...taken].sort((a, b) => a.firstLane - b.firstLane)) {
    if (one.firstLane - free >= lanes) break;
    free = Math.max(free, one.firstLane + one.lanes);
  }
  return free;
}

/**
 * Returns the sink of a buffer of steps. Each session has its own lanes, from its first message to
 * its last one.
 */
function stepsSink(shared: SharedTrajectoryBuffer): OpenSink {
  const buffer = TrajectoryBuffer.attach(shared);
  const rowBytes = rowBytesOf(buffer.layout);
  const limiter = buffer.limiter && internalsOfLimiter(buffer.limiter);
  const gated = buffer.limiter?.gateAdd ? limiter : null;
  const bell = gated?.bells.claim() ?? null;
  const most = Math.max(2, Math.floor(MAX_BYTES / rowBytes));
  const writers = new Map<number, TrajectoryWriter>();
  const reserved = new Map<number, Lanes>();
  /**
   * for each session's line, the lanes whose next step begins an episode, even if the step
   * continues one
   */
  const cut = new Map<number, Set<number>>();
  const cutAll = ({ line, lanes }: Session) => cut.set(line, new Set(Array(lanes).keys()));
  const writerOf = (session: Session) => writers.get(session.line) as TrajectoryWriter;
  return {
    rowBytes,
    bell,
    reserve({ line, firstLane, lanes }) {
      reserved.set(line, { firstLane, lanes });
    },
    admit(lanes, wanted) {
      if (lanes === 0)
        return { refused: 'it has no lanes, and the learner has a TrajectoryBuffer' };
      const taken = [...writers.values()];
      const ends = (one: Lanes) => one.firstLane + one.lanes;
      const isFree = (first: number) =>
        taken.every((one) => first >= ends(one) || first + lanes <= one.firstLane);
      if (wanted !== undefined && isFree(wanted)) return { firstLane: wanted };
      // The first attempt avoids the lanes of sessions that have not returned yet. The second
      // attempt uses these lanes too. A session that returns after that gets other lanes, if some
      // are free.
      for (const others of [[...taken, ...reserved.values()], taken]) {
        const firstLane = firstFree(others, lanes);
        if (firstLane + lanes <= buffer.lanes) return { firstLane };
      }
      const free = buffer.lanes - taken.reduce((sum, writer) => sum + writer.lanes, 0);
      return {
        refused: `it requests ${lanes} adjacent lanes, and ${free} of the learner’s ${buffer.lanes} lanes are free`,
      };
    },
    open(session, resume) {
      const { firstLane, lanes, line } = session;
      reserved.delete(line);
      try {
        writers.set(line, buffer.writer({ firstLane, lanes, resume }) as TrajectoryWriter);
        if (!resume) cutAll(session);
        return null;
      } catch (error) {
        return `its lanes cannot be taken: ${(error as Error).message}`;
      }
    },
    add(session, bytes, rows) {
      const { mark } = session;
      let some = Math.min(rows, most, gated?.mostAtOnce() ?? most);
      // Adds the final observation together with the step that ends its episode.
      if (some < rows && endsEpisode(bytes, rowBytes, some - 1)) some++;
      const before = mark.value;
      mark.value = before + some;
      let added = 0;
      try {
        added = writerOf(session).addPacked(firstOf(bytes, some * rowBytes), some, mark);
        const left = cut.get(session.line);
        if (left) for (let row = 0; row < added; row++) left.delete(laneOf(bytes, rowBytes, row));
        return added;
      } catch (error) {
        return wrongRow(error);
      } finally {
        mark.value = before + added;
      }
    },
    skip(session, to) {
      // Steps after the gap do not continue the episodes before it.
      writerOf(session).cutEpisodes();
      cutAll(session);
      session.mark.value = to;
      writerOf(session).addPacked(nothing, 0, session.mark);
    },
    goesOn({ line }) {
      if (cut.get(line)?.size) return false;
      cut.delete(line);
      return true;
    },
    end({ line }) {
      writers.get(line)?.close();
      writers.delete(line);
      cut.delete(line);
    },
    close() {
      for (const writer of writers.values()) writer.close();
      if (bell) gated?.bells.release(bell);
      buffer.close();
    },
  };
}
