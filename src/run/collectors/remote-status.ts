/** What a learner says of its collector hosts: of each one, and of all of them at one moment. */

/** The middle and the high end of what was measured; null where nothing was. */
export interface RemoteSpread {
  readonly p50: number | null;
  readonly p99: number | null;
}

export type RemoteHostState = 'live' | 'silent' | 'ended' | 'refused' | 'failed';

/** A collector host, as the learner knows it. */
export interface RemoteHostStatus {
  readonly session: number;
  readonly host: string;
  readonly pid: number;
  /** when its first message came, ms since 1970 by the learner's clock */
  readonly since: number;
  readonly workers: number;
  readonly steps: number;
  readonly episodes: number;
  /** of its latest episodes; null before the first has ended */
  readonly meanReturn: number | null;
  /** of the weights that its newest rows were acted by */
  readonly version: number;
  /** rows of it that are in the buffer */
  readonly rows: number;
  /** rows that it has collected and not sent yet */
  readonly waiting: number;
  /** since it was heard of last */
  readonly silentMs: number;
  readonly state: RemoteHostState;
  /** why it was refused or failed; '' otherwise */
  readonly why: string;
}

/** A run's collection, at one moment. */
export interface RemoteStatus {
  /** ms since 1970, by the learner's clock */
  readonly time: number;
  readonly epoch: number;
  readonly run: string;
  readonly rows: number;
  readonly rowsPerSecond: number;
  readonly bytesPerSecond: number;
  /** messages that came again and brought nothing new */
  readonly duplicates: number;
  /** messages that lacked rows before them */
  readonly gaps: number;
  /** rows dropped because they were acted by weights that are too old */
  readonly stale: number;
  /** messages that were none of this run */
  readonly refused: number;
  /**
   * rows that no host has any more; of steps, final observations count too, as rows that are on
   * their way
   */
  readonly lost: number;
  /** ms from sending to the buffer */
  readonly lag: RemoteSpread;
  /** share of the time that the learner's limiter held rows back, 0 to 1 */
  readonly gated: number;
  /** share of the time that hosts had a full window, 0 to 1 */
  readonly windowFull: number;
  /** how many versions the rows' weights are behind */
  readonly versionLag: RemoteSpread;
  /**
   * that hosts have sent and that are not acknowledged: on the server, or waiting for the limiter
   */
  readonly streamBytes: number;
  readonly hosts: readonly RemoteHostStatus[];
}
