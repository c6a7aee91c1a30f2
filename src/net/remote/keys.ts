/**
 * Names of a run's keys and channels on the server. {run} is the hash tag of clusters, so all keys
 * of a run are on one node.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/**
 * Version of the protocol, which covers everything that one side writes and the other side reads.
 */
export const PROTOCOL = 1;

/**
 * Milliseconds from the learner's last renewal of its lease until another learner may take the run.
 */
export const LEASE_MS = 10_000;

export interface Keys {
  /** facts of the run that hosts need (info.ts) */
  readonly info: string;
  /** epoch of the learner that has the run: it expires after the learner has gone */
  readonly learner: string;
  /** messages of hosts, by shard */
  stream(shard: number): string;
  /**
   * acknowledgements: one field for each session, and one for each shard's heartbeat
   * (acknowledgement.ts)
   */
  readonly acks: string;
  /** channel for notices of a session's acknowledgement */
  ack(session: number): string;
  /** channel for notices of new weights */
  readonly versions: string;
  /** version and checksum of the newest weights */
  readonly newest: string;
  /** a piece of a version's weights */
  weights(version: number, piece: number): string;
  /** statistics of a host, which expire soon after the host has gone */
  stat(session: number): string;
  /** the learner's status of the run, for `hotslot hosts` */
  readonly status: string;
}

/**
 * Checks a run's name and returns it. Keys, channels and access rules contain the name unchanged,
 * so only letters, digits and . _ - are allowed.
 */
export function checkRun(run: unknown): string {
  if (typeof run !== 'string')
    throw typeError(`run must be the run's name, a string, got ${describeValue(run)}`);
  if (!/^[A-Za-z0-9._-]{1,100}$/.test(run))
    throw rangeError(
      `run must be 1 to 100 letters, digits, dots, dashes or underlines, got ${describeValue(run)}`,
    );
  return run;
}

export function keysOf(run: string): Keys {
  const of = (name: string) => `hs:{${checkRun(run)}}:${name}`;
  return {
    info: of('info'),
    learner: of('learner'),
    stream: (shard) => of(`in:${checkCount('shard', shard, 0)}`),
    acks: of('ack'),
    ack: (session) => of(`ack:${sessionName(session)}`),
    versions: of('v'),
    newest: of('w:newest'),
    weights: (version, piece) => of(`w:${version}:${piece}`),
    stat: (session) => of(`stat:${sessionName(session)}`),
    status: of('status'),
  };
}

/** Returns a session's name in keys: 14 hexadecimal digits. */
export const sessionName = (session: number): string => session.toString(16).padStart(14, '0');
