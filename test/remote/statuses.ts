/** Statuses for tests, in the form in which a learner writes them. */
import type { RemoteHostStatus, RemoteStatus } from '../../src/run/collectors/remote-status.ts';

export const aHost = (own: Partial<RemoteHostStatus> = {}): RemoteHostStatus => ({
  session: 17,
  host: 'worker-3',
  pid: 4711,
  since: 1_790_000_000_000,
  workers: 32,
  steps: 1_234_567,
  episodes: 812,
  meanReturn: 187.25,
  version: 4211,
  rows: 1_230_000,
  waiting: 512,
  silentMs: 120,
  state: 'live',
  why: '',
  ...own,
});

export const aStatus = (
  own: Partial<RemoteStatus> = {},
  hosts: readonly RemoteHostStatus[] = [],
): RemoteStatus => ({
  time: 1_790_000_123_000,
  epoch: 1_789_999_999_000,
  run: 'x',
  rows: 5_600_000,
  rowsPerSecond: 12_345.6,
  bytesPerSecond: 2_123_443,
  duplicates: 12,
  gaps: 3,
  stale: 0,
  refused: 1,
  lost: 0,
  lag: { p50: 1.25, p99: 18 },
  gated: 0.12,
  windowFull: 0.034,
  versionLag: { p50: 1, p99: 4 },
  streamBytes: 1_200_000,
  hosts,
  ...own,
});
