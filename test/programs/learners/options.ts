/** The command line of the example: what may be said, and what it means. */
import { flag, parseOptions, whole } from '../../../examples/command-line.ts';

export const help = `Trains DQN on CartPole by several learners at once. Each has poles and a replay
buffer of its own; behind every tick their parameters become the mean of all, so
every learner has the same ones, bit for bit, which is looked at every 80 ticks.

usage: node dist/test/programs/learners/main.js [options]
       mpirun -n 2 node dist/test/programs/learners/main.js --mpi [options]

  --learners N        learners in this process, 2 to 16 (default 2)
  --mpi               one learner in each process of the launcher instead
  --device NAME       auto, host:0, … (default auto)
  --every N           ticks from one mean to the next (default 1)
  --seed N            seed of weights, poles and draws (default 1)
  --max-ticks N       give up after so many ticks (default 5000)
  --json              one JSON object instead of text
  --help              this text

exit code: 0 solved and equal, 1 not, 2 wrong usage
`;

export interface CommandLine {
  learners: number;
  mpi: boolean;
  device: string;
  every: number;
  seed: number;
  maxTicks: number;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = parseOptions(args, {
    learners: { type: 'string', default: '2' },
    mpi: flag,
    device: { type: 'string', default: 'auto' },
    every: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    'max-ticks': { type: 'string', default: '5000' },
    json: flag,
  });
  if (!values) return null;
  return {
    ...values,
    learners: whole('learners', values.learners, 2, 16),
    every: whole('every', values.every, 1),
    seed: whole('seed', values.seed, 0),
    maxTicks: whole('max-ticks', values['max-ticks'], 1),
  };
}
