#!/usr/bin/env node
/** The `hotslot` command. Prints the result, or one sentence with the reason why it failed. */

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { packageRoot } from '../base/package-root.ts';
import { checkRun } from '../net/remote/keys.ts';

const help = `hotslot: trains reinforcement-learning agents from replay in Node.js

usage: hotslot <command> [options]

  doctor       checks devices, drivers and native parts, and says what to install
      --url URL    checks a server for collector hosts instead: its speed, settings and users
      --insecure   allows an unencrypted connection to another machine
      --ca FILE    the certificate of the authority to trust in place of the system's
      --json   one JSON object per line, the last one the summary
  build        compiles the native parts on this machine, if no prebuilt ones fit
  kernels FILE makes images of the kernels in a .gk source, for device.loadKernels()
      --out FOLDER   folder of the images (default: the source's folder)
      --arch GPU     also for the AMD GPU of this name, such as gfx90a
  inspect FOLDER   prints the contents of a checkpoint
      --json   as one JSON object
  acl          prints the two users that a run needs on its server, with new passwords, for redis-cli
      --run NAME   the run
      --json   as one JSON object
  hosts        prints the collector hosts of a run, one line each, then their totals
      --url URL    the server of the run, such as rediss://user@machine:6380
      --run NAME   the run
      --insecure   allows an unencrypted connection to another machine
      --ca FILE    the certificate of the authority to trust in place of the system's
      --json   as one JSON object

  collect      steps environments here for the learner of a run, until Ctrl-C or SIGTERM
      --url URL      the server of the run, such as rediss://user@machine:6380
      --run NAME     the run
      --entry FILE   the collector's module, from the current folder
      --workers N    threads (default 1)
      --lanes N      environments, if the learner has a TrajectoryBuffer (default: one per thread)
      --outbox N     bytes of rows that may wait here to be sent (default 33554432)
      --name NAME    name of this host (default: the machine's name and the process id)
      --insecure     allows an unencrypted connection to another machine
      --ca FILE      the certificate of the authority to trust in place of the system's
      --json         one JSON object per line, the last one the totals

  -h, --help       this text
  -v, --version    the version

HOTSLOT_REDIS_PASSWORD in the environment holds the server's password.

exit code: 0 success; 1 the CPU device or the server does not work, a build failed, the checkpoint or the run is missing, or the learner
rejects the host; 2 wrong usage; 130 collecting was interrupted
`;

const USAGE = 2;
interface Arguments {
  /** the argument after the command, for commands that take one */
  word: string;
  /** values of text options, '' for omitted options */
  text: Readonly<Record<'url' | 'run' | 'ca' | 'out' | 'arch' | 'entry' | 'name', string>>;
  /** values of number options, without omitted options */
  count: { readonly workers?: number; readonly lanes?: number; readonly outbox?: number };
  json: boolean;
  insecure: boolean;
}
/**
 * The commands. Each command imports its own module when it runs. So a command works even if the
 * imports of another command fail.
 */
const commands = {
  doctor: async ({ text: { url, ca }, insecure, json }: Arguments) =>
    url === ''
      ? (await import('./doctor.ts')).doctor({ version: version(), json, print })
      : (await import('./server.ts')).doctorOfServer({ url, insecure, ca, json, print }),
  build: async () => (await import('./build.ts')).build({ print }),
  kernels: async ({ word, text: { out, arch } }: Arguments) =>
    (await import('./kernels.ts')).kernels({
      file: word,
      out: out || undefined,
      arch: arch || undefined,
      print,
    }),
  inspect: async ({ word, json }: Arguments) =>
    (await import('./inspect.ts')).inspect({ folder: word, json, print }),
  acl: async ({ text: { run }, json }: Arguments) =>
    (await import('./acl.ts')).acl({ run, json, print }),
  hosts: async ({ text: { url, run, ca }, insecure, json }: Arguments) =>
    (await import('./hosts.ts')).hosts({ url, run, insecure, ca, json, print }),
  collect: async ({ text: { url, run, ca, entry, name }, count, insecure, json }: Arguments) =>
    (await import('./collect.ts')).collect({
      url,
      run,
      entry,
      name,
      insecure,
      ca,
      json,
      print,
      ...count,
    }),
};
type Command = keyof typeof commands;
/** Commands that take an argument, with the argument's description for errors. */
const taking = {
  kernels: 'the file of a .gk source',
  inspect: 'the folder of a checkpoint',
} as const;
/** Options that each command requires. */
const needing: Readonly<Partial<Record<Command, readonly (keyof typeof options)[]>>> = {
  acl: ['run'],
  hosts: ['url', 'run'],
  collect: ['url', 'run', 'entry'],
};

function version(): string {
  return JSON.parse(readFileSync(`${packageRoot(import.meta.url)}package.json`, 'utf8')).version;
}

