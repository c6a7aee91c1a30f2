/**
 * `hotslot hosts`: lists the collector hosts of a run and their state, as the run's learner
 * reported it.
 */

import { unavailableError } from '../base/errors.ts';
import { checkAddress } from '../net/remote/address.ts';
import { openAdminConnection } from '../net/remote/admin-connection.ts';
import { keysOf } from '../net/remote/keys.ts';
import { readStatus } from '../net/remote/status.ts';
import type {
  RemoteHostStatus,
  RemoteSpread,
  RemoteStatus,
} from '../run/collectors/remote-status.ts';

/**
 * Expected maximum bytes of a learner's status, from which the connection computes its time limit.
 * They suffice for thousands of hosts.
 */
const EXPECTED_BYTES = 2 ** 20;

interface Arguments {
  url: string;
  run: string;
  insecure: boolean;
  /** path of a file of CA certificates, '' for the system's certificates */
  ca: string;
  json: boolean;
  print(text: string): void;
}

/**
 * Prints the hosts, and resolves with exit code 0. Rejects with one sentence if the run has no
 * learner, or if the server does not answer.
 */
export async function hosts({ url, run, insecure, ca, json, print }: Arguments): Promise<0> {
  const { status, learner } = keysOf(run);
  await using admin = await openAdminConnection({
    address: checkAddress({ url, insecure, ca: ca || undefined }),
  });
  // Ignores the status of a learner that has ended.
  if ((await admin.call('GET', learner)) === null)
    throw unavailableError(`the run ${run} has no learner`);
  const reported = await admin.bytes(EXPECTED_BYTES, 'GET', status);
  if (reported === null)
    throw unavailableError(`the learner of the run ${run} has not reported anything yet`);
  const read = readStatus(reported);
  print(json ? `${JSON.stringify(read)}\n` : table(read));
  return 0;
}

const columns: readonly [title: string, width: number, (host: RemoteHostStatus) => string][] = [
  ['host', -22, ({ host, pid }) => shortened(`${host}:${pid}`, 22)],
  [
    'state',
    -11,
    ({ state, silentMs }) => (state === 'silent' ? `silent ${duration(silentMs)}` : state),
  ],
  ['workers', 7, ({ workers }) => count(workers)],
  ['steps', 6, ({ steps }) => count(steps)],
  ['return', 7, ({ meanReturn }) => (meanReturn === null ? '–' : decimal(meanReturn))],
  ['version', 7, ({ version }) => count(version)],
  ['rows', 6, ({ rows }) => count(rows)],
  ['waiting', 7, ({ waiting }) => count(waiting)],
];

/**
 * Formats a status as lines of at most 80 columns. The hosts are first, one line each, the newest
 * first. Totals follow, then the reasons that hosts gave for their state.
 */
export function table(status: RemoteStatus): string {
  const newest = [...status.hosts].sort((a, b) => b.since - a.since || b.session - a.session);
  const line = (cells: readonly string[]) =>
    columns
      .map(([, width], at) => (width < 0 ? cells[at]!.padEnd(-width) : cells[at]!.padStart(width)))
      .join(' ')
      .trimEnd();
  return `${[
    line(columns.map(([title]) => title)),
    ...newest.map((host) => line(columns.map(([, , cell]) => cell(host)))),
    '',
    ...summary(status),
    ...newest
      .filter(({ why }) => why !== '')
      .flatMap(({ host, pid, why }) => ['', ...wrapped(`${host}:${pid}: ${why}`)]),
  ].join('\n')}\n`;
}

function summary(status: RemoteStatus): string[] {
  const { run, time, hosts, lag, versionLag } = status;
  const live = hosts.filter(({ state }) => state === 'live').length;
  const silent = hosts.filter(({ state }) => state === 'silent').length;
  const at = new Date(Math.min(time, 8.64e15)).toISOString();
  return [
    ...wrapped(
      `run ${run}: ${hosts.length} ${hosts.length === 1 ? 'host' : 'hosts'}, ${live} live, ${silent} silent; ${at}`,
    ),
    `${count(status.rows)} rows, ${count(status.rowsPerSecond)}/s, ${bytes(status.bytesPerSecond)}/s, ` +
      `${bytes(status.streamBytes)} under way`,
    `lag ${spread(lag, ' ms')}, weight versions behind: ${spread(versionLag)}`,
    `held back by the limiter ${percent(status.gated)} of the time, windows full ${percent(status.windowFull)}`,
    `${count(status.duplicates)} duplicate, ${count(status.gaps)} gaps, ${count(status.stale)} stale, ` +
      `${count(status.refused)} refused, ${count(status.lost)} lost`,
  ];
}

const spread = ({ p50, p99 }: RemoteSpread, unit = '') =>
  p50 === null || p99 === null ? '–' : `p50 ${decimal(p50)} p99 ${decimal(p99)}${unit}`;
const percent = (share: number) => `${Math.round(share * 100)} %`;
const bytes = (number: number) => `${count(number)}B`;

/** Formats a number in at most five characters, such as 999, 1.2k, 34k or 5.6M. */
function count(number: number): string {
  let rest = number;
  for (const unit of ['', 'k', 'M', 'G', 'T', 'P']) {
    const text = rest < 9.95 && unit !== '' ? rest.toFixed(1) : rest.toFixed(0);
    if (Number(text) < 1000) return `${text}${unit}`;
    rest /= 1000;
  }
  return number.toExponential(0).replace('e+', 'e');
}
/** Formats a number with one decimal if it is below 999.95. */
function decimal(number: number): string {
  const size = Math.abs(number);
  if (size >= 99_999.5) return number.toExponential(0).replace('e+', 'e');
  return number.toFixed(size < 999.95 ? 1 : 0);
}
function duration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  return seconds < 3600
    ? `${Math.floor(seconds / 60)}m`
    : `${Math.min(Math.floor(seconds / 3600), 999)}h`;
}

/** Removes the middle of a long name, because names of hosts often differ only at the end. */
function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

function wrapped(text: string, width = 80): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else
      for (let at = 0; at === 0 || at < word.length; at += width)
        lines.push(word.slice(at, at + width));
  }
  return lines;
}
