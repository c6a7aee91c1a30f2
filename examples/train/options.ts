/** The command line of the example: an environment, an algorithm, and how long. */
import { checkpointOf, flag, parseOptions, positive, UsageError, whole } from '../command-line.ts';
import { monitorOption, monitorPort } from '../monitor.ts';
import { type Algorithm, type Preset, type Task, tasks } from './presets.ts';

const names = Object.keys(tasks);
const list = names
  .map(
    (name) =>
      `                      ${name.padEnd(22)} ${Object.keys((tasks[name] as Task).presets).join(', ')}`,
  )
  .join('\n');

export const help = `Trains a learner on an environment until it is solved: until the mean return of
greedy episodes reaches the environment's threshold, and others confirm it.

usage: npm run train -- [options]

  --env NAME          what to train on, with these algorithms (default Pendulum):
${list}
  --algo NAME         one of those (default: the environment's first)
  --seed N            seed of weights, draws, environments and exploration (default 1)
  --device NAME       auto, host:0, … (default auto)
  --steps N           environment steps at most (default: the preset's)
  --max-seconds S     give up after so many seconds (default: no limit)
  --checkpoint FOLDER save it there, at its end too; where there is a checkpoint
                      already, go on from it
  --every TIME        how often, such as 10s or 5min (default 60s)
  --monitor [PORT]    serve a live page on this machine (default port 7660)
  --json              one JSON object per line: each look at the weights, and at
                      last { solved, meanReturn, steps, seconds, … }
  --quiet             nothing but the summary
  --help              this text

exit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C prints the summary so far)
`;

export interface CommandLine {
  name: string;
  task: Task;
  algorithm: Algorithm;
  preset: Preset;
  checkpoint: { folder: string; every?: string } | undefined;
  seed: number;
  device: string;
  /** of the live page: null for any, undefined for none */
  monitor: number | null | undefined;
  json: boolean;
  quiet: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    env: { ...text, default: 'Pendulum' },
    algo: text,
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    steps: text,
    'max-seconds': text,
    checkpoint: text,
    every: text,
    monitor: monitorOption,
    json: flag,
    quiet: flag,
  });
  if (!values) return null;
  const { env, algo, seed, device, steps, json, quiet } = values;
  const checkpoint = checkpointOf(values.checkpoint, values.every);
  const name = names.find(
    (each) => each.toLowerCase() === env.toLowerCase() || tasks[each]?.id === env,
  );
  if (name === undefined)
    throw new UsageError(`--env must be one of ${names.join(', ')}, got '${env}'`);
  const task = tasks[name] as Task;
  const known = Object.keys(task.presets) as Algorithm[];
  const algorithm = (algo ?? known[0]) as Algorithm;
  const preset = known.includes(algorithm) ? task.presets[algorithm] : undefined;
  if (!preset)
    throw new UsageError(`--algo for ${name} must be ${known.join(' or ')}, got '${algo}'`);
  const least = (preset.warmUp ?? 1000) + 1;
  const most = values['max-seconds'];
  return {
    name,
    task,
    algorithm,
    device,
    checkpoint,
    json,
    quiet,
    seed: whole('seed', seed, 0),
    monitor: monitorPort(values.monitor),
    preset: {
      ...preset,
      ...(steps !== undefined && { steps: whole('steps', steps, least) }),
      ...(most !== undefined && { seconds: positive('max-seconds', most) }),
    },
  };
}