/**
 * All options. `for` lists the commands that accept an option. An option with an empty list is used
 * instead of a command.
 */
const options = {
  json: { type: 'boolean', for: ['doctor', 'inspect', 'acl', 'hosts', 'collect'] },
  url: { type: 'string', for: ['doctor', 'hosts', 'collect'] },
  run: { type: 'string', for: ['acl', 'hosts', 'collect'] },
  insecure: { type: 'boolean', for: ['doctor', 'hosts', 'collect'] },
  ca: { type: 'string', for: ['doctor', 'hosts', 'collect'] },
  entry: { type: 'string', for: ['collect'] },
  workers: { type: 'string', for: ['collect'] },
  lanes: { type: 'string', for: ['collect'] },
  outbox: { type: 'string', for: ['collect'] },
  name: { type: 'string', for: ['collect'] },
  out: { type: 'string', for: ['kernels'] },
  arch: { type: 'string', for: ['kernels'] },
  help: { type: 'boolean', short: 'h', for: [] },
  version: { type: 'boolean', short: 'v', for: [] },
} as const;

async function main(args: readonly string[]): Promise<number> {
  const { tokens } = parseArgs({
    args: [...args],
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const given = new Map<string, string | undefined>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!Object.hasOwn(options, name)) return misuse(`unknown option '${rawName}'`);
    const takesValue = options[name as keyof typeof options].type === 'string';
    if (!takesValue && value !== undefined)
      return misuse(`${rawName} takes no value, got '${value}'`);
    if (
      takesValue &&
      (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-')))
    )
      return misuse(`${rawName} needs a value`);
    if (given.has(name)) return misuse(`${rawName} is given twice`);
    given.set(name, value);
  }
  const [name, ...rest] = words;
  if (given.has('version')) return print(`${version()}\n`);
  if (given.has('help') || name === 'help') return print(help);
  if (name === undefined) return misuse('no command was given');
  if (!Object.hasOwn(commands, name))
    return misuse(
      `unknown command '${name}'; the commands are ${Object.keys(commands).join(', ')}`,
    );
  const takes = taking[name as keyof typeof taking] as string | undefined;
  const [file, ...further] = takes ? rest : [undefined, ...rest];
  if (takes && file === undefined) return misuse(`${name} takes ${takes}`);
  if (further.length > 0)
    return misuse(`${name} takes no further arguments, got '${further.join(' ')}'`);
  for (const each of given.keys())
    if (!(options[each as keyof typeof options].for as readonly string[]).includes(name))
      return misuse(`${name} takes no --${each}`);
  const command = name as Command;
  for (const each of needing[command] ?? [])
    if (!given.has(each)) return misuse(`${name} takes a --${each}`);
  const [insecure, json] = [given.has('insecure'), given.has('json')];
  for (const each of ['insecure', 'ca'])
    if (given.has(each) && !given.has('url')) return misuse(`--${each} needs --url`);
  const text = {
    url: '',
    run: '',
    ca: '',
    out: '',
    arch: '',
    entry: '',
    name: '',
    ...Object.fromEntries(given),
  };
  const count: { workers?: number; lanes?: number; outbox?: number } = {};
  for (const [name, least, most] of [
    ['workers', 1, 64],
    ['lanes', 1, 65_536],
    ['outbox', 4096, 2 ** 40],
  ] as const) {
    const value = given.get(name);
    if (value === undefined) continue;
    count[name] = Number(value);
    if (!/^\d+$/.test(value) || !(count[name] >= least && count[name] <= most))
      return misuse(`--${name} must be a whole number from ${least} to ${most}, got '${value}'`);
  }
  try {
    if (given.has('run')) checkRun(text.run);
  } catch (error) {
    return misuse(`--${(error as Error).message}`);
  }
  try {
    return await commands[command]({ word: file ?? '', text, count, json, insecure });
  } catch (error) {
    return refused(error as Error, given.has('url'));
  }
}

function print(text: string): 0 {
  process.stdout.write(text);
  return 0;
}

/**
 * Prints one sentence for an error of the library or of the server, and returns exit code 1.
 * Rethrows any other error. Node then prints its stack, because it is a fault of this program.
 */
function refused(error: Error & { code?: string }, fromServer: boolean): 1 {
  if (!fromServer && !error.code?.startsWith('ERR_HOTSLOT_')) throw error;
  // Replaces the library's option names by those of the command line.
  const text = error.message
    .replace('insecure: true', '--insecure')
    .replace('; ca takes', '; --ca takes')
    .replace('pass password, or set', 'set');
  process.stderr.write(`hotslot: ${text}\n`);
  return 1;
}

function misuse(sentence: string): typeof USAGE {
  process.stderr.write(`hotslot: ${sentence}; see hotslot --help\n`);
  return USAGE;
}

// Ignores EPIPE, so that the command finishes even if the reader of its output has ended (`|
// head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});
process.exitCode = await main(process.argv.slice(2));
