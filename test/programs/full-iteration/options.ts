/** The command line of the example: what may be said, and what it means. */
import { flag, parseOptions, whole } from '../../../examples/command-line.ts';

export const help = `Trains a small perceptron twice from the same seed: eagerly, and with each
iteration (two updates, the batches' copies, noise and Adam) captured once as
one graph and replayed. The weights have to be equal bit for bit; it prints what
an iteration costs the calling thread, and in all.

usage: node dist/test/programs/full-iteration/main.js [options]

  --device NAME       auto, host:0, … (default auto)
  --iterations N      iterations of each training, at least 2 (default 1000)
  --seed N            seed of weights, batches and noise (default 1)
  --json              one JSON object instead of text
  --help              this text

exit code: 0 equal weights from a captured graph, 1 not,
  2 wrong usage, also a device that is unknown or not available
`;

export interface CommandLine {
  device: string;
  iterations: number;
  seed: number;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = parseOptions(args, {
    device: { type: 'string', default: 'auto' },
    iterations: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    json: flag,
  });
  if (!values) return null;
  return {
    ...values,
    iterations: whole('iterations', values.iterations, 2),
    seed: whole('seed', values.seed, 0),
  };
}
