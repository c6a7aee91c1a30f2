/**
 * The monitor's view of running collectors, here or on other machines. Each kind enters itself when
 * it is opened.
 */
import type { RemoteStatus } from './remote-status.ts';
import type { WorkerStatistics } from './statistics.ts';

/** State of collectors on other machines. */
export interface RemoteWatched extends RemoteStatus {
  /** whether the server is connected */
  readonly connected: boolean;
  /** reason why no rows come, as text */
  readonly waitingFor: string | null;
}

export interface WatchedCollectors {
  /** the error that ended them, null while they run */
  failure(): Error | null;
  /** threads of this process, empty if they are on other machines */
  workers(): WorkerStatistics[];
  /** null if they are threads of this process */
  remote(): RemoteWatched | null;
}

export const watchedCollectors = new WeakMap<object, WatchedCollectors>();
