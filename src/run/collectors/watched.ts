/**
 * The interface by which the monitor reads running collectors, in this process or on other
 * machines. Collectors add themselves to `watchedCollectors` when they are opened.
 */
import type { RemoteStatus } from './remote-status.ts';
import type { WorkerStatistics } from './statistics.ts';

/** State of collectors on other machines. */
export interface RemoteWatched extends RemoteStatus {
  /** whether the learner is connected to the server */
  readonly connected: boolean;
  /** reason why no rows arrive, as text */
  readonly waitingFor: string | null;
}

export interface WatchedCollectors {
  /** Returns the error that ended the collectors, null while they run. */
  failure(): Error | null;
  /**
   * Returns the counts of this process's collector threads, [] for collectors on other machines.
   */
  workers(): WorkerStatistics[];
  /** Returns the state of collectors on other machines, null for threads of this process. */
  remote(): RemoteWatched | null;
}

export const watchedCollectors = new WeakMap<object, WatchedCollectors>();
