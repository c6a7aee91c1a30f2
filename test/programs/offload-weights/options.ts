/**
 * The command line of the example: what may be said, what it means, and one clear sentence for
 * anything else.
 */
import { flag, parseOptions, positive, UsageError, whole } from '../../../examples/command-line.ts';

export const help = `Trains a network whose weights do not fit into a device's budget: layers come by
a prefetch on a second stream while the one before runs, and go back when others
need the room. Runs with and without prefetch and compares both.

usage: node dist/test/programs/offload-weights/main.js [options]

  --device NAME       auto, host:0, … (default auto)
  --steps N           updates of each run, at least 2 (default 12)
  --layers N          layers of width × width weights, at least 2 (default 8)
  --width N           inputs and outputs of a layer, at least 8 (default 512)
  --budget-mib M      weights on the device at a time, in MiB; two layers have
                      to fit (default 4)
  --json              one JSON object per line, the last one the summary
  --help              this text

exit code: 0 all went as it should,
  1 not: no managed memory, unequal or rising losses, over budget,
  2 wrong usage, also a device that is unknown or not available
`;

export interface CommandLine {
  device: string;
  steps: number;
  layers: number;
  width: number;
  /** bytes */
  budget: number;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = (value: string) => ({ type: 'string', default: value }) as const;
  const values = parseOptions(args, {
    device: text('auto'),
    steps: text('12'),
    layers: text('8'),
    width: text('512'),
    'budget-mib': text('4'),
    json: flag,
  });
  if (!values) return null;
  const budgetMib = positive('budget-mib', values['budget-mib']);
  const settings = {
    device: values.device,
    steps: whole('steps', values.steps, 2),
    layers: whole('layers', values.layers, 2),
    width: whole('width', values.width, 8),
    budget: budgetMib * 2 ** 20,
    json: values.json,
  };
  const two = 2 * layerBytes(settings.width);
  if (settings.budget < two)
    throw new UsageError(
      `--budget-mib must hold two layers, ${(two / 2 ** 20).toFixed(2)} MiB ` +
        `at width ${settings.width}; got ${budgetMib}`,
    );
  return settings;
}

/** Weights and biases of one layer. */
export const layerBytes = (width: number) => 4 * (width + 1) * width;
