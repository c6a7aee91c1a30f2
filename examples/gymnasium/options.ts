/** Command line of the example: an environment of Gymnasium, a learner, and their limits. */
import type { GymnasiumOptions } from '../../src/entries/collect.ts';
import {
  choice,
  commandLine,
  device,
  flag,
  real,
  seed,
  text,
  UsageError,
  whole,
} from '../command-line.ts';

const algorithms = ['sac', 'td3', 'dqn'] as const;

const command = commandLine({
  intro: `Trains a learner on an environment of Python's Gymnasium. Each collector thread has a Python process that steps the environments.`,
  usage: 'npm run gymnasium -- [options]',
  options: {
    id: text(
      'NAME',
      'an environment',
      'a registered environment, such as Pendulum-v1 (pip install gymnasium)',
    ),
    entry: text('NAME', 'a function', 'module:function that makes one', {
      shown: 'braking:Braking, which is here and needs only numpy',
    }),
    algo: choice('NAME', algorithms, `${algorithms.join(', ')}. Discrete actions need dqn`, {
      default: 'sac',
    }),
    environments: whole('environments that are stepped together', { min: 1, default: 8 }),
    goal: real('stop at this mean return of greedy episodes', {
      placeholder: 'R',
      shown: '−12 for Braking, otherwise none',
    }),
    steps: whole('maximum of environment steps', { min: 1001, default: 50_000 }),
    seed: seed('seed of weights, draws and environments'),
    device: device(),
    python: text('NAME', 'a Python', 'the Python to run', { default: 'python3' }),
    json: flag('the result as one JSON object'),
  },
  after: 'exit code: 0 solved or no goal, 1 not solved, 2 wrong usage, 130 interrupted',
});
export const { help } = command;

export interface CommandLine {
  environment: GymnasiumOptions;
  algorithm: (typeof algorithms)[number];
  environments: number;
  goal: number | undefined;
  steps: number;
  seed: number;
  device: string;
  json: boolean;
}

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { id, entry, algo, goal, python, ...others } = values;
  if (id !== undefined && entry !== undefined)
    throw new UsageError('--id and --entry exclude each other; give one of them');
  const isOwn = id === undefined && entry === undefined;
  const path = new URL('../../../examples/gymnasium/', import.meta.url).pathname;
  const environment = {
    python,
    ...(isOwn ? { entry: 'braking:Braking', path } : id !== undefined ? { id } : { entry: entry! }),
  };
  return { ...others, environment, algorithm: algo, goal: goal ?? (isOwn ? -12 : undefined) };
}
