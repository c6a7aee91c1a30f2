/** Command line of the example: a file of data, and the number of gradient steps. */
import { commandLine, device, flag, real, seed, text, whole } from '../command-line.ts';

export const { help, parse: parseCommandLine } = commandLine({
  intro: `Learns Pendulum from a file alone, by TD3+BC: it takes no environment step while it learns. If the file is missing, SAC collects it first.`,
  usage: 'npm run offline -- [options]',
  options: {
    data: text(
      'FILE',
      'a file',
      "npz of transitions, written by a buffer's dump() or with D4RL's columns",
      {
        default: 'pendulum-sac.npz',
      },
    ),
    steps: whole('gradient steps', { min: 2, default: 20_000 }),
    alpha: real(
      "weight of the critics' value relative to the file's actions. 0 only clones the actions. The paper has 2.5 for actions within ±1. Actions here are within ±2, so their squares are four times as large, and most of the file is from an unfinished policy",
      { min: 0, max: 1e6, default: 40 },
    ),
    episodes: whole('greedy episodes of the final evaluation', { min: 1, default: 100 }),
    seed: seed('seed of weights, draws and episodes'),
    device: device(),
    json: flag('one JSON object at the end: { solved, meanReturn, dataReturn, … }'),
    quiet: flag('only the summary'),
  },
  after: 'exit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C)',
});

export type CommandLine = NonNullable<ReturnType<typeof parseCommandLine>>;
