/** Command line of the example: an environment, an algorithm, and limits. */
import {
  checkpointOf,
  choice,
  commandLine,
  device,
  flag,
  positive,
  products,
  seed,
  text,
  time,
  UsageError,
  whole,
} from '../command-line.ts';
import { monitor } from '../monitor.ts';
import { type Algorithm, type Preset, type Task, tasks } from './presets.ts';

const names = Object.keys(tasks);
const algorithms = [
  ...new Set(Object.values(tasks).flatMap(({ presets }) => Object.keys(presets))),
] as Algorithm[];
const named = (given: string) => names.find((name) => tasks[name]?.id === given);
const list = names.map(
  (name) => `  ${name.padEnd(22)} ${Object.keys((tasks[name] as Task).presets).join(', ')}`,
);

const command = commandLine({
  intro: `Trains a learner on an environment until it is solved: until the mean return of greedy episodes reaches the environment's threshold, and other episodes confirm it.`,
  usage: 'npm run train -- [options]',
  options: {
    env: choice('NAME', names, 'one of the environments below', { default: 'Pendulum' }),
    algo: choice('NAME', algorithms, "one of the environment's algorithms", {
      shown: "the environment's first",
    }),
    seed: seed('seed of weights, draws, environments and exploration'),
    device: device(),
    products: products('float32, or that of the checkpoint'),
    deterministic: flag('collect and learn in turns in one thread, so that every bit repeats'),
    steps: whole('maximum of environment steps', { min: 1, shown: "the preset's" }),
    'max-seconds': positive('give up after this many seconds', { shown: 'no limit' }),
    checkpoint: text(
      'FOLDER',
      'a folder',
      'save there, also at the end. Resume if it has a checkpoint',
    ),
    every: time('time between two saves, such as 10s or 5min (default 60s)'),
    monitor,
    json: flag(
      'one JSON object per line: each evaluation, and last { solved, meanReturn, steps, seconds, … }',
    ),
    quiet: flag('only the summary'),
  },
  after: `environments and their algorithms:\n${list.join('\n')}\n\nexit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C prints the summary so far)`,
});
export const { help } = command;

export interface CommandLine {
  name: string;
  task: Task;
  algorithm: Algorithm;
  preset: Preset;
  checkpoint: { folder: string; every?: string } | undefined;
  seed: number;
  device: string;
  products: 'float32' | 'tf32' | undefined;
  /** port of the live page: null if `--monitor` has no port, undefined for no page */
  monitor: number | null | undefined;
  json: boolean;
  quiet: boolean;
}

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  // --env also accepts Gymnasium's id of an environment.
  const at = args.indexOf('--env') + 1;
  const id = at > 0 ? named(args[at] ?? '') : undefined;
  const values = command.parse(id === undefined ? args : args.with(at, id));
  if (!values) return null;
  const {
    env: name,
    algo,
    steps,
    'max-seconds': seconds,
    checkpoint,
    every,
    deterministic,
    ...others
  } = values;
  const task = tasks[name] as Task;
  const known = Object.keys(task.presets) as Algorithm[];
  const algorithm = algo ?? (known[0] as Algorithm);
  const preset = task.presets[algorithm];
  if (!preset)
    throw new UsageError(`--algo for ${name} must be ${known.join(' or ')}, got '${algo}'`);
  const min = (preset.warmUp ?? 1000) + 1;
  if (steps !== undefined && steps < min)
    throw new UsageError(`--steps must be a whole number of at least ${min}, got '${steps}'`);
  return {
    ...others,
    name,
    task,
    algorithm,
    checkpoint: checkpointOf(checkpoint, every),
    preset: {
      ...preset,
      ...(steps !== undefined && { steps }),
      ...(seconds !== undefined && { seconds }),
      ...(deterministic && { deterministic, workers: 1 }),
    },
  };
}
