/**
 * Learns a game from its pixels. The buffer stores each frame once, and sampling stacks the frames.
 * Frames stay bytes until they are on the device.
 */

import { showProgress } from '../../src/entries/collect.ts';
import { deviceNamed, runExample } from '../command-line.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { progressLine, progressObject, summaryObject, summaryText } from './report.ts';
import { PixelRun } from './run.ts';

const INTERRUPTED = 130;
/** Shortest time over which a rate is averaged. Digits that change faster are unreadable. */
const SECONDS = 0.5;

async function main({ run: options, json }: CommandLine): Promise<number> {
  const interrupt = new AbortController();
  // The handler runs only once, so a second Ctrl-C ends the process as usual.
  const onInterrupt = () => interrupt.abort();
  process.once('SIGINT', onInterrupt);
  using device = deviceNamed(options.device);
  const pixels = new PixelRun();
  let before = pixels.progress();
  const line = (of: typeof progressLine | typeof progressObject) => {
    const now = pixels.progress();
    const told = of(now, before);
    if (now.seconds - before.seconds > SECONDS) before = now;
    return told;
  };
  const result = await showProgress(
    pixels.run({ ...options, device: device.name }, interrupt.signal),
    json
      ? { line: () => JSON.stringify(line(progressObject)) }
      : { live: () => [line(progressLine) as string], line: () => line(progressLine) as string },
  );
  process.off('SIGINT', onInterrupt);
  const interrupted = interrupt.signal.aborted;
  console.log(
    json
      ? JSON.stringify(summaryObject(result, options, interrupted))
      : summaryText(result, options),
  );
  return interrupted ? INTERRUPTED : 0;
}

await runExample({ name: 'pixels', help, parse: parseCommandLine, main });
