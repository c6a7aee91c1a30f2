/**
 * Iterates over the episodes of a pool's collectors. It reads them from shared memory every
 * `LOOK_MS`.
 */
import type { Episode, StatisticsPages } from './statistics.ts';

/** Milliseconds between two reads. */
const LOOK_MS = 50;

interface Source {
  pages: StatisticsPages;
  workers: number;
  /**
   * resolves when all collectors have stopped. If one of them has failed, rejects at that time
   * instead, with its error
   */
  over: () => Promise<unknown>;
  signal: AbortSignal | undefined;
}

export async function* episodesOf({
  pages,
  workers,
  over,
  signal,
}: Source): AsyncGenerator<Episode, void> {
  const readers = Array.from({ length: workers }, (_, worker) => ({
    next: pages.ended(worker),
    missed: 0,
  }));
  let ended: { failed?: { error: unknown } } | null = null;
  let wake = () => {};
  const end = (how: { failed?: { error: unknown } }) => {
    ended = how;
    wake();
  };
  over().then(
    () => end({}),
    (error) => end({ failed: { error } }),
  );
  const abort = () => end({ failed: { error: signal?.reason } });
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();
  try {
    for (;;) {
      // Reads `ended` before the episodes, so that it also reads episodes that were reported just
      // before the end.
      const last: typeof ended = ended;
      if (last && signal?.aborted) throw signal.reason;
      for (const [worker, reader] of readers.entries()) {
        const { next, missed, episodes } = pages.episodes(worker, reader.next, reader.missed);
        Object.assign(reader, { next, missed });
        yield* episodes;
      }
      const { failed } = (last ?? {}) as { failed?: { error: unknown } };
      if (failed) throw failed.error;
      if (last) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, LOOK_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        if (ended) wake();
      });
    }
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}
