/**
 * The progress of each session's rows, in shared memory. Each session has a line, which exists as
 * long as the learner does. A line is valid if its number is below the word COUNT.
 *
 * A thread that replaces another one continues with these values. Only one thread at a time writes
 * them.
 */

import { allocateShared, checkShared, type Place } from '../../shm/memory.ts';
import type { Mark } from '../../store/rows/packed.ts';

/**
 * Maximum number of lines, each of 64 bytes. When all are used, new sessions are refused. A line is
 * never reused, so that no session's mark is forgotten. Without its mark, a host that was frozen
 * for long could send old rows again, which would be added twice.
 */
export const MAX_SESSIONS = 65_536;

const LINE_WORDS = 8;
/** Index of each word in a line. */
const Word = { session: 0, mark: 1, nak: 2, state: 3, firstLane: 4, lanes: 5, cut: 6 } as const;
/**
 * Indexes of the header's words: number of sessions so far, and number of rows that no learner has
 * any more.
 */
const COUNT = 0;
const LOST = 1;

/**
 * Values of the word `state`. `restored` means that the session comes from a checkpoint, and has
 * sent nothing since.
 */
export const SessionState = { live: 0, ended: 1, restored: 2 } as const;

export interface SharedSessionOffsets extends Place {
  readonly kind: typeof KIND;
}
const KIND = 'hotslot.remote.marks';

/** A session's line when a checkpoint was taken, for structured cloning. */
export interface SavedOffset {
  readonly session: number;
  readonly mark: number;
  readonly state: number;
  readonly firstLane: number;
  readonly lanes: number;
  /**
   * whether rows were dropped, and at least one of the session's lanes has received nothing since
   * (missing in older checkpoints)
   */
  readonly cut?: boolean;
}

export class SessionOffsets {
  readonly shared: SharedSessionOffsets;
  readonly #words: BigUint64Array;

  constructor(shared: SharedSessionOffsets) {
    checkShared(KIND, shared, shared?.memory, 'offsets are made by SessionOffsets.create()');
    this.shared = shared;
    this.#words = new BigUint64Array(shared.memory, shared.offset, (MAX_SESSIONS + 1) * LINE_WORDS);
  }

  static create(saved: readonly SavedOffset[] = []): SessionOffsets {
    const place = allocateShared(
      'the marks of remote collectors',
      (MAX_SESSIONS + 1) * LINE_WORDS * 8,
      64,
    );
    const marks = new SessionOffsets({ kind: KIND, ...place });
    for (const each of saved) {
      const line = marks.admit(each.session, each.mark, each.firstLane, each.lanes);
      marks.#state(
        line,
        each.state === SessionState.ended ? SessionState.ended : SessionState.restored,
      );
      marks.cut(line, each.cut === true);
    }
    return marks;
  }

  get count(): number {
    return Number(Atomics.load(this.#words, COUNT));
  }

  /**
   * Returns how many rows are lost: an earlier learner acknowledged them after its last checkpoint.
   */
  get lost(): number {
    return Number(Atomics.load(this.#words, LOST));
  }
  /**
   * Counts lost rows. Call it before the mark moves past them: if the thread ends in between, the
   * next thread counts them twice rather than never.
   */
  lose(rows: number): void {
    Atomics.add(this.#words, LOST, BigInt(rows));
  }

  /** Adds a line for a new session. Returns the line's number, or −1 if all are in use. */
  admit(session: number, mark: number, firstLane: number, lanes: number): number {
    const line = this.count;
    if (line >= MAX_SESSIONS) return -1;
    const at = (line + 1) * LINE_WORDS;
    this.#words[at + Word.session] = BigInt(session);
    this.#words[at + Word.mark] = BigInt(mark);
    this.#words[at + Word.nak] = 0n;
    this.#words[at + Word.state] = BigInt(SessionState.live);
    this.#words[at + Word.firstLane] = BigInt(firstLane);
    this.#words[at + Word.lanes] = BigInt(lanes);
    this.#words[at + Word.cut] = 1n;
    // Stored last, so that a thread that ends before this has not admitted the session.
    Atomics.store(this.#words, COUNT, BigInt(line + 1));
    return line;
  }

  /**
   * Returns the mark of a line, which changes together with the session's rows. The caller keeps
   * the object and changes its `value`.
   */
  of(line: number): { words: BigUint64Array; index: number; value: number } & Mark {
    return {
      words: this.#words,
      index: (line + 1) * LINE_WORDS + Word.mark,
      value: this.read(line).mark,
    };
  }
  end(line: number): void {
    this.#state(line, SessionState.ended);
  }
  /** Records that a restored session has sent a message. */
  live(line: number): void {
    this.#state(line, SessionState.live);
  }
  #state(line: number, state: number): void {
    this.#words[(line + 1) * LINE_WORDS + Word.state] = BigInt(state);
  }
  /** Records that a session has other lanes from now on. */
  move(line: number, firstLane: number): void {
    this.#words[(line + 1) * LINE_WORDS + Word.firstLane] = BigInt(firstLane);
  }
  nak(line: number, count: number): void {
    this.#words[(line + 1) * LINE_WORDS + Word.nak] = BigInt(count);
  }
  /**
   * Records whether rows were dropped and at least one of the session's lanes has received nothing
   * since.
   */
  cut(line: number, cut: boolean): void {
    this.#words[(line + 1) * LINE_WORDS + Word.cut] = cut ? 1n : 0n;
  }

  read(line: number): Required<SavedOffset> & { readonly nak: number } {
    const at = (line + 1) * LINE_WORDS;
    const word = (name: keyof typeof Word) => Number(Atomics.load(this.#words, at + Word[name]));
    const [session, mark, nak] = [word('session'), word('mark'), word('nak')];
    const cut = word('cut') !== 0;
    return {
      session,
      mark,
      nak,
      state: word('state'),
      firstLane: word('firstLane'),
      lanes: word('lanes'),
      cut,
    };
  }

  /** Returns all lines. Call it while no thread writes. */
  saved(): SavedOffset[] {
    return Array.from({ length: this.count }, (_, line) => {
      const { nak: _nak, ...saved } = this.read(line);
      return saved;
    });
  }
}
