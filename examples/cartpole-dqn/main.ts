/** The main job: trains DQN on CartPole through the four actors until it is solved. `npm start -- --help` says how. */
import { inspect } from 'node:util';
import { DeviceError } from '../../src/index.ts';
import { help, parseCommandLine, UsageError } from './options.ts';
import { Reporter } from './report.ts';
import { Training } from './training.ts';

const USAGE = 2;
const INTERRUPTED = 130;
/** Codes of what a wrong --device brings: the fault is in the command line. */
const usageCodes = ['ERR_HOTSLOT_UNKNOWN_DEVICE', 'ERR_HOTSLOT_UNAVAILABLE'];

async function main(args: readonly string[]): Promise<number> {
  const commandLine = parseCommandLine(args);
  if (commandLine.help) {
    process.stdout.write(help);
    return 0;
  }
  const interrupt = new AbortController();
  // Once: a second Ctrl-C ends the process as usual.
  const onInterrupt = () => interrupt.abort();
  process.once('SIGINT', onInterrupt);
  // Whoever read the lines went away (as `| head` does): nobody is left to train for.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    interrupt.abort();
  });
  await using training = await Training.open(commandLine.training).catch((error) => {
    throw usageCodes.includes(error.code) ? new UsageError(error.message) : error;
  });
  const reporter = new Reporter(training, commandLine);
  reporter.start();
  try {
    const outcome = await training.run(interrupt.signal);
    reporter.finish(outcome);
    if (outcome.interrupted) return INTERRUPTED;
    return outcome.solved ? 0 : 1;
  } finally {
    reporter.stop();
    process.off('SIGINT', onInterrupt);
  }
}

/** What a driver or device refused, in a sentence with what to do; null for errors of another kind. */
function drivers(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof DeviceError) return `${at.message}; ${at.advice}`;
    if ((at as { code?: string }).code === 'ERR_HOTSLOT_UNAVAILABLE') return at.message;
  }
  return null;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const usage = error instanceof UsageError;
  const why = usage ? `${error.message}; --help lists the options` : (drivers(error) ?? inspect(error));
  process.stderr.write(`cartpole-dqn: ${why}\n`);
  process.exitCode = usage ? USAGE : 1;
}
