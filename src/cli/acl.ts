/**
 * `hotslot acl`: prints the two users that a run needs on its server, with new passwords, as
 * commands for redis-cli.
 */
import { aclUsers, newPassword } from '../net/remote/acl.ts';

interface Arguments {
  run: string;
  json: boolean;
  print(text: string): void;
}

/** Prints the commands to stdout and the notes to stderr, so that a pipe gets only the commands. */
export function acl({ run, json, print }: Arguments): 0 {
  const users = aclUsers(run).map(({ name, role, rules }) => {
    const password = newPassword();
    const command = `ACL SETUSER ${name} ${rules.replace('>PASSWORD', `>${password}`)}`;
    return { name, role, password, rules, command };
  });
  if (json) {
    print(`${JSON.stringify({ run, users })}\n`);
    return 0;
  }
  print(users.map(({ command }) => `${command}\n`).join(''));
  process.stderr.write(notes(users.map(({ name }) => name)));
  return 0;
}

const notes = ([learner, collector]: readonly string[]) => `
These passwords are new each time and are printed only here. An administrator gives the
lines above to redis-cli (Redis 7.0 or newer, or Valkey), then keeps the users over a
restart: with ACL SAVE if the server has an aclfile, else with CONFIG REWRITE.

  learner     url with ${learner}@ before the host
  collectors  url with ${collector}@ before the host

Both take their password from HOTSLOT_REDIS_PASSWORD, or from the option password:
do not put it into the url, which ends up in logs. A machine that may add rows can
spoil the training: give the collectors' password to machines that you trust. Give
the default user a password of its own, or switch it off.
`;
