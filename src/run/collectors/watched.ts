/**
 * What a monitor sees of collectors that run, here or on other machines; each kind enters itself
 * when it is opened.
 */
import type { RemoteStatus } from './remote-status.ts';
import type { WorkerStatistics } from './statistics.ts';

/** Of collectors on other machines. */
export interface RemoteWatched extends RemoteStatus {
  /** whether the server is there */
  readonly connected: boolean;
  /** what keeps rows from coming, in words */
  readonly waitingFor: string | null;
}

export interface WatchedCollectors {
  /** what ended them; null while nothing did */
  failure(): Error | null;
  /** threads of this process; none where they are on other machines */
  workers(): WorkerStatistics[];
  /** null where they are threads of this process */
  remote(): RemoteWatched | null;
}

export const watchedCollectors = new WeakMap<object, WatchedCollectors>();
