/** The command line of the program. */
import {
  commandLine,
  device,
  flag,
  positive,
  UsageError,
  whole,
} from '../../../examples/command-line.ts';

const command = commandLine({
  intro: `Trains a network whose weights exceed a device's budget. A second stream prefetches each layer while the one before it runs, and layers leave when others need the memory. It runs with and without prefetch and compares both.`,
  usage: 'node dist/test/programs/offload-weights/main.js [options]',
  options: {
    device: device(),
    steps: whole('updates of each run, at least 2', { min: 2, default: 12 }),
    layers: whole('layers of width × width weights, at least 2', { min: 2, default: 8 }),
    width: whole('inputs and outputs of a layer, at least 8', { min: 8, default: 512 }),
    'budget-mib': positive('weights on the device at a time, in MiB, at least two layers', {
      default: 4,
      placeholder: 'M',
    }),
    json: flag('one JSON object per line, the last one the summary'),
  },
  after:
    'exit code: 0 success, 1 no managed memory, unequal or rising losses, or over budget, 2 wrong usage, or an unknown or unavailable device',
});
export const { help } = command;

export interface CommandLine {
  device: string;
  steps: number;
  layers: number;
  width: number;
  /** bytes */
  budget: number;
  json: boolean;
}

/** Throws UsageError. Returns null if --help was given. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  if (!values) return null;
  const { 'budget-mib': budgetMib, ...others } = values;
  const budget = budgetMib * 2 ** 20;
  const two = 2 * layerBytes(others.width);
  if (budget < two)
    throw new UsageError(
      `--budget-mib must hold two layers, ${(two / 2 ** 20).toFixed(2)} MiB ` +
        `at width ${others.width}; got ${budgetMib}`,
    );
  return { ...others, budget };
}

/** Returns the bytes of weights and biases of one layer. */
export const layerBytes = (width: number) => 4 * (width + 1) * width;
