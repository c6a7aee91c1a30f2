/**
 * What each side of a run may do on the server, as rules of its access control. A host that was
 * broken into can add rows and read weights, and no more: it reads nobody's rows, and none of the
 * two may run scripts, list keys or touch another run. Rules that tell reading a key from writing
 * it are there from Redis 7.0 on, and in Valkey.
 */
import { randomBytes } from 'node:crypto';
import { keysOf } from './keys.ts';

export type AclRole = 'learner' | 'collector';

export interface AclUser {
  readonly name: string;
  readonly role: AclRole;
  /** in the order that they apply in, with PASSWORD in the place of one */
  readonly rules: string;
}

/**
 * To connect with. `client|setinfo` is no command of 7.0, whose rules it would spoil; clients go on
 * where it is refused.
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
  // For its lease, and for the server's run.
  'watch',
  'unwatch',
  'multi',
  'exec',
  'publish',
  'info',
];

/** The two users of a run. */
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
  // Rows are written and never read: they are nobody's but the learner's.
  const written = [all('in:'), all('stat:')].map((key) => `%W~${key}`);
  const read = [info, acks, learner, all('w:')].map((key) => `%R~${key}`);
  return [
    user('learner', [`~${all('')}`], [all('')], LEARNER),
    user('collector', [...written, ...read], [all('ack:'), versions], COLLECTOR),
  ];
}

/** The same length that the server's own ACL GENPASS gives. */
export const newPassword = (): string => randomBytes(32).toString('hex');
