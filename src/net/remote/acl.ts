/**
 * The permissions of each side of a run on the server, as rules of its access control. A host that
 * was broken into can only add rows and read weights, and cannot read rows. Neither side may run
 * scripts, list keys or touch another run. Rules that distinguish reading a key from writing it
 * exist from Redis 7.0 on, and in Valkey.
 */
import { randomBytes } from 'node:crypto';
import { keysOf } from './keys.ts';

export type AclRole = 'learner' | 'collector';

export interface AclUser {
  readonly name: string;
  readonly role: AclRole;
  /** in the order in which they apply, with PASSWORD as a placeholder */
  readonly rules: string;
}

/**
 * Commands for connecting. `client|setinfo` does not exist in 7.0, where it would spoil the rules.
 * Clients continue if it is refused.
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
  // For its lease, for notices, and for the server's run.
  'watch',
  'unwatch',
  'multi',
  'exec',
  'publish',
  'info',
];

/** Returns the two users of a run. */
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
  // A collector writes rows and never reads them: only the learner does.
  const written = [all('in:'), all('stat:')].map((key) => `%W~${key}`);
  const read = [info, acks, learner, all('w:')].map((key) => `%R~${key}`);
  return [
    user('learner', [`~${all('')}`], [all('')], LEARNER),
    user('collector', [...written, ...read], [all('ack:'), versions], COLLECTOR),
  ];
}

/** Returns a password as long as those of the server's own ACL GENPASS. */
export const newPassword = (): string => randomBytes(32).toString('hex');
