/**
 * The window of each session: the number of bytes that the session may have in transit. All live
 * sessions share the total number of bytes equally.
 */
import type { Ingest } from './ingest.ts';
import type { Session } from './session.ts';

const MAX_WINDOW = 8 * 2 ** 20;
/**
 * Maximum window of a session that began after the last count of live sessions. Many sessions may
 * begin before the next count, and larger windows could together exceed the total number of bytes.
 */
const FIRST_WINDOW = 2 ** 16;

export class Windows {
  readonly #ingest: Ingest;
  readonly #transitBytes: number;
  /** number of live sessions, and of all sessions so far, at the last count */
  #live: number;
  #counted: number;

  constructor(ingest: Ingest, transitBytes: number) {
    this.#ingest = ingest;
    this.#transitBytes = transitBytes;
    this.#counted = ingest.sessions.size;
    this.#live = this.#counted;
  }

  of({ line }: Session): number {
    const most = line < this.#counted ? MAX_WINDOW : FIRST_WINDOW;
    return Math.floor(Math.min(most, this.#transitBytes / Math.max(1, this.#live)));
  }

  /**
   * Divides the bytes among the live sessions, of which there are `live`. Adds sessions whose
   * window changes by over 1/8 to `ingest.changed`, so that their new window is sent.
   */
  share(live: number): void {
    const { sessions, changed } = this.#ingest;
    this.#live = live;
    this.#counted = sessions.size;
    for (const session of sessions.values()) {
      const window = this.of(session);
      if (!session.ended && Math.abs(session.window - window) > window / 8) changed.add(session);
    }
  }
}
