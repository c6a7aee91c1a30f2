/** The command line of the example: a model, and where its page is. */
import { flag, parseOptions, UsageError, whole } from '../command-line.ts';

export const help = `A page in which a trained policy balances CartPole's pole: the ONNX model that
encodeOnnx() writes, run by onnxruntime-web. Where the model is not there, DQN is
trained first, for some seconds, or it is made of saved weights. Ctrl-C ends it.

usage: npm run browser -- [options]

  --policy FILE       the model; written when it is not there (default policy.onnx, here)
  --checkpoint FILE   safetensors of a DqnLearner's state(): the model is made of that
  --port N            of 127.0.0.1 (default: any that is free)
  --seed N            seed of the training (default 1)
  --device NAME       what trains: auto, host:0, … (default auto)
  --quiet             nothing but the page's address
  --help              this text

exit code: 0 served until Ctrl-C, 1 refused, 2 wrong usage, 130 interrupted while it trained
`;

export interface CommandLine {
  policy: string;
  checkpoint: string | null;
  port: number;
  seed: number;
  device: string;
  quiet: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    policy: { ...text, default: 'policy.onnx' },
    checkpoint: text,
    port: { ...text, default: '0' },
    seed: { ...text, default: '1' },
    device: { ...text, default: 'auto' },
    quiet: flag,
  });
  if (!values) return null;
  const { policy, checkpoint = null, port, seed, device, quiet } = values;
  if (policy === '') throw new UsageError("--policy must name a file, got ''");
  return {
    policy,
    checkpoint,
    device,
    quiet,
    port: whole('port', port, 0, 65_535),
    seed: whole('seed', seed, 0),
  };
}
