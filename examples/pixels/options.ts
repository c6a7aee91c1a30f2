/** Command line of the example: length of the run, games and sizes. */
import {
  commandLine,
  device,
  flag,
  positive,
  real,
  seed,
  UsageError,
  whole,
} from '../command-line.ts';
import type { RunOptions } from './run.ts';
import { defaults } from './settings.ts';

const command = commandLine({
  intro: `Learns a game of catch from its pixels. Each frame of 84 × 84 bytes is stored once. Samples stack four frames, and reach the device as bytes. There they become floats, from which a DQN with two convolutions learns.`,
  usage: 'node dist/examples/pixels/main.js [options]',
  options: {
    seconds: positive('length of the run', { default: 20 }),
    seed: seed('seed of games, exploration, draws and weights'),
    device: device(),
    lanes: whole('games, each with a lane of the buffer', {
      min: 1,
      max: 1024,
      default: defaults.lanes,
    }),
    workers: whole('threads that play them', { min: 1, max: 64, default: defaults.workers }),
    capacity: whole('places of the buffer, a multiple of the lanes', {
      min: 64,
      max: 10_000_000,
      default: defaults.capacity,
    }),
    rows: whole('transitions of a batch', { min: 1, max: 4096, default: defaults.rows }),
    'samples-per-step': real('average number of times that a step is sampled. 0: no limit', {
      min: 0,
      max: 1e9,
      default: defaults.samplesPerInsert,
      placeholder: 'R',
    }),
    json: flag('one JSON object per line, the last one the summary'),
  },
  after:
    'exit code: 0 it ran, 1 it failed, 2 wrong usage, 130 interrupted (Ctrl-C prints the summary so far)',
});
export const { help } = command;

export interface CommandLine {
  run: RunOptions;
  json: boolean;
}

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { lanes, workers, capacity, rows, seed, seconds, device, json } = values;
  if (workers > lanes)
    throw new UsageError(`--workers must be at most --lanes, ${lanes}; got ${workers}`);
  // Each lane needs room for some games.
  if (capacity < 64 * lanes)
    throw new UsageError(
      `--capacity must be at least 64 for each of ${lanes} lanes, got ${capacity}`,
    );
  if (capacity % lanes !== 0) {
    const next = capacity - (capacity % lanes);
    throw new UsageError(
      `--capacity must be a multiple of --lanes, ${lanes}, such as ${next}; got ${capacity}`,
    );
  }
  const settings = {
    ...defaults,
    lanes,
    workers,
    capacity,
    rows,
    samplesPerInsert: values['samples-per-step'],
    warmUp: Math.min(defaults.warmUp, capacity / 2),
  };
  return { run: { settings, device, seed, seconds }, json };
}
