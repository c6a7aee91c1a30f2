/** The options of `RemoteCollectors.open()`. */

import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { RemoteServerOptions } from './address.ts';

export interface RemoteCollectorsOptions extends RemoteServerOptions {
  /** URL of a Redis or Valkey server, such as 'rediss://learner@broker:6380' */
  readonly url: string;
  /**
   * name of the run on that server, which hosts use too: letters, digits, dots, dashes, underlines
   */
  readonly run: string;
  /** buffer that rows or steps are added to */
  readonly buffer: ReplayBuffer | TrajectoryBuffer;
  /** mailbox whose weights are sent to hosts. If it is omitted, collectors act without weights */
  readonly mailbox?: WeightMailbox | undefined;
  /** options that every collector gets, as JSON */
  readonly options?: unknown;
  /** seed from which each host derives its own, 0 by default */
  readonly seed?: number | undefined;
  /** number of streams, with one thread each, 1 by default */
  readonly shards?: number | undefined;
  /** bytes of rows that all hosts together may have in transit, 256 MiB by default */
  readonly transitBytes?: number | undefined;
  /** minimum ms between two versions of the weights that are sent, 200 by default */
  readonly weightsEveryMs?: number | undefined;
  /**
   * maximum age of a row's weights in versions, Infinity by default. Older rows are dropped and
   * counted
   */
  readonly maxVersionLag?: number | undefined;
  /** state to resume from: `collectors` of the result of Checkpoint.restore() */
  readonly resume?: unknown;
  /** aborts open() while it waits for the server: open() then rejects with the signal's reason */
  readonly signal?: AbortSignal | undefined;
  /** called with the reason as text while a thread waits for the server */
  readonly onWait?: ((words: string) => void) | undefined;
}

export const OPTIONS = [
  'url',
  'run',
  'buffer',
  'mailbox',
  'options',
  'seed',
  'shards',
  'transitBytes',
  'weightsEveryMs',
  'maxVersionLag',
  'insecure',
  'password',
  'ca',
  'resume',
  'signal',
  'onWait',
];
