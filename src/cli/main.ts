#!/usr/bin/env node
/** The `hotslot` command: says what it was asked, or one sentence why it cannot. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { doctor } from './doctor.ts';

const help = `hotslot: the replay data path for RL learners in Node.js

usage: hotslot <command> [options]

  doctor       devices, drivers, native parts, and a quick self test; what to do where something is missing
      --json   one JSON object per line, the last one the summary

  --help       this text
  --version    the version

exit code: 0 all is well, 1 the host device does not work, 2 wrong usage
`;

const USAGE = 2;
const commands = { doctor } as const;

function version(): string {
  return JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version;
}

async function main(args: readonly string[]): Promise<number> {
  let parsed: { values: { json?: boolean; help?: boolean; version?: boolean }; positionals: string[] };
  const flag = { type: 'boolean' } as const;
  try {
    parsed = parseArgs({ args: [...args], options: { json: flag, help: flag, version: flag }, allowPositionals: true });
  } catch (error) {
    // Node adds advice about positional arguments that start with a dash.
    return misuse((error as Error).message.split('. ')[0] as string);
  }
  const { values, positionals } = parsed;
  const [name, ...rest] = positionals;
  if (values.version) return print(`${version()}\n`);
  if (values.help) return print(help);
  if (name === undefined) return misuse('no command was given');
  if (!Object.hasOwn(commands, name))
    return misuse(`unknown command '${name}'; there is: ${Object.keys(commands).join(', ')}`);
  if (rest.length > 0) return misuse(`${name} takes no further arguments, got '${rest.join(' ')}'`);
  return commands[name as keyof typeof commands]({ version: version(), json: values.json ?? false, print });
}

function print(text: string): 0 {
  process.stdout.write(text);
  return 0;
}

function misuse(sentence: string): typeof USAGE {
  process.stderr.write(`hotslot: ${sentence}; hotslot --help says more\n`);
  return USAGE;
}

process.exitCode = await main(process.argv.slice(2));
