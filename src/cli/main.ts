#!/usr/bin/env node
/** The `hotslot` command: says what it was asked, or one sentence why it cannot. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { build } from './build.ts';
import { doctor } from './doctor.ts';
import { inspect } from './inspect.ts';
import { kernels } from './kernels.ts';

const help = `hotslot: the replay data path for RL learners in Node.js

usage: hotslot <command> [options]

  doctor       devices, drivers, native parts, and a quick self test; what to do where something is missing
      --json   one JSON object per line, the last one the summary
  build        compiles the native parts here, where no prebuilt ones fit the machine
  kernels FILE makes images of the kernels in a .gk source, for device.loadKernels()
      --out FOLDER   where they go (default: beside the source)
      --arch GPU     one for AMD's GPU of this name too, such as gfx90a
  inspect FOLDER   says what the checkpoint in a folder holds
      --json   as one JSON object

  -h, --help       this text
  -v, --version    the version

exit code: 0 all is well, 1 the host device does not work, a build failed, or there is no whole checkpoint, 2 wrong usage
`;

const USAGE = 2;
const commands = { doctor, build, kernels, inspect } as const;
/** Commands that take a word, and what it is. */
const taking = { kernels: 'the file of a .gk source', inspect: 'the folder of a checkpoint' } as const;

function version(): string {
  return JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version;
}

/** Every option with the commands that it is for; none: it is asked instead of a command. */
const options = {
  json: { type: 'boolean', for: ['doctor', 'inspect'] },
  out: { type: 'string', for: ['kernels'] },
  arch: { type: 'string', for: ['kernels'] },
  help: { type: 'boolean', short: 'h', for: [] },
  version: { type: 'boolean', short: 'v', for: [] },
} as const;

async function main(args: readonly string[]): Promise<number> {
  const { tokens } = parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true });
  const given = new Map<string, string | undefined>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!Object.hasOwn(options, name)) return misuse(`unknown option '${rawName}'`);
    const takesValue = options[name as keyof typeof options].type === 'string';
    if (!takesValue && value !== undefined) return misuse(`${rawName} takes no value, got '${value}'`);
    if (takesValue && (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-'))))
      return misuse(`${rawName} needs a value`);
    if (given.has(name)) return misuse(`${rawName} is given twice`);
    given.set(name, value);
  }
  const [name, ...rest] = words;
  if (given.has('version')) return print(`${version()}\n`);
  if (given.has('help') || name === 'help') return print(help);
  if (name === undefined) return misuse('no command was given');
  if (!Object.hasOwn(commands, name))
    return misuse(`unknown command '${name}'; there is: ${Object.keys(commands).join(', ')}`);
  const takes = taking[name as keyof typeof taking] as string | undefined;
  const [file, ...further] = takes ? rest : [undefined, ...rest];
  if (takes && file === undefined) return misuse(`${name} takes ${takes}`);
  if (further.length > 0) return misuse(`${name} takes no further arguments, got '${further.join(' ')}'`);
  for (const each of given.keys())
    if (!(options[each as keyof typeof options].for as readonly string[]).includes(name))
      return misuse(`${name} takes no --${each}`);
  if (file !== undefined && name === 'inspect') return inspect({ folder: file, json: given.has('json'), print });
  if (file !== undefined) return kernels({ file, out: given.get('out'), arch: given.get('arch'), print });
  return commands[name as 'doctor' | 'build']({ version: version(), json: given.has('json'), print });
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
