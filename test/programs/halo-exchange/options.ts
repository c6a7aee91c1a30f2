/** The command line of the example: what may be said, and what it means. */
import { flag, parseOptions, UsageError, whole } from '../../../examples/command-line.ts';
import { onceAround } from './cell.ts';
import { type Mode, modes } from './domain.ts';

export const help = `Carries a slotted cylinder and a bell with the wind, on a periodic plane in
2 × 2 parts and on a sphere of 6 faces. Each part is computed by a thread of its
own; they exchange halos while each computes its interior. The result has to be
that of an undivided run in one thread, bit for bit.

usage: node dist/test/programs/halo-exchange/main.js [options]
       mpirun -n 2 node dist/test/programs/halo-exchange/main.js --mpi [options]

  --mode MODE      plane, sphere or both (default both)
  --size N         cells along each side of a part, 8 to 256 (default 40)
  --steps N        how many (default 12 per cell of a side: once around, back to
                   where everything was)
  --png FILE       draw the fields too: at first, after a third, after all
                   (default: none)
  --mpi            share the parts out among the processes of an MPI launcher
                   (plane: 1, 2 or 4, sphere: 1, 2, 3 or 6); the first one
                   shows what came of all
  --json           one JSON object instead of text
  --help           this text

exit code: 0 equal to the undivided run, 1 not, or a thread failed, or FILE
  cannot be written, 2 wrong usage
`;

export interface CommandLine {
  modes: readonly Mode[];
  size: number;
  steps: number;
  png: string | undefined;
  mpi: boolean;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = parseOptions(args, {
    mode: { type: 'string', default: 'both' },
    size: { type: 'string', default: '40' },
    steps: { type: 'string' },
    png: { type: 'string' },
    mpi: flag,
    json: flag,
  });
  if (!values) return null;
  const { mode, png, mpi, json } = values;
  const chosen = mode === 'both' ? modes : modes.filter((name) => name === mode);
  if (chosen.length === 0) throw new UsageError(`--mode is plane, sphere or both, got '${mode}'`);
  if (png === '') throw new UsageError("--png needs a file's name");
  const size = whole('size', values.size, 8, 256);
  const steps =
    values.steps === undefined ? onceAround(size) : whole('steps', values.steps, 1, 1_000_000);
  return { modes: chosen, size, steps, png, mpi, json };
}
