/**
 * The learner's handling of a message. It alone decides which rows are missing, and makes each row
 * come in once:
 *
 *   Ingest-1  A session's mark says that its rows below it are in the buffer, or were dropped and
 *       counted. Rows and mark move in one native call, so a thread that ends in between leaves
 *       both or neither.
 *   Ingest-2  A message has rows [first, end) of a host that keeps all from base on. Let m be the
 *       larger one of mark and base. If end ≤ m, the rows came before, and nothing is done.
 *       Otherwise first ≤ m brings rows [m, end), and if first > m, some are missing and are
 *       requested.
 *   Ingest-3  If base > mark, the rows in between were acknowledged by a learner that is gone, and
 *       lost with it. They are counted.
 *   Ingest-4  An acknowledgement is made of a mark that is stored. Its reader may forget the rows
 *       below it.
 *   Ingest-5  After rows were dropped, or before the first has come, the line says that the session
 *       is cut, until each of its lanes has received something. A thread that takes over begins
 *       every episode of a cut session anew. A cut too many parts an episode, one too few joins
 *       two.
 *
 * This code never waits: a message that the limiter does not let in is offered again.
 */

import { BYE, emptyHeader, HEADER_BYTES, type MessageHeader, readMessage } from './message.ts';
import { Session } from './session.ts';
import type { SessionOffsets } from './session-offsets.ts';

/** The destination of a message's rows. */
export interface Sink {
  /** bytes of a row in a message */
  readonly rowBytes: number;
  /** Keeps the lanes of a session that an earlier learner had, while other lanes are free. */
  reserve(session: Session): void;
  /**
   * Returns lanes for a session, from `wanted` on if they are free, or the reason for refusing it.
   */
  admit(
    lanes: number,
    wanted?: number,
  ): { readonly firstLane: number } | { readonly refused: string };
  /**
   * Opens a session before its first row, and ends the reservation of its lanes. `resume`: it goes
   * on where a thread before left it. Returns null, or why it cannot be opened.
   */
  open(session: Session, resume: boolean): string | null;
  /**
   * Adds rows and moves the session's mark by as many. Returns their number: all, fewer if they do
   * not fit at once, or 0 if the limiter admits none now. Returns a text if they are not rows.
   */
  add(session: Session, bytes: Uint8Array, rows: number): number | string;
  /** Moves the session's mark to `mark`, over rows that are dropped. */
  skip(session: Session, mark: number): void;
  /**
   * Returns whether every lane of the session has received something since rows were dropped, or
   * since it was opened. Then no lane waits to begin anew.
   */
  goesOn(session: Session): boolean;
  /** Ends a session, which adds no more rows. */
  end(session: Session): void;
}

export interface IngestCounts {
  messages: number;
  rows: number;
  bytes: number;
  /** messages that brought nothing new */
  duplicates: number;
  /** messages before which rows were missing */
  gaps: number;
  /** rows that were older than maxVersionLag allows */
  stale: number;
  /** invalid messages, and messages of refused sessions */
  refused: number;
}

/** Maximum number of refusals that are reported: further ones are only counted. */
const MAX_REFUSALS = 1000;
/** Number of last messages whose time from sending to commit is kept. */
const LAGS = 512;

export interface IngestOptions {
  readonly marks: SessionOffsets;
  readonly sink: Sink;
  /** crc32 of the layout, as in messages */
  readonly layout: number;
  /** the layout as text, for hosts that have another one */
  readonly layoutText?: string;
  /** maximum age of rows in versions */
  readonly maxVersionLag: number;
  /** the learner's newest version */
  readonly version: () => number;
  /** ms since 1970, with which messages' times are compared, for the lags only */
  readonly now: () => number;
}

export class Ingest {
  readonly counts: IngestCounts = {
    messages: 0,
    rows: 0,
    bytes: 0,
    duplicates: 0,
    gaps: 0,
    stale: 0,
    refused: 0,
  };
  readonly sessions = new Map<number, Session>();
  /** sessions whose acknowledgement has changed since it was taken from here */
  readonly changed = new Set<Session>();
  /**
   * reasons of refused sessions: those that are to be reported, and all that were ever reported,
   * with their time by performance.now()
   */
  readonly refusals = new Map<number, string>();
  readonly refused = new Map<number, { readonly why: string; readonly atMs: number }>();
  /**
   * ms from sending to commit, and age in versions, of the last messages: the newest overwrites the
   * oldest
   */
  readonly lags = new Float64Array(LAGS);
  readonly stale = new Float64Array(LAGS);
  /** messages whose lag was measured */
  measured = 0;
  readonly #given: IngestOptions;
  readonly #header: MessageHeader = emptyHeader();
  /**
   * the message that the limiter did not let in, whose header is read, and a view of its rows,
   * which is reused if all are needed
   */
  #held: Uint8Array | null = null;
  #rows: Uint8Array = new Uint8Array();

  constructor(given: IngestOptions) {
    this.#given = given;
    for (let line = 0; line < given.marks.count; line++) {
      const session = new Session(given.marks, line);
      this.sessions.set(session.id, session);
      if (session.ended) continue;
      if (session.restored) given.sink.reserve(session);
      else this.#open(session);
    }
  }

