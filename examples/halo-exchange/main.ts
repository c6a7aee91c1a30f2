/** Advection in parts that exchange halos: each part in a worker thread, and all of them equal to one undivided run. */
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { Refused, runExample, terminalColumns, toFile } from '../command-line.ts';
import { help, parseCommandLine } from './options.ts';
import { draw } from './picture.ts';
import { type Plan, planOf } from './plan.ts';
import { type Summary, summarise, textOf } from './report.ts';
import { compare, type Running, startParts, startUndivided } from './run.ts';

const LIVE_MS = 100;

/** Waits for threads; meanwhile a terminal shows how far the slowest of them is. */
async function watched<T>({ done }: Running<T>, what: string, steps: number, progress: Int32Array, live: boolean) {
  const show = () => process.stdout.write(`\r${what}: step ${Math.min(...progress)} of ${steps}\x1b[K`);
  const timer = live ? setInterval(show, LIVE_MS) : undefined;
  try {
    return await done;
  } catch (error) {
    throw new Refused(`${what}: ${(error as Error).message}`, { cause: error });
  } finally {
    clearInterval(timer);
    if (live) process.stdout.write('\r\x1b[K');
  }
}

async function main(args: readonly string[]): Promise<number> {
  const commandLine = parseCommandLine(args);
  if (!commandLine) {
    process.stdout.write(help);
    return 0;
  }
  const { modes, size, steps, png, json } = commandLine;
  // Before the run, which would else be in vain; what is there stays until there is something better.
  if (png !== undefined) toFile('png', png, (file) => closeSync(openSync(file, 'a')));
  const live = !json && process.stdout.isTTY === true;
  const plans: Plan[] = [];
  const summaries: Summary[] = [];
  for (const mode of modes) {
    const plan = planOf(mode, size, steps);
    const progress = new Int32Array(plan.progress);
    const [parts, whole] = [progress.subarray(0, plan.ranks), progress.subarray(plan.ranks)];
    const times = await watched(startParts(plan), mode, steps, parts, live);
    const [undividedMs] = await watched(startUndivided(plan), `${mode}, undivided`, steps, whole, live);
    const comparison = compare(plan);
    const summary = summarise(plan, times, undividedMs!, comparison);
    if (!json) console.log(`${textOf(plan, summary, comparison, terminalColumns())}\n`);
    plans.push(plan);
    summaries.push(summary);
  }
  if (png !== undefined) {
    const bytes = await draw(plans).png();
    toFile('png', png, (file) => writeFileSync(file, bytes));
    if (!json) console.log(`drawn in ${png}`);
  }
  const equal = summaries.every((summary) => summary.equal);
  if (json) console.log(JSON.stringify({ size, steps, equal, runs: summaries }));
  return equal ? 0 : 1;
}

await runExample('halo-exchange', main);
