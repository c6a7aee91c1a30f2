/**
 * The command line of the example: what may be said, what it means, and one clear sentence for
 * anything else.
 */
import type { Placement } from '../../src/index.ts';
import {
  checkpointOf,
  checkWritable,
  flag,
  parseOptions,
  positive,
  UsageError,
  whole,
} from '../command-line.ts';
import { monitorOption, monitorPort } from '../monitor.ts';
import { defaults, type Replay, replays } from './settings.ts';
import type { TrainingOptions } from './training.ts';

export const help = `Trains DQN on CartPole-v1 through Hotslot's four actors until it is solved:
a mean return of at least 475 over 100 greedy episodes, confirmed by 100 others.

usage: npm start -- [options]

  --seed N            seed of environments, exploration, draws and weights (default 1)
  --device NAME       auto, host:0, … (default auto)
  --placement WHERE   auto, inline, one-thread or four-threads (default auto)
  --replay HOW        uniform, or prioritized: rows that were far off come more
                      often (default uniform)
  --n-step N          steps that a row sums up, 1 to 100 (default 1)
  --max-seconds S     give up after so many seconds (default 120)
  --ticks N           give up after so many ticks (default: no limit)
  --trace FILE        write a Chrome/Perfetto trace (open it at https://ui.perfetto.dev)
  --log FOLDER        write curves that TensorBoard shows: returns, loss, speeds
  --checkpoint FOLDER save the run there, so that --resume goes on with it
  --every TIME        how often, such as 1s or 5min (default 60s), and at the end
  --resume FOLDER     go on from the checkpoint there, and save there again; from
                      the beginning where there is none
  --monitor [PORT]    serve a live page on this machine (default port 7660)
  --lock-step         collect and learn in turns in one thread (needs placement inline, which it implies)
  --json              one JSON object per line, the last one the summary
  --quiet             nothing but the summary
  --help              this text

--seed fixes environments and draws. Collectors run at their own pace, so two
runs of one seed differ in which rows a batch could draw from;
bit for bit repeatable is only --placement inline --lock-step.

exit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C prints the summary so far)
`;

const placements: Readonly<Record<string, Placement>> = {
  auto: 'auto',
  inline: 'inline',
  'one-thread': [['pack', 'submit', 'poll', 'replay']],
  'four-threads': [['pack'], ['submit'], ['poll'], ['replay']],
};

const isReplay = (text: string): text is Replay => (replays as readonly string[]).includes(text);

export interface CommandLine {
  json: boolean;
  quiet: boolean;
  /** of the live page: null for any, undefined for none */
  monitor: number | null | undefined;
  training: TrainingOptions;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    placement: text,
    replay: { ...text, default: defaults.replay },
    'n-step': { ...text, default: String(defaults.nStep) },
    'max-seconds': { ...text, default: '120' },
    ticks: text,
    trace: text,
    log: text,
    checkpoint: text,
    every: text,
    resume: text,
    monitor: monitorOption,
    'lock-step': flag,
    json: flag,
    quiet: flag,
  });
  if (!values) return null;
  const { checkpoint, resume } = values;
  const {
    seed,
    device,
    placement,
    replay,
    ticks,
    trace,
    log,
    'lock-step': lockStep,
    json,
    quiet,
  } = values;
  if (lockStep && placement !== undefined && placement !== 'inline')
    throw new UsageError(`--lock-step needs --placement inline, got --placement ${placement}`);
  if (placement !== undefined && !Object.hasOwn(placements, placement))
    throw new UsageError(
      `--placement must be one of ${Object.keys(placements).join(', ')}, got '${placement}'`,
    );
  if (!isReplay(replay))
    throw new UsageError(`--replay is ${replays.join(' or ')}, got '${replay}'`);
  if (resume === '') throw new UsageError("--resume must name a folder, got ''");
  const { folder, every = '60s' } = checkpointOf(checkpoint ?? resume, values.every) ?? {};
  const training = {
    seed: whole('seed', seed, 0),
    device,
    placement: placements[placement ?? (lockStep ? 'inline' : 'auto')] as Placement,
    trace,
    log,
    settings: { ...defaults, replay, nStep: whole('n-step', values['n-step'], 1, 100) },
    lockStep,
    resume,
    checkpoint: folder === undefined ? undefined : { folder, every },
    maxTicks: ticks === undefined ? Number.POSITIVE_INFINITY : whole('ticks', ticks, 1),
    maxSeconds: positive('max-seconds', values['max-seconds']),
  };
  if (log === '') throw new UsageError("--log must name a folder, got ''");
  checkWritable('trace', trace, UsageError);
  return { json, quiet, monitor: monitorPort(values.monitor), training };
}
