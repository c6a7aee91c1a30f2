/**
 * The command line of the example: what may be said, what it means, and one clear sentence for
 * anything else.
 */
import { flag, parseOptions, positive, UsageError, whole } from '../command-line.ts';
import type { RunOptions } from './run.ts';
import { defaults } from './settings.ts';

export const help = `Learns a game of catch from its pixels. Every frame, 84 × 84 bytes, is stored
once; stacks of four frames are made when they are drawn, go to the device as
bytes, and become floats there, from which a DQN with two convolutions learns.

usage: node dist/examples/pixels/main.js [options]

  --seconds S            how long (default 20)
  --seed N               of games, exploration, draws and weights (default 1)
  --device NAME          auto, host:0, … (default auto)
  --lanes N              games, each with a lane of the buffer (default 16)
  --workers N            threads that play them (default 1)
  --capacity N           places of the buffer, a multiple of the lanes (default
                         20000)
  --rows N               transitions of a batch (default 32)
  --samples-per-step R   how often a step is drawn on average; 0: writing and
                         drawing do not wait for one another (default 4)
  --json                 one JSON object per line, the last one the summary
  --help                 this text

exit code: 0 it ran, 1 not, 2 wrong usage, 130 interrupted (Ctrl-C prints the
  summary so far)
`;

export interface CommandLine {
  run: RunOptions;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = (value: number | string) => ({ type: 'string', default: String(value) }) as const;
  const values = parseOptions(args, {
    seconds: text(20),
    seed: text(1),
    device: text('auto'),
    lanes: text(defaults.lanes),
    workers: text(defaults.workers),
    capacity: text(defaults.capacity),
    rows: text(defaults.rows),
    'samples-per-step': text(defaults.samplesPerInsert),
    json: flag,
  });
  if (!values) return null;
  const lanes = whole('lanes', values.lanes, 1, 1024);
  const workers = whole('workers', values.workers, 1, 64);
  if (workers > lanes)
    throw new UsageError(`--workers must be at most --lanes, ${lanes}; got ${workers}`);
  // Each lane needs room for some games.
  const capacity = whole('capacity', values.capacity, 64 * lanes, 10_000_000);
  if (capacity % lanes !== 0) {
    const least = capacity - (capacity % lanes);
    throw new UsageError(
      `--capacity must be a multiple of --lanes, ${lanes}, such as ${least}; got ${capacity}`,
    );
  }
  const given = values['samples-per-step'];
  const settings = {
    ...defaults,
    lanes,
    workers,
    capacity,
    rows: whole('rows', values.rows, 1, 4096),
    samplesPerInsert:
      Number(given) === 0 && given.trim() !== '' ? 0 : positive('samples-per-step', given),
    warmUp: Math.min(defaults.warmUp, capacity / 2),
  };
  const run = {
    settings,
    device: values.device,
    seed: whole('seed', values.seed, 0),
    seconds: positive('seconds', values.seconds),
  };
  return { run, json: values.json };
}
