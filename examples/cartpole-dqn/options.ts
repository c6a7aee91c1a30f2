/** Command line of the example: seeds, placement, limits, files. */
import type { Placement } from '../../src/index.ts';
import {
  checkpointOf,
  checkWritable,
  choice,
  commandLine,
  device,
  flag,
  positive,
  seed,
  text,
  time,
  UsageError,
  whole,
} from '../command-line.ts';
import { monitor } from '../monitor.ts';
import { defaults, replays } from './settings.ts';
import type { TrainingOptions } from './training.ts';

const placements: Readonly<Record<string, Placement>> = {
  auto: 'auto',
  inline: 'inline',
  'one-thread': [['pack', 'submit', 'poll', 'replay']],
  'four-threads': [['pack'], ['submit'], ['poll'], ['replay']],
};

const command = commandLine({
  intro: `Trains DQN on CartPole-v1 through Hotslot's four actors until it is solved: a mean return of at least 475 over 100 greedy episodes, confirmed by 100 others.`,
  usage: 'npm start -- [options]',
  options: {
    seed: seed('seed of environments, exploration, draws and weights'),
    device: device(),
    placement: choice('WHERE', Object.keys(placements), Object.keys(placements).join(', '), {
      shown: 'auto',
    }),
    replay: choice('HOW', replays, 'uniform, or prioritized by the TD error', {
      default: defaults.replay,
    }),
    'n-step': whole('steps of an n-step return', { min: 1, max: 100, default: defaults.nStep }),
    'max-seconds': positive('give up after this many seconds', { default: 120 }),
    ticks: whole('give up after this many ticks', { min: 1, shown: 'no limit' }),
    trace: text(
      'FILE',
      'a file',
      'write a Chrome/Perfetto trace (open it at https://ui.perfetto.dev)',
    ),
    log: text('FOLDER', 'a folder', 'write curves for TensorBoard: returns, loss, speeds'),
    checkpoint: text('FOLDER', 'a folder', 'save the run there for --resume'),
    every: time(
      'time between two saves, such as 1s or 5min (default 60s). The run also saves at its end',
    ),
    resume: text(
      'FOLDER',
      'a folder',
      'resume from the checkpoint there, and save there again. Without one the run starts from the beginning',
    ),
    monitor,
    json: flag('one JSON object per line, the last one the summary'),
    quiet: flag('only the summary'),
  },
  after: `--seed fixes environments and draws. Collectors run at their own pace, so two runs of one seed differ in the rows that a batch can contain. npm run train -- --deterministic repeats every bit.\n\nexit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C prints the summary so far)`,
});
export const { help } = command;

export interface CommandLine {
  json: boolean;
  quiet: boolean;
  /** port of the live page: null if `--monitor` has no port, undefined for no page */
  monitor: number | null | undefined;
  training: TrainingOptions;
}

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { json, quiet, monitor, placement, replay, ticks, checkpoint, ...others } = values;
  const { seed, device, trace, log, resume } = others;
  const { folder, every = '60s' } = checkpointOf(checkpoint ?? resume, others.every) ?? {};
  const training = {
    seed,
    device,
    placement: placements[placement ?? 'auto'] as Placement,
    trace,
    log,
    settings: { ...defaults, replay, nStep: others['n-step'] },
    resume,
    checkpoint: folder === undefined ? undefined : { folder, every },
    maxTicks: ticks ?? Number.POSITIVE_INFINITY,
    maxSeconds: others['max-seconds'],
  };
  checkWritable('trace', trace, UsageError);
  return { json, quiet, monitor, training };
}
