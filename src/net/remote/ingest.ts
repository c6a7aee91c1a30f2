/**
 * Handles the messages that the learner receives. Only this code decides which rows are missing,
 * and it makes each row enter the buffer once:
 *
 *   Ingest-1  A session's mark is a row number. All rows below the mark are in the buffer, or were
 *       dropped and counted. One native call changes the rows and the mark. A thread that ends
 *       meanwhile has changed both or neither.
 *   Ingest-2  A message has rows [first, end) of a host that keeps all rows from base on. Let m be
 *       the larger one of mark and base. If end ≤ m, the rows came before, and the learner does
 *       nothing. Otherwise, if first ≤ m, the learner adds rows [m, end). If first > m, rows are
 *       missing and the learner requests them.
 *   Ingest-3  If base > mark, an earlier learner acknowledged rows [mark, base), which were lost
 *       with that learner. They are counted, and the mark moves to base.
 *   Ingest-4  An acknowledgement contains a mark that is already stored. The host that reads it may
 *       forget the rows below the mark.
 *   Ingest-5  The flag `cut` in a session's line is set when the session opens, and when rows of
 *       the session are dropped. It is cleared when each of the session's lanes has received a row
 *       since. While it is set, a thread that replaces this one begins a new episode in each lane.
 *       A flag that is set too long splits an episode. A flag that is cleared too early joins two
 *       different episodes.
 *
 * This code never waits. If the limiter does not admit a message, the caller offers it again.
 */

import { BYE, emptyHeader, HEADER_BYTES, type MessageHeader, readMessage } from './message.ts';
import { Session } from './session.ts';
import type { SessionOffsets } from './session-offsets.ts';

/** The destination of a message's rows. */
export interface Sink {
  /** bytes of a row in a message */
  readonly rowBytes: number;
  /**
   * Reserves the lanes of a session from an earlier learner. Other sessions get these lanes only if
   * no other lanes are free.
   */
  reserve(session: Session): void;
  /**
   * Finds `lanes` adjacent free lanes, from lane `wanted` on if possible. Returns the first of
   * them, or the reason for refusing the session.
   */
  admit(
    lanes: number,
    wanted?: number,
  ): { readonly firstLane: number } | { readonly refused: string };
  /**
   * Opens a session before its first row is added, and ends the reservation of its lanes. With
   * `resume`, its episodes continue where an earlier thread left them. Returns null, or the reason
   * why the session cannot be opened.
   */
  open(session: Session, resume: boolean): string | null;
  /**
   * Adds rows from `bytes`, which contains `rows` rows, and moves the session's mark by the number
   * of added rows. Returns this number: `rows`, fewer if they do not fit at once, or 0 if the
   * limiter admits none now. Returns a text if the bytes are invalid rows.
   */
  add(session: Session, bytes: Uint8Array, rows: number): number | string;
  /** Moves the session's mark to `mark`, past rows that are dropped. */
  skip(session: Session, mark: number): void;
  /**
   * Returns whether every lane of the session has received a row since rows were dropped, or since
   * the session was opened. If so, no lane has to begin a new episode.
   */
  goesOn(session: Session): boolean;
  /** Ends a session. It adds no rows afterwards. */
  end(session: Session): void;
}

export interface IngestCounts {
  messages: number;
  rows: number;
  bytes: number;
  /** messages whose rows were all received before */
  duplicates: number;
  /** messages that were ignored because earlier rows were missing */
  gaps: number;
  /** rows that were dropped because they were older than maxVersionLag allows */
  stale: number;
  /** invalid messages, and messages of refused sessions */
  refused: number;
}

/** Maximum number of refusals that are reported. Further refusals are only counted. */
const MAX_REFUSALS = 1000;
/** Number of recent messages whose lag and age are kept. */
const LAGS = 512;

export interface IngestOptions {
  readonly marks: SessionOffsets;
  readonly sink: Sink;
  /** crc32 of the layout, as in messages */
  readonly layout: number;
  /** the layout as text, for the error of hosts that have another layout */
  readonly layoutText?: string;
  /** maximum age of a row's weights in versions: rows of older weights are dropped */
  readonly maxVersionLag: number;
  /** the learner's newest version */
  readonly version: () => number;
  /** returns ms since 1970: only the lags use it, and compare it with the messages' times */
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
  /** sessions whose acknowledgement must be sent: the receiver removes them */
  readonly changed = new Set<Session>();
  /**
   * reasons for refusing sessions, by session id. `refusals` has those that must still be sent.
   * `refused` has all of them, with the time of the refusal by performance.now()
   */
  readonly refusals = new Map<number, string>();
  readonly refused = new Map<number, { readonly why: string; readonly atMs: number }>();
  /**
   * ms from sending to commit, and age in versions, of the recent messages: the newest value
   * overwrites the oldest
   */
  readonly lags = new Float64Array(LAGS);
  readonly versionLags = new Float64Array(LAGS);
  /** messages whose lag was measured */
  measured = 0;
  readonly #given: IngestOptions;
  readonly #header: MessageHeader = emptyHeader();
  /**
   * the message that the limiter has not admitted completely, or null. `#header` has its header,
   * and `#rows` is a view of all its rows, which is reused if add() gets all of them
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

  /**
   * Handles a message. Returns false if the limiter does not admit all of the message's rows now.
   * In that case, offer the same message again.
   */
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
      // Ends the session only after #needed(), which may still move the mark.
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
    // A thread that replaced another one reads the whole stream. So it may read messages of an
    // ended session again. It ignores them, because all of their rows are acknowledged.
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
   * Opens a session of an earlier learner that has sent a message again. If another session has its
   * lanes by now, the reopened session gets other lanes. If too few lanes are free, refuses the
   * session and returns null.
   */
  #welcome(session: Session): Session | null {
    const { sink, marks } = this.#given;
    const place = sink.admit(session.lanes, session.firstLane);
    if ('refused' in place) return this.#expel(session, place.refused);
    if (place.firstLane !== session.firstLane) {
      // The new lanes contain steps of other episodes, so the session is cut. The cut is stored
      // before the lanes. If the thread ends between the two stores, the only effect is an
      // unnecessary cut (Ingest-5).
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

  /** Returns whether the message has rows to commit (Ingest-2). */
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
    this.versionLags[at] = Math.max(0, now - version);
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

  /** Ends and refuses a session. Its later messages are ignored. */
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
