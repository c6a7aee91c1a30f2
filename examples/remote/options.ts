/** The command line of the example: what is trained, over which server, with how many hosts. */
import { flag, parseOptions, positive, UsageError, whole } from '../command-line.ts';
import { type Name, names } from './settings.ts';

export const help = `Trains a learner here from rows that other processes collect: over a Redis or Valkey
server, as machines would.

usage: npm run remote -- [options]

  --env NAME          ${names.join(' (DQN) or ')} (SAC) (default ${names[0]})
  --url URL           a server that runs already, such as rediss://user@machine:6380
                      (default: one is started for the run, on this machine)
  --run NAME          the run's name on it (default example)
  --hosts N           collector hosts that are started on this machine (default 2);
                      0: it says what to run on others, and waits for them
  --seed N            (default 1)
  --device NAME       auto, host:0, … (default auto)
  --max-seconds S     give up after so many seconds (default 180)
  --insecure          allows plain text to another machine
  --ca FILE           the certificate of the authority to trust in place of the system's
  --json              one JSON object per line, at last { solved, meanReturn, steps, seconds, … }
  --help              this text

HOTSLOT_REDIS_PASSWORD in the environment holds the server's password.

exit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted
`;

export interface CommandLine {
  name: Name;
  /** undefined: a server of its own */
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

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    env: { ...text, default: names[0] },
    url: text,
    run: { ...text, default: 'example' },
    hosts: { ...text, default: '2' },
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    'max-seconds': { ...text, default: '180' },
    insecure: flag,
    ca: text,
    json: flag,
  });
  if (!values) return null;
  const { env, url, run, hosts, seed, device, insecure, ca, json } = values;
  const name = names.find((each) => each.toLowerCase() === env.toLowerCase());
  if (name === undefined) throw new UsageError(`--env must be ${names.join(' or ')}, got '${env}'`);
  if (url === undefined && (insecure || ca !== undefined))
    throw new UsageError('--insecure and --ca are for a --url');
  const many = whole('hosts', hosts, 0, 16);
  if (url === undefined && many === 0)
    throw new UsageError('--hosts 0 is for a --url that other machines reach');
  return {
    name,
    url,
    run,
    hosts: many,
    seed: whole('seed', seed, 0),
    device,
    seconds: positive('max-seconds', values['max-seconds']),
    insecure,
    ca,
    json,
  };
}
