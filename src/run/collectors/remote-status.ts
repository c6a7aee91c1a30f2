/** A learner's report on its collector hosts: on each one, and on all of them at one moment. */

/** The median and the 99th percentile of measurements, null without any. */
export interface RemoteSpread {
  readonly p50: number | null;
  readonly p99: number | null;
}

/**
 * The state of a collector host. A silent host has sent no message for a while. An ended host has
 * left the run. A refused host was rejected by its learner.
 */
export type RemoteHostState = 'live' | 'silent' | 'ended' | 'refused' | 'failed';

/** The state of a collector host, as its learner knows it. */
export interface RemoteHostStatus {
  readonly session: number;
  readonly host: string;
  readonly pid: number;
  /** when its first message came, ms since 1970 by the learner's clock */
  readonly since: number;
  /** collector threads */
  readonly workers: number;
  /** environment steps */
  readonly steps: number;
  /** episodes that have ended */
  readonly episodes: number;
  /** mean return of its latest episodes, null before the first has ended */
  readonly meanReturn: number | null;
  /** version of the weights that acted in its newest rows */
  readonly version: number;
  /** its rows that are in the buffer */
  readonly rows: number;
  /** rows that it has collected but not sent yet */
  readonly waiting: number;
  /** ms since its last message */
  readonly silentMs: number;
  readonly state: RemoteHostState;
  /** reason why it was refused or failed, '' otherwise */
  readonly why: string;
}

/** The state of a run's collection at one moment. */
export interface RemoteStatus {
  /** ms since 1970, by the learner's clock */
  readonly time: number;
  readonly epoch: number;
  readonly run: string;
  readonly rows: number;
  readonly rowsPerSecond: number;
  readonly bytesPerSecond: number;
  /** messages that came again and added nothing */
  readonly duplicates: number;
  /** messages that lacked rows before them */
  readonly gaps: number;
  /** rows dropped because the weights that acted in them are too old */
  readonly stale: number;
  /** messages that belong to another run */
  readonly refused: number;
  /** rows that no host has any more, including final observations of steps, which travel as rows */
  readonly lost: number;
  /** ms from sending to the buffer */
  readonly lag: RemoteSpread;
  /** share of the time that the learner's limiter held rows back, 0 to 1 */
  readonly gated: number;
  /** share of the time that hosts had a full window, 0 to 1 */
  readonly windowFull: number;
  /** number of versions by which the rows' weights are old */
  readonly versionLag: RemoteSpread;
  /**
   * bytes that hosts have sent and that are not acknowledged: on the server, or waiting for the
   * limiter
   */
  readonly streamBytes: number;
  readonly hosts: readonly RemoteHostStatus[];
}
