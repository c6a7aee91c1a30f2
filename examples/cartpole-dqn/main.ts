/**
 * Trains DQN on CartPole through the four actors until it is solved. `npm start -- --help` prints
 * the options.
 */

import { showProgress } from '../../src/entries/collect.ts';
import { deviceNamed, runExample } from '../command-line.ts';
import { openMonitor, whileConnected } from '../monitor.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { progressOf } from './report.ts';
import { finalText, startObject, startText, summaryObject } from './text.ts';
import { Training } from './training.ts';

const INTERRUPTED = 130;

async function main({
  training: options,
  json,
  quiet,
  monitor: port,
}: CommandLine): Promise<number> {
  const interrupt = new AbortController();
  // The handler runs only once, so a second Ctrl-C ends the process as usual.
  const onInterrupt = () => interrupt.abort();
  process.once('SIGINT', onInterrupt);
  // If the reader of stdout closes it, as in `| head`, the training stops.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    interrupt.abort();
  });
  using device = deviceNamed(options.device);
  await using training = await Training.open({ ...options, device: device.name });
  if (port !== undefined) {
    const { pipeline } = training.parts;
    const { monitor, text } = await openMonitor(
      { pipeline, title: `CartPole, seed ${options.seed}` },
      port,
    );
    training.monitor = monitor;
    // On stderr, because another program may read stdout.
    console.error(text);
  }
  if (!quiet) console.log(json ? JSON.stringify(startObject(training)) : startText(training));
  const outcome = await showProgress(
    training.run(interrupt.signal),
    quiet ? {} : progressOf(training, json),
  );
  console.log(
    json ? JSON.stringify(summaryObject(outcome, training)) : finalText(outcome, training, quiet),
  );
  if (training.monitor) await whileConnected(training.monitor, interrupt.signal);
  process.off('SIGINT', onInterrupt);
  if (outcome.interrupted) return INTERRUPTED;
  return outcome.solved ? 0 : 1;
}

await runExample({ name: 'cartpole-dqn', help, parse: parseCommandLine, main });
