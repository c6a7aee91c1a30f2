/**
 * Registers collectors on other machines with the parts of Hotslot that know nothing of servers:
 * checkpoints, monitors, pipelines and traces.
 */

import { feed } from '../../engine/trace/feeders.ts';
import { Spans } from '../../engine/trace/spans.ts';
import { type PausedPool, pausables } from '../../run/collectors/pool-pause.ts';
import { watchedCollectors } from '../../run/collectors/watched.ts';
import type { RemoteThreadTask } from './remote-thread.ts';
import type { Reports } from './reports.ts';

interface PoolHooks {
  hold(): Promise<PausedPool>;
  failure(): Error | null;
}

/** Registers collectors. Pipelines and traces know them until the returned function is called. */
export function register(
  remote: object,
  { run, buffer, spans }: Pick<RemoteThreadTask, 'run' | 'buffer' | 'spans'>,
  reports: Reports,
  { hold, failure }: PoolHooks,
): () => void {
  pausables.set(remote, hold);
  watchedCollectors.set(remote, {
    failure,
    workers: () => [],
    remote: () => ({
      ...reports.status(run, 0),
      connected: reports.connected,
      waitingFor: reports.waitingFor(),
    }),
  });
  return feed(buffer.memory, {
    waitingFor: () => reports.waitingFor(),
    spans: spans.map((place) => new Spans(place)),
  });
}
