/** The options of `RemoteCollectors.open()`. */

import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { RemoteServerOptions } from './address.ts';

export interface RemoteCollectorsOptions extends RemoteServerOptions {
  /** of a Redis or Valkey server, such as 'rediss://learner@broker:6380' */
  readonly url: string;
  /** its name on that server, which hosts name too: letters, digits, dots, dashes, underlines */
  readonly run: string;
  /** buffer that rows or steps are added to */
  readonly buffer: ReplayBuffer | TrajectoryBuffer;
  /** source of the hosts' weights, without which their collectors act by none */
  readonly mailbox?: WeightMailbox | undefined;
  /** passed to every collector, as JSON */
  readonly options?: unknown;
  /** seed from which each host derives its own, 0 by default */
  readonly seed?: number | undefined;
  /** streams, with one thread each, 1 by default */
  readonly shards?: number | undefined;
  /** bytes of rows that all hosts together may have on the way, 256 MiB by default */
  readonly transitBytes?: number | undefined;
  /** minimum ms between two versions that are sent, 200 by default */
  readonly weightsEveryMs?: number | undefined;
  /**
   * maximum age of a row's weights in versions, above which the row is counted and dropped,
   * Infinity by default
   */
  readonly maxVersionLag?: number | undefined;
  /** `collectors` of the result of Checkpoint.restore() */
  readonly resume?: unknown;
  /** aborts open() while it waits for the server: it rejects with the signal's reason */
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
