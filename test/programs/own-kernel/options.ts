/** The command line of the program. */
import { commandLine, device, flag, seed, whole } from '../../../examples/command-line.ts';

export const { help, parse: parseCommandLine } = commandLine({
  intro: `Augments batches of frames by random shifts with its own kernel, which is compiled for the device. Draws and shifts are captured once and launched for each batch. The last batch must equal JavaScript's result of the same draws, bit for bit.`,
  usage: 'node dist/test/programs/own-kernel/main.js [options]',
  options: {
    device: device(),
    rows: whole('frames of a batch', { min: 1, max: 65_536, default: 64 }),
    size: whole('pixels of a side, at least 8', { min: 8, max: 1024, default: 84 }),
    pad: whole('maximum of pixels that a frame moves by', { min: 0, max: 512, default: 4 }),
    replays: whole('batches', { min: 1, default: 200 }),
    seed: seed('seed of frames and draws'),
    json: flag('one JSON object instead of text'),
  },
  after:
    'exit code: 0 equal, 1 not, or the kernel cannot be compiled, 2 wrong usage, or an unknown or unavailable device',
});

export type CommandLine = NonNullable<ReturnType<typeof parseCommandLine>>;
