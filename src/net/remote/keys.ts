/**
 * Names of a run's keys and channels on the server. {run} is the hash tag of clusters, so all keys
 * of a run are on one node.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/** Version of everything that one side writes and the other has to understand. */
export const PROTOCOL = 1;

/** Time after a learner's last lease at which another learner may take the run. */
export const LEASE_MS = 10_000;

export interface Keys {
  /** facts of a run that hosts need, as in info.ts */
  readonly info: string;
  /** epoch of the learner that has the run, which goes when the learner does */
  readonly learner: string;
  /** messages of hosts, by shard */
  stream(shard: number): string;
  /** a field for each session, as in acknowledgement.ts, and one for each shard's heartbeat */
  readonly acks: string;
  /** notices of a session's field */
  ack(session: number): string;
  /** notices of new weights */
  readonly versions: string;
  /** identifies the newest weights */
  readonly newest: string;
  /** a piece of a version's weights */
  weights(version: number, piece: number): string;
  /** statistics of a host, which go soon after the host does */
  stat(session: number): string;
  /** the learner's status of the run, for `hotslot hosts` */
  readonly status: string;
}

/** Checks a run's name: letters, digits and . _ - go into keys, channels and access rules as is. */
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
