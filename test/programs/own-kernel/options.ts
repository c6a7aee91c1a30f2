/** The command line of the example: what may be said, and what it means. */
import { flag, parseOptions, whole } from '../../../examples/command-line.ts';

export const help = `Augments batches of frames by random shifts with a kernel of its own, which is
compiled for the device. Draws and shifts are captured once and replayed; every
batch is shifted anew, and the last one has to equal what JavaScript makes of
the same draws, bit for bit.

usage: node dist/test/programs/own-kernel/main.js [options]

  --device NAME    auto, host:0, … (default auto)
  --rows N         frames of a batch (default 64)
  --size N         pixels of a side, at least 8 (default 84)
  --pad N          pixels that a frame moves by at most (default 4)
  --replays N      batches (default 200)
  --seed N         of frames and draws (default 1)
  --json           one JSON object instead of text
  --help           this text

exit code: 0 equal, 1 not, or no kernel can be compiled here,
  2 wrong usage, also a device that is unknown or not available
`;

export interface CommandLine {
  device: string;
  rows: number;
  size: number;
  pad: number;
  replays: number;
  seed: number;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = parseOptions(args, {
    device: { type: 'string', default: 'auto' },
    rows: { type: 'string', default: '64' },
    size: { type: 'string', default: '84' },
    pad: { type: 'string', default: '4' },
    replays: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    json: flag,
  });
  if (!values) return null;
  return {
    ...values,
    rows: whole('rows', values.rows, 1, 65_536),
    size: whole('size', values.size, 8, 1024),
    pad: whole('pad', values.pad, 0, 512),
    replays: whole('replays', values.replays, 1),
    seed: whole('seed', values.seed, 0),
  };
}
