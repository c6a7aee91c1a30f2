/**
 * The status of a learner's collector hosts, for other programs. The status is JSON at the run's
 * key `status`. It comes from the network, and hosts wrote some of its texts. So the reader trusts
 * no length and no type, and replaces characters that control a terminal.
 */
import { describeValue } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import type {
  RemoteHostState,
  RemoteHostStatus,
  RemoteSpread,
  RemoteStatus,
} from '../../run/collectors/remote-status.ts';

const STATES = [
  'live',
  'silent',
  'ended',
  'refused',
  'failed',
] as const satisfies readonly RemoteHostState[];

/**
 * Limits of hosts, of bytes, and of characters in each text. readStatus() throws for a status that
 * exceeds a limit. A learner never has more sessions, and a status never needs more bytes.
 */
const MAX_HOSTS = 65_536;
const MAX_BYTES = 32 * 2 ** 20;
const MAX_CHARACTERS = 1000;

export const writeStatus = (status: RemoteStatus): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(status));

/** Reads a status. Throws a RangeError if the bytes are not a valid status. */
export function readStatus(bytes: Uint8Array): RemoteStatus {
  if (bytes.length > MAX_BYTES) throw wrong(`${bytes.length} bytes are more than one has`);
  let found: unknown;
  try {
    found = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw wrong('it is no JSON');
  }
  const { number, text, from } = reader(found, '');
  const spread = (name: string): RemoteSpread => {
    const part = reader(from(name), `${name}.`);
    return { p50: part.numberOrNull('p50'), p99: part.numberOrNull('p99') };
  };
  const hosts = from('hosts');
  if (!Array.isArray(hosts) || hosts.length > MAX_HOSTS)
    throw wrong(`hosts is ${describeValue(hosts)}`);
  return {
    time: number('time'),
    epoch: number('epoch'),
    run: text('run'),
    rows: number('rows'),
    rowsPerSecond: number('rowsPerSecond'),
    bytesPerSecond: number('bytesPerSecond'),
    duplicates: number('duplicates'),
    gaps: number('gaps'),
    stale: number('stale'),
    refused: number('refused'),
    lost: number('lost'),
    lag: spread('lag'),
    gated: number('gated', 1),
    windowFull: number('windowFull', 1),
    versionLag: spread('versionLag'),
    streamBytes: number('streamBytes'),
    hosts: hosts.map(readHost),
  };
}

function readHost(found: unknown, at: number): RemoteHostStatus {
  const { number, numberOrNull, text, from } = reader(found, `hosts[${at}].`);
  const state = STATES.find((each) => each === from('state'));
  if (state === undefined) throw wrong(`hosts[${at}].state is ${describeValue(from('state'))}`);
  return {
    session: number('session'),
    host: text('host'),
    pid: number('pid'),
    since: number('since'),
    workers: number('workers'),
    steps: number('steps'),
    episodes: number('episodes'),
    // A return may be below zero.
    meanReturn: numberOrNull('meanReturn', Number.NEGATIVE_INFINITY),
    version: number('version'),
    rows: number('rows'),
    waiting: number('waiting'),
    silentMs: number('silentMs'),
    state,
    why: text('why'),
  };
}

/** Returns functions that read numbers and texts from any value. `path` names them in errors. */
export function reader(found: unknown, path: string) {
  if (typeof found !== 'object' || found === null || Array.isArray(found))
    throw wrong(`${path === '' ? 'it' : path.slice(0, -1)} is ${describeValue(found)}`);
  const from = (name: string): unknown =>
    Object.hasOwn(found, name) ? (found as Record<string, unknown>)[name] : undefined;
  const number = (name: string, most = Number.MAX_VALUE, least = 0): number => {
    const value = from(name);
    if (typeof value !== 'number' || !(value >= least && value <= most))
      throw wrong(`${path}${name} is ${describeValue(value)}`);
    return value;
  };
  const numberOrNull = (name: string, least = 0) =>
    from(name) === null ? null : number(name, Number.MAX_VALUE, least);
  const text = (name: string): string => {
    const value = from(name);
    if (typeof value !== 'string' || value.length > MAX_CHARACTERS)
      throw wrong(`${path}${name} is ${describeValue(value)}`);
    return plain(value);
  };
  return { from, number, numberOrNull, text };
}

/** Replaces characters that a terminal takes for commands, because a host may have any name. */
const plain = (text: string) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '?');

const wrong = (how: string) => rangeError(`this is not a learner's status: ${how}`);
