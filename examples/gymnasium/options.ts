/** The command line of the example: which environment of Python's, which learner, and how long. */
import type { GymnasiumOptions } from '../../src/entries/collect.ts';
import { flag, parseOptions, UsageError, whole } from '../command-line.ts';

const algorithms = ['sac', 'td3', 'dqn'] as const;

export const help = `Trains a learner on an environment of Python's Gymnasium, which a process per
collector thread steps.

usage: npm run gymnasium -- [options]

  --id NAME           a registered environment, such as Pendulum-v1 (pip install gymnasium)
  --entry NAME        or module:function, which makes one
                      (default braking:Braking, which is here and needs numpy alone)
  --algo NAME         ${algorithms.join(', ')} (default sac; dqn where actions are discrete)
  --environments N    stepped together (default 8)
  --goal R            stop at this mean return of greedy episodes (default: of Braking −12, of others none)
  --steps N           environment steps at most (default 50000)
  --seed N            (default 1)
  --device NAME       auto, host:0, … (default auto)
  --python NAME       (default python3)
  --json              the result as one JSON object
  --help              this text

exit code: 0 solved or no goal, 1 not solved, 2 wrong usage, 130 interrupted
`;

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

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    id: text,
    entry: text,
    goal: text,
    algo: { ...text, default: 'sac' },
    environments: { ...text, default: '8' },
    steps: { ...text, default: '50000' },
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    python: { ...text, default: 'python3' },
    json: flag,
  });
  if (!values) return null;
  const { id, entry, algo, goal, device, python, json } = values;
  if (id !== undefined && entry !== undefined)
    throw new UsageError('--id and --entry are two names of one thing: take one');
  const algorithm = algorithms.find((name) => name === algo);
  if (!algorithm) throw new UsageError(`--algo must be ${algorithms.join(', ')}, got '${algo}'`);
  const own = id === undefined && entry === undefined;
  const goalOf = () => {
    if (goal === undefined) return own ? -12 : undefined;
    if (goal.trim() === '' || Number.isNaN(Number(goal)))
      throw new UsageError(`--goal must be a number, got '${goal}'`);
    return Number(goal);
  };
  const path = new URL('../../../examples/gymnasium/', import.meta.url).pathname;
  return {
    environment: {
      python,
      ...(own ? { entry: 'braking:Braking', path } : id !== undefined ? { id } : { entry: entry! }),
    },
    algorithm,
    goal: goalOf(),
    device,
    json,
    environments: whole('environments', values.environments, 1),
    steps: whole('steps', values.steps, 1001),
    seed: whole('seed', values.seed, 0),
  };
}
