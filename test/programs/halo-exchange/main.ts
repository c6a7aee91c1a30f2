/**
 * Computes advection in parts that exchange halos. Each part runs in a worker thread, and the
 * result must equal that of one undivided run.
 */
import { writeFileSync } from 'node:fs';
import {
  checkWritable,
  Refused,
  runExample,
  terminalColumns,
  toFile,
} from '../../../examples/command-line.ts';
import { type Display, showProgress } from '../../../src/entries/collect.ts';
import { openMpi } from '../../../src/entries/ranks.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { draw } from './picture.ts';
import { type Plan, planOf } from './plan.ts';
import { alone, notAmong, type Processes, together } from './processes.ts';
import { type Summary, summarise, textOf } from './report.ts';
import { compare, type Running, startParts, startUndivided } from './run.ts';

/** Waits for threads. `what` names their work in the text of an error. */
async function ended<T>({ done }: Running<T>, what: string, progress: Display): Promise<T[]> {
  try {
    return await showProgress(done, progress);
  } catch (error) {
    throw new Refused(`${what}: ${(error as Error).message}`, { cause: error });
  }
}

async function main(line: CommandLine): Promise<number> {
  if (!line.mpi) return compute(line, alone);
  await using mpi = await openMpi();
  const no = line.modes.map((mode) => notAmong(mode, mpi.size)).find((each) => each !== null);
  // Only the first process prints the error.
  if (no !== undefined && mpi.rank > 0) return 1;
  if (no !== undefined) throw new Refused(no);
  return await compute(line, together(mpi));
}

async function compute(
  { modes, size, steps, png, ...line }: CommandLine,
  processes: Processes,
): Promise<number> {
  const json = line.json || !processes.first;
  checkWritable('png', png);
  const plans: Plan[] = [];
  const summaries: Summary[] = [];
  for (const mode of modes) {
    const plan = planOf(mode, size, steps, processes.share);
    const reached = new Int32Array(plan.progress);
    /** displays the step of the slowest of these threads */
    const progress = (what: string, of: Int32Array) =>
      json ? {} : { live: () => [`${what}: step ${Math.min(...of)} of ${steps}`] };
    const undivided = `${mode}, undivided`;
    const ranks = processes.ranksOf(plan);
    const mine = reached.subarray(ranks[0], ranks[0]! + ranks.length);
    const times = await processes.gather(
      plan,
      await ended(startParts(plan, ranks), mode, progress(mode, mine)),
    );
    if (!processes.first) continue;
    const [undividedMs] = await ended(
      startUndivided(plan),
      undivided,
      progress(undivided, reached.subarray(plan.ranks)),
    );
    const comparison = compare(plan);
    const summary = summarise(plan, times, undividedMs!, comparison);
    if (!json) console.log(`${textOf(plan, summary, comparison, terminalColumns())}\n`);
    plans.push(plan);
    summaries.push(summary);
  }
  if (!processes.first) return 0;
  if (png !== undefined) {
    const bytes = await draw(plans).png();
    toFile('png', png, (file) => writeFileSync(file, bytes));
    if (!json) console.log(`drawn in ${png}`);
  }
  const equal = summaries.every((summary) => summary.equal);
  if (json) console.log(JSON.stringify({ size, steps, equal, runs: summaries }));
  return equal ? 0 : 1;
}

await runExample({ name: 'halo-exchange', help, parse: parseCommandLine, main });
