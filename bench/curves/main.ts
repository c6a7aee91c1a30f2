/**
 * Trains several seeds of each preset that two cores can train. Stores their curves in
 * bench/results/curves, and draws them with published curves.
 */

import {
  commandLine,
  flag,
  readWhole,
  runExample,
  text,
  UsageError,
} from '../../examples/command-line.ts';
import { type Algorithm, type Preset, tasks } from '../../examples/train/presets.ts';
import { train } from '../../src/entries/collect.ts';
import { battles, trainBattles } from './battles.ts';
import { draw as drawn } from './draw.ts';
import { published } from './published.ts';
import { keepRun, readRecord, rounded, writePicture } from './record.ts';

interface Trained {
  environment: string;
  algorithm: Algorithm;
  /** environment steps of a seed */
  steps: number;
  /** environment steps between two evaluations */
  every: number;
  /** episodes of an evaluation */
  episodes: number;
}

const curves: Readonly<Record<string, Trained>> = {
  'Pendulum-sac': {
    environment: 'Pendulum',
    algorithm: 'sac',
    steps: 20_000,
    every: 1_000,
    episodes: 100,
  },
  'Pendulum-td3': {
    environment: 'Pendulum',
    algorithm: 'td3',
    steps: 20_000,
    every: 1_000,
    episodes: 100,
  },
  'CartPole-dqn': {
    environment: 'CartPole',
    algorithm: 'dqn',
    steps: 100_000,
    every: 5_000,
    episodes: 100,
  },
  'HalfCheetah-sac': {
    environment: 'HalfCheetah',
    algorithm: 'sac',
    steps: 100_000,
    every: 5_000,
    episodes: 10,
  },
};
const names = [...Object.keys(curves), ...Object.keys(battles)];
/** Names that are trained if the command names none. The others need a package. */
const usual = Object.keys(curves);

const command = commandLine({
  intro:
    'Trains seeds of each preset to the end of its steps, and keeps and draws their learning curves.',
  usage: `npm run curves -- [name…] [options]\n\n  names: ${names.join(', ')}\n  default: ${usual.join(', ')}`,
  options: {
    seeds: text('LIST', 'seeds', 'such as 1-5 or 2,4', { default: '1-5' }),
    draw: flag('draws the kept curves, and trains nothing'),
  },
  after:
    'On two cores a seed of HalfCheetah takes about 11 minutes, of Showdown up to 6, each of the others less than half a minute. Showdown needs npm install --no-save @pkmn/sim@0.10.11.',
});

interface CommandLine {
  chosen: readonly string[];
  seeds: readonly number[];
  draw: boolean;
}

function seedsOf(text: string): number[] {
  return text.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map((end) => readWhole('--seeds', end, 0));
    return Array.from({ length: last! - first! + 1 }, (_, i) => first! + i);
  });
}

/** Parses the command line. Throws a UsageError if it is wrong. Returns null if it has --help. */
function parse(args: readonly string[]): CommandLine | null {
  const flagged = args.findIndex((arg) => arg.startsWith('--'));
  const [words, options] = flagged < 0 ? [args, []] : [args.slice(0, flagged), args.slice(flagged)];
  const values = command.parse(options);
  if (!values) return null;
  for (const word of words)
    if (!names.includes(word))
      throw new UsageError(`a curve is one of ${names.join(', ')}, got '${word}'`);
  return {
    chosen: words.length > 0 ? words : usual,
    seeds: seedsOf(values.seeds),
    draw: values.draw,
  };
}

async function trainSeed(name: string, seed: number, say: (line: string) => void): Promise<void> {
  if (Object.hasOwn(battles, name)) return trainBattles(name, seed, say);
  const { environment, algorithm, steps, every, episodes } = curves[name]!;
  const { id, module, options, presets } = tasks[environment]!;
  const result = await train({
    ...(presets[algorithm] as Preset),
    environment: module,
    environmentOptions: options,
    seed,
    steps,
    device: 'host:0',
    evaluation: { every, episodes, confirm: episodes },
    onPoint: ({ steps, seconds, meanReturn }) =>
      say(
        `${name} seed ${seed}: ${steps} steps, ${seconds.toFixed(1)} s, mean return ${meanReturn.toFixed(1)}`,
      ),
  });
  const { updates, seconds, curve } = result;
  const command = `npm run curves -- ${name}`;
  keepRun(
    name,
    { environment: id, algorithm, episodes, command },
    {
      seed,
      steps: result.steps,
      updates,
      seconds: Number(seconds.toFixed(2)),
      curve: curve.map((point) => rounded(point)),
    },
  );
}

async function main({ chosen, seeds, draw }: CommandLine): Promise<number> {
  const say = (line: string) => process.stdout.write(`${line}\n`);
  for (const name of chosen) {
    if (!draw) for (const seed of seeds) await trainSeed(name, seed, say);
    if (Object.hasOwn(battles, name)) continue;
    const record = readRecord(name);
    if (record === null) say(`${name}: nothing has been kept, so nothing is drawn`);
    else say(`${name}: drawn in ${writePicture(name, await drawn(record, published[name] ?? []))}`);
  }
  return 0;
}

await runExample({ name: 'curves', help: command.help, parse, main });
