/**
 * Trains from rows that collector hosts send over a Redis or Valkey server. Here all processes run
 * on one machine. The same commands work on many machines.
 */
import { showProgress } from '../../src/entries/collect.ts';
import { deviceNamed, Refused, runExample } from '../command-line.ts';
import { addressOf } from './address.ts';
import { hostLine, startHosts, startServer } from './children.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { tasks } from './settings.ts';
import {
  finalText,
  liveLines,
  lookerOf,
  plainLine,
  progressObject,
  summaryObject,
} from './text.ts';
import { OUTBOX_BYTES, withTraining } from './training.ts';

const LATE_MS = 2000;
const INTERRUPTED = 130;
const say = (line: string) => process.stdout.write(`${line}\n`);

async function main(given: CommandLine): Promise<number> {
  const { name, run, hosts: count, seed, device, seconds, insecure, ca, json } = given;
  const task = tasks[name];
  deviceNamed(device).close();
  const interrupted = interruption();
  await using started = given.url === undefined ? await startServer() : null;
  const url = started?.url ?? (given.url as string);
  const address = addressOf(url);
  const server = { url, run, insecure, ...(ca !== undefined && { ca }) };
  const collector = { environment: name, explore: task.explore(Math.max(1, count)) };
  // Opening waits if the server is not available.
  const late = setTimeout(
    () => process.stderr.write(`remote: waits for the server ${address.shown}\n`),
    LATE_MS,
  );
  const leave = () => process.exit(INTERRUPTED);
  interrupted.addEventListener('abort', leave);
  const work = withTraining(
    { task, collector, server, hosts: count, seed, device },
    async (training) => {
      clearTimeout(late);
      interrupted.removeEventListener('abort', leave);
      const asked = { address, run, hosts: count, outbox: OUTBOX_BYTES, insecure, ca };
      if (!json) say(`${task.id}: seed ${seed}, ${device}, run ${run} over ${address.shown}`);
      if (!json && count === 0) say(`on each machine: ${hostLine(asked)}`);
      await using hosts = startHosts(asked);
      const signal = AbortSignal.any([interrupted, AbortSignal.timeout(seconds * 1000)]);
      const look = lookerOf(() => training.progress());
      const running = training.run(signal, hosts.failed);
      const shown = json
        ? { line: () => JSON.stringify(progressObject(look())) }
        : { live: () => liveLines(look(), task), line: () => plainLine(look(), task) };
      const solved = await showProgress(running, shown);
      return { solved, interrupted: interrupted.aborted && !solved, last: training.progress() };
    },
  );
  const outcome = await work.catch((error) => {
    clearTimeout(late);
    // An error of the server or of another learner is shown as one sentence.
    const code = (error as { code?: string }).code ?? '';
    if (/^ERR_HOTSLOT_(STATE_BUSY|RANGE|ARGUMENT)$/.test(code))
      throw new Refused((error as Error).message.replace('insecure: true', '--insecure'));
    throw error;
  });
  say(json ? JSON.stringify(summaryObject(outcome, given)) : finalText(outcome, given));
  return outcome.solved ? 0 : outcome.interrupted ? INTERRUPTED : 1;
}

/**
 * Returns a signal that aborts at Ctrl-C, or when the process is asked to end. A second request
 * ends the process at once.
 */
function interruption(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => stop.abort());
  return stop.signal;
}

await runExample({ name: 'remote', help, parse: parseCommandLine, main });
