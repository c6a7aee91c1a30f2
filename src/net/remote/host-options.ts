/** The options of a host, their checks, and its statistics. */
import { hostname } from 'node:os';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { CollectorStatistics } from '../../run/collectors/statistics.ts';
import { checkSignal } from '../../shm/wait.ts';
import { checkAddress, type RemoteServerOptions } from './address.ts';
import { checkRun } from './keys.ts';
import { checkEndian } from './message.ts';

export interface CollectorHostOptions extends RemoteServerOptions {
  /** URL of a Redis or Valkey server, such as 'rediss://collector@broker:6380' */
  readonly url: string;
  /** name that the learner gave the run */
  readonly run: string;
  /** module whose default export is a CollectorFactory */
  readonly entry: URL;
  /** threads, 1 by default */
  readonly workers?: number | undefined;
  /**
   * number of environments, each with one lane, divided among the workers. Only for a run whose
   * buffer keeps steps in order (default: one for each worker)
   */
  readonly lanes?: number | undefined;
  /**
   * maximum bytes of rows that wait to be sent, 32 MiB by default: at the maximum, collectors wait
   */
  readonly outboxBytes?: number | undefined;
  /**
   * rows are sent when they have `flushBytes` bytes, 255 KiB by default, or when the first has
   * waited `flushMs` ms, 20 by default
   */
  readonly flushBytes?: number | undefined;
  readonly flushMs?: number | undefined;
  /**
   * name that the learner sees, and that the host's seed is derived from (default: the machine's
   * name and the process's number)
   */
  readonly name?: string | undefined;
  /** aborts open() while it waits for the learner: open() then rejects with the signal's reason */
  readonly signal?: AbortSignal | undefined;
  /** called with the reason as text while the host waits for the learner or the server */
  readonly onWait?: ((words: string) => void) | undefined;
}

/** Statistics of this machine's collectors, and of the rows that they send. */
export interface CollectorHostStatistics extends CollectorStatistics {
  /** rows that were taken out of the outbox, and how many of them the learner has */
  sent: number;
  acknowledged: number;
  /** messages that were sent again */
  repeated: number;
  /** rows that are not in a message yet */
  waiting: number;
  /** oldest version of the learner's weights with which a collector acts */
  version: number;
  /** why the host cannot send rows now, as text, or null if it can */
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
    // The default is 255 KiB. A message of 256 KiB and its overhead would take the next larger
    // block of the server's memory, which has 320 KiB.
    flushBytes: checkCount('flushBytes', options.flushBytes ?? 255 * 1024, 1),
    flushMs: checkCount('flushMs', options.flushMs ?? 20, 0),
  };
}
