/** The command line of the program. */
import { choice, commandLine, flag, text, whole } from '../../../examples/command-line.ts';
import { onceAround } from './cell.ts';
import { type Mode, modes } from './domain.ts';

const command = commandLine({
  intro: `Moves a slotted cylinder and a bell with the wind, on a periodic plane in 2 × 2 parts and on a sphere of 6 faces. A thread computes each part. The threads exchange halos while each computes its interior. The result must equal an undivided run in one thread, bit for bit.`,
  usage:
    'node dist/test/programs/halo-exchange/main.js [options]\n       mpirun -n 2 node dist/test/programs/halo-exchange/main.js --mpi [options]',
  options: {
    mode: choice('MODE', ['plane', 'sphere', 'both'], 'plane, sphere or both', { default: 'both' }),
    size: whole('cells along each side of a part, 8 to 256', { min: 8, max: 256, default: 40 }),
    steps: whole('number of steps', {
      min: 1,
      max: 1_000_000,
      shown: '12 per cell of a side: once around',
    }),
    png: text('FILE', 'a file', 'draw the fields at the start, after a third, and at the end'),
    mpi: flag(
      'divide the parts among the processes of an MPI launcher (plane: 1, 2 or 4, sphere: 1, 2, 3 or 6). The first one prints the results',
    ),
    json: flag('one JSON object instead of text'),
  },
  after:
    'exit code: 0 equal to the undivided run, 1 not, or a thread failed, or FILE cannot be written, 2 wrong usage',
});
export const { help } = command;

export interface CommandLine {
  modes: readonly Mode[];
  size: number;
  steps: number;
  png: string | undefined;
  mpi: boolean;
  json: boolean;
}

/** Throws UsageError. Returns null if --help was given. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { mode, steps, ...others } = values;
  const chosen = modes.filter((name) => mode === 'both' || name === mode);
  return { ...others, modes: chosen, steps: steps ?? onceAround(others.size) };
}
