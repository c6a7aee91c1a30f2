/**
 * How many bytes each session may have on the way: an equal share of what all may have together.
 */
import type { Ingest } from './ingest.ts';
import type { Session } from './session.ts';

const MAX_WINDOW = 8 * 2 ** 20;
/**
 * Of a session that nobody has counted yet: many may come at once, and none of them knows of the
 * others.
 */
const FIRST_WINDOW = 2 ** 16;

export class Windows {
  readonly #ingest: Ingest;
  readonly #transitBytes: number;
  /** sessions that are there now, and all that have come, when they were counted */
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

  /** So many sessions share it from now on: those are to be told where that makes a difference. */
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
