/** Command line of the example: a task, a server, and the number of hosts. */
import {
  choice,
  commandLine,
  device,
  flag,
  positive,
  seed,
  text,
  UsageError,
  whole,
} from '../command-line.ts';
import { type Name, names } from './settings.ts';

const command = commandLine({
  intro: `Trains a learner from rows that other processes collect, over a Redis or Valkey server, as other machines would.`,
  usage: 'npm run remote -- [options]',
  options: {
    env: choice('NAME', names, `${names.join(' (DQN) or ')} (SAC)`, { default: names[0] }),
    url: text('URL', 'a server', 'a running server, such as rediss://user@machine:6380', {
      shown: 'one is started on this machine',
    }),
    run: text('NAME', 'a run', "the run's name on the server", { default: 'example' }),
    hosts: whole(
      'collector hosts on this machine. 0: prints the command for other machines, and waits',
      {
        min: 0,
        max: 16,
        default: 2,
      },
    ),
    seed: seed('seed of weights, draws and environments'),
    device: device(),
    'max-seconds': positive('give up after this many seconds', { default: 180 }),
    insecure: flag('allows an unencrypted connection to another machine'),
    ca: text('FILE', 'a file', "certificate of the authority to trust in place of the system's"),
    json: flag('one JSON object per line, the last one { solved, meanReturn, steps, seconds, … }'),
  },
  after: `HOTSLOT_REDIS_PASSWORD in the environment holds the server's password.\n\nexit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted`,
});
export const { help } = command;

export interface CommandLine {
  name: Name;
  /** address of the server, or undefined if the example must start one */
  url: string | undefined;
  run: string;
  hosts: number;
  seed: number;
  device: string;
  seconds: number;
  insecure: boolean;
  ca: string | undefined;
  json: boolean;
}

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { env: name, 'max-seconds': seconds, ...others } = values;
  if (others.url === undefined && (others.insecure || others.ca !== undefined))
    throw new UsageError('--insecure and --ca need --url');
  if (others.url === undefined && others.hosts === 0)
    throw new UsageError('--hosts 0 needs a --url that other machines reach');
  return { ...others, name, seconds };
}
