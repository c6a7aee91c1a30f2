/** The report of a learner about its collector hosts: the status of each host, and their sums. */

/** The median and the 99th percentile of measurements. Both are null without measurements. */
export interface RemoteSpread {
  readonly p50: number | null;
  readonly p99: number | null;
}

/**
 * The state of a collector host. A silent host has sent no message for a while. An ended host has
 * left the run. A refused host was rejected by its learner. A failed host has reported an error.
 */
export type RemoteHostState = 'live' | 'silent' | 'ended' | 'refused' | 'failed';

/** The state of a collector host, as its learner knows it. */
export interface RemoteHostStatus {
  readonly session: number;
  readonly host: string;
  readonly pid: number;
  /** when the learner received the host's first message, ms since 1970 by the learner's clock */
  readonly since: number;
  /** number of collector threads */
  readonly workers: number;
  /** environment steps of the host */
  readonly steps: number;
  /** number of the host's episodes that have ended */
  readonly episodes: number;
  /** mean return of the host's latest episodes, null before the first has ended */
  readonly meanReturn: number | null;
  /** version of the weights that chose the actions in the host's newest rows */
  readonly version: number;
  /** number of the host's rows that are in the buffer */
  readonly rows: number;
  /** number of rows that the host has collected but not sent yet */
  readonly waiting: number;
  /** ms since the host's last message */
  readonly silentMs: number;
  readonly state: RemoteHostState;
  /** reason why the host was refused or failed, '' otherwise */
  readonly why: string;
}

/** The state of all collector hosts of a run at one moment. */
export interface RemoteStatus {
  /** ms since 1970, by the learner's clock */
  readonly time: number;
  readonly epoch: number;
  readonly run: string;
  readonly rows: number;
  readonly rowsPerSecond: number;
  readonly bytesPerSecond: number;
  /** messages that arrived again and added no rows */
  readonly duplicates: number;
  /** messages that arrived although rows before them are missing */
  readonly gaps: number;
  /** rows dropped because the weights that chose their actions are too old */
  readonly stale: number;
  /** messages that belong to another run */
  readonly refused: number;
  /**
   * rows that no host can send any more. Final observations count, because they are sent as rows
   */
  readonly lost: number;
  /** ms from the sending of rows until they are in the buffer */
  readonly lag: RemoteSpread;
  /** share of the time during which the learner's limiter admitted no rows, 0 to 1 */
  readonly gated: number;
  /**
   * share of the time during which hosts sent nothing because their window of unacknowledged bytes
   * was full, 0 to 1
   */
  readonly windowFull: number;
  /** number of versions by which the weights of rows are older than the newest weights */
  readonly versionLag: RemoteSpread;
  /**
   * bytes that hosts have sent and the learner has not acknowledged. They are on the server, or
   * wait for the limiter
   */
  readonly streamBytes: number;
  readonly hosts: readonly RemoteHostStatus[];
}
