/** The command line of the program. */
import { commandLine, device, flag, seed, whole } from '../../../examples/command-line.ts';

const command = commandLine({
  intro: `Trains DQN on CartPole by several learners at once. Each has its own environments and replay buffer. After every tick their parameters are averaged, so all learners have the same bits. They are compared every 80 ticks.`,
  usage:
    'node dist/test/programs/learners/main.js [options]\n       mpirun -n 2 node dist/test/programs/learners/main.js --mpi [options]',
  options: {
    learners: whole('learners in this process, 2 to 16', { min: 2, max: 16, default: 2 }),
    mpi: flag('one learner in each process of the launcher instead'),
    device: device(),
    every: whole('ticks from one mean to the next', { min: 1, default: 1 }),
    seed: seed('seed of weights, environments and draws'),
    'max-ticks': whole('give up after this many ticks', { min: 1, default: 5000 }),
    json: flag('one JSON object instead of text'),
  },
  after: 'exit code: 0 solved and equal, 1 not, 2 wrong usage',
});
export const { help } = command;

/** Throws UsageError. Returns null if --help was given. */
export function parseCommandLine(args: readonly string[]) {
  const values = command.parse(args);
  return values && { ...values, maxTicks: values['max-ticks'] };
}
export type CommandLine = NonNullable<ReturnType<typeof parseCommandLine>>;
