/** Invented remote collectors, as a monitor sees them. */
import type { RunningCollectors } from '../../src/run/collectors/pool-pause.ts';
import { type RemoteWatched, watchedCollectors } from '../../src/run/collectors/watched.ts';
import { aHost, aStatus } from '../remote/statuses.ts';

export interface Distant extends RunningCollectors {
  /** the state that the monitor reads from now on */
  now: RemoteWatched;
  /** totals of all hosts */
  steps: number;
  episodes: number;
  failure: Error | null;
}

export const distantly = (own: Partial<RemoteWatched> = {}): RemoteWatched => ({
  ...aStatus({}, [aHost()]),
  connected: true,
  waitingFor: 'rows: 1 host',
  ...own,
});

export function distant(now: RemoteWatched = distantly()): Distant {
  const made: Distant = {
    now,
    steps: 1000,
    episodes: 10,
    failure: null,
    done: Promise.resolve(),
    statistics: () => ({
      steps: made.steps,
      episodes: made.episodes,
      meanReturn: 7.5,
      recent: 10,
      waits: 0,
      version: 3,
    }),
    close: () => Promise.resolve(),
  };
  watchedCollectors.set(made, {
    failure: () => made.failure,
    workers: () => [],
    remote: () => made.now,
  });
  return made;
}

/**
 * A thousand hosts. One has failed, three are silent and ten have ended. The failed host's name is
 * HTML, and the silent hosts' names are very long.
 */
export const thousand = (): RemoteWatched =>
  distantly({
    waitingFor: 'rows: 1000 hosts, 3 silent for 14 s',
    hosts: Array.from({ length: 1000 }, (_, i) =>
      aHost({
        session: i,
        host: `worker-${i}`,
        pid: 4000 + i,
        silentMs: 100,
        ...(i === 700 && { state: 'failed', host: EVIL, why: `no room ${EVIL}` }),
        ...(i > 900 &&
          i < 904 && { state: 'silent', silentMs: 14_200, host: `${'long-name-'.repeat(40)}${i}` }),
        ...(i < 10 && { state: 'ended' }),
      }),
    ),
  });

/** HTML that would change the page's title if the page did not escape it. */
export const EVIL = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;
