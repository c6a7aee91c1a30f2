/**
 * Episodes of a pool's collectors as something to iterate over, read from shared memory now and
 * then.
 */
import type { Episode, StatisticsPages } from './statistics.ts';

/** How often it is looked for new ones. */
const LOOK_MS = 50;

interface Source {
  pages: StatisticsPages;
  workers: number;
  /**
   * resolves when no more will come; rejects with why. Asked for by who reads: nobody else hears of
   * it
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
      // First whether it is over, then what there is: the last ones are read as well.
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
