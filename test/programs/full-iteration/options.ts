/** The command line of the program. */
import { commandLine, device, flag, seed, whole } from '../../../examples/command-line.ts';

export const { help, parse: parseCommandLine } = commandLine({
  intro: `Trains a small MLP twice from the same seed: eagerly, and with each iteration (two updates, the batches' copies, noise and Adam) captured once as one graph and launched again. The weights must be equal bit for bit. It prints the cost of an iteration for the calling thread, and in all.`,
  usage: 'node dist/test/programs/full-iteration/main.js [options]',
  options: {
    device: device(),
    iterations: whole('iterations of each training, at least 2', { min: 2, default: 1000 }),
    seed: seed('seed of weights, batches and noise'),
    json: flag('one JSON object instead of text'),
  },
  after:
    'exit code: 0 equal weights from a captured graph, 1 not, 2 wrong usage, or an unknown or unavailable device',
});

export type CommandLine = NonNullable<ReturnType<typeof parseCommandLine>>;
