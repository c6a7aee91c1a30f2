/** What RemoteCollectors.open() takes. */

import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { RemoteServerOptions } from './address.ts';

export interface RemoteCollectorsOptions extends RemoteServerOptions {
  /** of a Redis or Valkey server, such as 'rediss://learner@broker:6380' */
  readonly url: string;
  /** its name on that server, which hosts name too: letters, digits, dots, dashes, underlines */
  readonly run: string;
  /** where rows are added, or steps */
  readonly buffer: ReplayBuffer | TrajectoryBuffer;
  /** what hosts get weights from; left out, their collectors act by none */
  readonly mailbox?: WeightMailbox | undefined;
  /** handed to every collector; as JSON has it */
  readonly options?: unknown;
  /** each host derives one of its own from it; 0 by default */
  readonly seed?: number | undefined;
  /** streams, with a thread each; 1 by default */
  readonly shards?: number | undefined;
  /** bytes of rows that all hosts together may have on the way; 256 MiB by default */
  readonly transitBytes?: number | undefined;
  /** ms between two versions that go out, at least; 200 by default */
  readonly weightsEveryMs?: number | undefined;
  /**
   * rows that were acted by weights of more versions ago are counted and dropped; Infinity by
   * default
   */
  readonly maxVersionLag?: number | undefined;
  /** what Checkpoint.restore() gave as collectors */
  readonly resume?: unknown;
  /** ends opening, while the server is waited for: open() rejects with its reason */
  readonly signal?: AbortSignal | undefined;
  /** told while it waits for the server, in words */
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
