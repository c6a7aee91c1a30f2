/** Command line of the example: the model, and the port of its page. */
import { commandLine, device, flag, seed, text, whole } from '../command-line.ts';

const command = commandLine({
  intro: `Serves a page in which a trained policy balances CartPole's pole: the ONNX model of encodeOnnx(), run by onnxruntime-web. If the model is missing, DQN is trained first for some seconds, or the model is made from saved weights. Ctrl-C ends it.`,
  usage: 'npm run browser -- [options]',
  options: {
    policy: text('FILE', 'a file', 'the model, written if it is missing', {
      default: 'policy.onnx',
    }),
    checkpoint: text(
      'FILE',
      'a file',
      "safetensors of a DqnLearner's state() to make the model from",
    ),
    port: whole('port of 127.0.0.1', { min: 0, max: 65_535, default: 0, shown: 'any free port' }),
    seed: seed('seed of the training'),
    device: device('device of the training: auto, host:0, …'),
    quiet: flag("only the page's address"),
  },
  after:
    'exit code: 0 served until Ctrl-C, 1 refused, 2 wrong usage, 130 interrupted during the training',
});
export const { help } = command;

export type CommandLine = Omit<NonNullable<ReturnType<typeof command.parse>>, 'checkpoint'> & {
  checkpoint: string | null;
};

/** Returns the values, or null if --help was given. Throws UsageError. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const values = command.parse(args);
  return values && { ...values, checkpoint: values.checkpoint ?? null };
}
