/** What a host is told, checked, and what it tells. */
import { hostname } from 'node:os';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { CollectorStatistics } from '../../run/collectors/statistics.ts';
import { checkSignal } from '../../shm/wait.ts';
import { checkAddress, type RemoteServerOptions } from './address.ts';
import { checkRun } from './keys.ts';
import { checkEndian } from './message.ts';

export interface CollectorHostOptions extends RemoteServerOptions {
  /** of a Redis or Valkey server, such as 'rediss://collector@broker:6380' */
  readonly url: string;
  /** the learner's name for it */
  readonly run: string;
  /** module whose default export is a CollectorFactory */
  readonly entry: URL;
  /** threads; 1 by default */
  readonly workers?: number | undefined;
  /**
   * environments of a run whose buffer keeps steps in order, a lane each, shared out among the
   * workers; default: one each
   */
  readonly lanes?: number | undefined;
  /** of rows that wait to be sent; 32 MiB by default */
  readonly outboxBytes?: number | undefined;
  /**
   * rows go out when there are so many bytes of them, 255 KiB by default, or when the first has
   * waited so long, 20 ms by default
   */
  readonly flushBytes?: number | undefined;
  readonly flushMs?: number | undefined;
  /**
   * as the learner sees it, and what its seed is derived from; default: the machine's name and the
   * process's number
   */
  readonly name?: string | undefined;
  /** ends opening, while the learner is waited for: open() rejects with its reason */
  readonly signal?: AbortSignal | undefined;
  /** told while it waits, in words: for the learner, or for the server */
  readonly onWait?: ((words: string) => void) | undefined;
}

/** What this machine's collectors count, and how their rows go out. */
export interface CollectorHostStatistics extends CollectorStatistics {
  /** rows that were taken out of the outbox, and of those the ones that the learner has */
  sent: number;
  acknowledged: number;
  /** messages that were sent again */
  repeated: number;
  /** rows that no message has taken yet */
  waiting: number;
  /** the learner's version that collectors act by, the oldest */
  version: number;
  /** what rows wait for, in words; null: nothing, there are none */
  waitingFor: string | null;
}

const OPTIONS = [
  'url',
  'run',
  'entry',
  'workers',
  'lanes',
  'outboxBytes',
  'flushBytes',
  'flushMs',
  'name',
  'insecure',
  'password',
  'ca',
  'signal',
  'onWait',
];
export function checkedHost(options: CollectorHostOptions) {
  checkKeys('CollectorHost.open', options, OPTIONS);
  checkEndian();
  const { url, insecure, password, ca, entry, signal, onWait } = options;
  checkAddress({ url, insecure, password, ca });
  checkSignal(signal);
  if (!(entry instanceof URL))
    throw typeError(`entry must be the URL of a collector's module, got ${describeValue(entry)}`);
  if (onWait !== undefined && typeof onWait !== 'function')
    throw typeError(`onWait must be a function, got ${describeValue(onWait)}`);
  const workers = checkCount('workers', options.workers ?? 1, 1, 64);
  const lanes = checkCount('lanes', options.lanes ?? workers, 1, 65_536);
  if (lanes < workers)
    throw rangeError(
      `lanes must be at least the workers, one each; got ${lanes} for ${workers} workers`,
    );
  const name = options.name ?? `${hostname()}/${process.pid}`;
  if (typeof name !== 'string' || name.length === 0 || name.length > 200)
    throw typeError(`name must be a string of 1 to 200 letters, got ${describeValue(name)}`);
  return {
    url,
    insecure,
    password,
    ca,
    run: checkRun(options.run),
    entry,
    workers,
    lanes,
    name,
    signal,
    onWait,
    outboxBytes: checkCount('outboxBytes', options.outboxBytes ?? 2 ** 25, 4096),
    // With what is around it, a message of 256 KiB takes the next larger piece of a server's
    // memory, of 320.
    flushBytes: checkCount('flushBytes', options.flushBytes ?? 255 * 1024, 1),
    flushMs: checkCount('flushMs', options.flushMs ?? 20, 0),
  };
}