  /** Takes a message. Returns false if the limiter says not yet: offer the same one again. */
  take(bytes: Uint8Array): boolean {
    const header = this.#header;
    if (this.#held !== bytes) {
      this.#held = null;
      this.counts.messages++;
      this.#rows = bytes.subarray(HEADER_BYTES);
      const refusal = readMessage(bytes, header, this.#rows);
      const session = refusal === null ? this.#sessionOf(header) : null;
      if (session === null) {
        this.counts.refused++;
        return true;
      }
      session.lastMs = performance.now();
      this.changed.add(session);
      const needed = this.#needed(session, header);
      // Its last message still moves its mark, so the session ends after that.
      if (header.flags & BYE) this.#end(session);
      if (!needed) return true;
      this.#held = bytes;
    }
    const session = this.sessions.get(header.session) as Session;
    if (!this.#commit(session, header)) return false;
    this.#held = null;
    return true;
  }

  /** Marks all acknowledgements and refusals to be sent again. */
  sayAgain(): void {
    for (const session of this.sessions.values()) if (!session.ended) this.changed.add(session);
    for (const [id, { why }] of this.refused) this.refusals.set(id, why);
  }

  /** Requests all unacknowledged rows from every session that has not ended. */
  askAll(): void {
    for (const session of this.sessions.values()) {
      if (session.ended) continue;
      this.#ask(session);
    }
  }

  /** Returns the session of a message, or null if the message is refused. */
  #sessionOf({ session: id, base, rowBytes, layout, lanes, rows }: MessageHeader): Session | null {
    const known = this.sessions.get(id);
    const { sink, marks } = this.#given;
    if (layout !== this.#given.layout || (rows > 0 && rowBytes !== sink.rowBytes))
      return this.#refuse(
        id,
        `its rows have another layout than the learner’s: ${this.#given.layoutText ?? layout}`,
      );
    // A thread that takes over reads messages of an ended session again, which were all
    // acknowledged.
    if (known?.restored) return this.#welcome(known);
    if (known) return known.ended ? null : known;
    if (this.refused.has(id)) return null;
    const place = sink.admit(lanes);
    if ('refused' in place) return this.#refuse(id, place.refused);
    const line = marks.admit(id, base, place.firstLane, lanes);
    if (line < 0) return this.#refuse(id, 'the learner has had the maximum number of sessions');
    const session = new Session(marks, line);
    this.sessions.set(id, session);
    return this.#open(session, false);
  }

  /**
   * Opens a session that an earlier learner had and that is there again. If its lanes are another
   * session's by now, it gets others, if there are any.
   */
  #welcome(session: Session): Session | null {
    const { sink, marks } = this.#given;
    const place = sink.admit(session.lanes, session.firstLane);
    if ('refused' in place) return this.#expel(session, place.refused);
    if (place.firstLane !== session.firstLane) {
      // The steps in these lanes are not of its episodes. This comes first: a thread that ends in
      // between leaves a cut too many at most.
      this.#cut(session, true);
      session.firstLane = place.firstLane;
      marks.move(session.line, place.firstLane);
    }
    marks.live(session.line);
    session.restored = false;
    return this.#open(session);
  }

  #open(session: Session, resume = !session.cut): Session | null {
    const refusal = this.#given.sink.open(session, resume);
    return refusal === null ? session : this.#expel(session, refusal);
  }

  #refuse(id: number, why: string): null {
    if (!this.refused.has(id) && this.refused.size < MAX_REFUSALS) {
      this.refused.set(id, { why, atMs: performance.now() });
      this.refusals.set(id, why);
    }
    return null;
  }

  /** Returns whether there are rows to commit (Ingest-2). */
  #needed(session: Session, { first, rows, base }: MessageHeader): boolean {
    const { mark } = session;
    if (base > mark.value) {
      this.#given.marks.lose(base - mark.value);
      this.#skip(session, base);
    }
    if (rows === 0) return false;
    if (first + rows <= mark.value) {
      this.counts.duplicates++;
      return false;
    }
    if (first > mark.value) {
      this.counts.gaps++;
      if (!session.requested) this.#ask(session);
      return false;
    }
    session.requested = false;
    return true;
  }

  #commit(session: Session, { first, version, sent, rows }: MessageHeader): boolean {
    const { sink, maxVersionLag } = this.#given;
    const { mark } = session;
    const end = first + rows;
    const now = this.#given.version();
    if (now - version > maxVersionLag) {
      this.counts.stale += end - mark.value;
      this.#skip(session, end);
      return true;
    }
    const { rowBytes } = sink;
    while (mark.value < end) {
      const done = mark.value;
      const left = done > first ? this.#rows.subarray((done - first) * rowBytes) : this.#rows;
      const added = sink.add(session, left, end - done);
      if (typeof added === 'string') {
        this.counts.refused++;
        this.#expel(session, added);
        return true;
      }
      if (added === 0) return false;
      if (session.cut && sink.goesOn(session)) this.#cut(session, false);
      this.counts.rows += added;
      this.counts.bytes += added * rowBytes;
      session.rows += added;
      this.changed.add(session);
    }
    const at = this.measured++ % LAGS;
    this.lags[at] = Math.max(0, this.#given.now() - sent);
    this.stale[at] = Math.max(0, now - version);
    session.version = version;
    return true;
  }

  #skip(session: Session, to: number): void {
    this.#cut(session, true);
    this.#given.sink.skip(session, to);
  }
  #cut(session: Session, cut: boolean): void {
    session.cut = cut;
    this.#given.marks.cut(session.line, cut);
  }

  /** Ends and refuses a session, whose messages are ignored from now on. */
  #expel(session: Session, why: string): null {
    session.restored = false;
    this.#end(session);
    this.changed.delete(session);
    return this.#refuse(session.id, why);
  }

  #ask(session: Session): void {
    session.requested = true;
    session.nak++;
    this.#given.marks.nak(session.line, session.nak);
    this.changed.add(session);
  }

  #end(session: Session): void {
    session.ended = true;
    this.#given.marks.end(session.line);
    this.#given.sink.end(session);
  }
}
