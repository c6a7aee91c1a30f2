/** The command line of the example: a file of data, and how long it is learned from. */
import { flag, parseOptions, UsageError, whole } from '../command-line.ts';

export const help = `Learns Pendulum from a file alone, by TD3+BC: no step is taken while it learns. Where
the file is not there, SAC makes it first: all that it saw while it trained.

usage: npm run offline -- [options]

  --data FILE         npz of transitions: what dump() of a buffer wrote, or D4RL's
                      columns (default pendulum-sac.npz, here)
  --steps N           gradient steps (default 20000)
  --alpha X           how much the value counts against the file's actions; 0 clones
                      them alone (default 40: actions are within ±2, so their
                      squares are four times those of ±1, for which the paper has
                      2.5; and most of the file is by a policy that still learned)
  --episodes N        greedy episodes by which the policy is judged (default 100)
  --seed N            seed of weights, draws and episodes (default 1)
  --device NAME       auto, host:0, … (default auto)
  --json              one JSON object at last: { solved, meanReturn, dataReturn, … }
  --quiet             nothing but the summary
  --help              this text

exit code: 0 solved, 1 not solved, 2 wrong usage, 130 interrupted (Ctrl-C)
`;

export interface CommandLine {
  data: string;
  steps: number;
  alpha: number;
  episodes: number;
  seed: number;
  device: string;
  json: boolean;
  quiet: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    data: { ...text, default: 'pendulum-sac.npz' },
    steps: { ...text, default: '20000' },
    alpha: { ...text, default: '40' },
    episodes: { ...text, default: '100' },
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    json: flag,
    quiet: flag,
  });
  if (!values) return null;
  const { data, steps, alpha, episodes, seed, device, json, quiet } = values;
  if (data === '') throw new UsageError("--data must name a file, got ''");
  const weight = Number(alpha);
  if (alpha.trim() === '' || !(weight >= 0 && weight <= 1e6))
    throw new UsageError(`--alpha must be a number from 0 to 1000000, got '${alpha}'`);
  return {
    data,
    device,
    json,
    quiet,
    alpha: weight,
    steps: whole('steps', steps, 2),
    episodes: whole('episodes', episodes, 1),
    seed: whole('seed', seed, 0),
  };
}
