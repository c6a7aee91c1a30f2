/**
 * Names of what a run has on the server. {run} is the hash tag of clusters: all of it lies on one
 * node.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/** Of everything that is written here and has to be understood there. */
export const PROTOCOL = 1;

/** A run is another learner's so long after the last word of its own. */
export const LEASE_MS = 10_000;

export interface Keys {
  /** what hosts need to know of a run, as info.ts says it */
  readonly info: string;
  /** the epoch of the learner that has the run; it goes when the learner does */
  readonly learner: string;
  /** messages of hosts, by shard */
  stream(shard: number): string;
  /** a field for each session, as acknowledgement.ts says it, and one for the heartbeat */
  readonly acks: string;
  /** notices of a session's field */
  ack(session: number): string;
  /** notices of new weights */
  readonly versions: string;
  /** which weights are the newest */
  readonly newest: string;
  /** a piece of a version's weights */
  weights(version: number, piece: number): string;
  /** what a host says of itself; it goes soon after the host does */
  stat(session: number): string;
  /** what the learner says of all of it, for `hotslot hosts` */
  readonly status: string;
}

/** Letters, digits and . _ -: they go into keys, channels and rules of access as they are. */
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

/** As it stands in keys: 14 digits of 16. */
export const sessionName = (session: number): string => session.toString(16).padStart(14, '0');
