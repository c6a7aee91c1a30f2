/**
 * The server's access rules for each side of a run. With these rules, a host that was broken into
 * can add rows and read weights, but cannot read rows. Neither side may run scripts, list keys or
 * access another run. Valkey, and Redis from 7.0 on, have rules that distinguish reading a key from
 * writing it.
 */
import { randomBytes } from 'node:crypto';
import { keysOf } from './keys.ts';

export type AclRole = 'learner' | 'collector';

export interface AclUser {
  readonly name: string;
  readonly role: AclRole;
  /** rules in the order in which they apply, with PASSWORD as a placeholder */
  readonly rules: string;
}

/**
 * Commands for connecting. `client|setinfo` is missing, because Redis 7.0 does not know this
 * command and would reject the rules. Clients continue if the server refuses `client|setinfo`.
 */
const CONNECTING = ['ping', 'hello', 'auth', 'client|setname'];
const NOTICES = ['subscribe', 'unsubscribe'];
const COLLECTOR = ['xadd', 'get', 'hget', 'hmget', 'hset', 'pexpire'];
const LEARNER = [
  'xread',
  'xlen',
  'xtrim',
  'get',
  'set',
  'hget',
  'hmget',
  'hset',
  'pexpire',
  'del',
  // WATCH to EXEC are for the lease, PUBLISH is for notices, and INFO is for the server's facts.
  'watch',
  'unwatch',
  'multi',
  'exec',
  'publish',
  'info',
];

/** Returns the two users of a run: the learner and the collectors. */
export function aclUsers(run: string): readonly AclUser[] {
  const { info, learner, acks, versions } = keysOf(run);
  const all = (of: string) => `hs:{${run}}:${of}*`;
  const user = (
    role: AclRole,
    keys: readonly string[],
    channels: readonly string[],
    commands: readonly string[],
  ) => ({
    name: `hs-${run}-${role}`,
    role,
    rules: [
      'reset',
      'on',
      '>PASSWORD',
      ...keys,
      'resetchannels',
      ...channels.map((channel) => `&${channel}`),
      '-@all',
      ...[...commands, ...NOTICES, ...CONNECTING].map((command) => `+${command}`),
    ].join(' '),
  });
  // A collector writes rows and never reads them. Only the learner reads rows.
  const written = [all('in:'), all('stat:')].map((key) => `%W~${key}`);
  const read = [info, acks, learner, all('w:')].map((key) => `%R~${key}`);
  return [
    user('learner', [`~${all('')}`], [all('')], LEARNER),
    user('collector', [...written, ...read], [all('ack:'), versions], COLLECTOR),
  ];
}

/** Returns a password as long as those of the server's own ACL GENPASS. */
export const newPassword = (): string => randomBytes(32).toString('hex');
