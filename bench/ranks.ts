/**
 * Compares two processes of an MPI launcher with two threads of one process: halo exchanges, and
 * what averaging adds to a learner's tick.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Launch, missingLaunch, mpich, openMpi, overTcp } from '../test/ranks/launch.ts';
import { type Benchmark, beside, median, type Report } from './harness.ts';

/** The longest time of an exchange between processes, as a multiple of the time between threads. */
const goals: readonly (readonly [Launch, number])[] = [
  [openMpi, 1.5],
  [overTcp, 4],
  [mpich, 1.5],
];
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const exchanging = file('./ranks-process.js');
const learning = file('./ranks-average.js');

/**
 * Runs the program in two processes, or in one with two threads. Returns the microseconds that it
 * prints.
 */
function timed(by: Launch | null, program: string, ...given: string[]): number {
  const launched = by ? [by.command, ...by.args, '-n', '2'] : [];
  const ours = [process.execPath, '--no-warnings', program, by ? 'mpi' : 'threads', ...given];
  const [first, ...rest] = [...launched, ...ours];
  const { stdout, stderr, status } = spawnSync(first!, rest, {
    encoding: 'utf8',
    env: { ...process.env, ...by?.env },
  });
  if (status !== 0) throw new Error(`${first} ended with ${status}:\n${stderr}`);
  return Number(stdout);
}

/**
 * Measures two learners of 10,934 parameters at the same time: without a group, each in a group of
 * one, and averaging after every tick.
 */
function averages(report: Report, quick: boolean): void {
  const ticks = String(quick ? 1000 : 4000);
  for (const by of [null, mpich, openMpi].filter(
    (each) => each === null || missingLaunch(each) === null,
  )) {
    const times = { none: [] as number[], one: [] as number[], group: [] as number[] };
    for (let round = 0; round < (quick ? 3 : 9); round++)
      for (const how of by ? (['none', 'one', 'group'] as const) : (['none', 'group'] as const))
        times[how].push(timed(by, learning, how, ticks));
    const where = by ? `two processes of ${by.name}` : 'two threads';
    const told = { metric: 'time per tick', unit: 'µs' };
    if (by)
      report({
        case: `${where}, each in a group of one; without a group`,
        ...told,
        ...beside(times.one, times.none),
      });
    report({
      case: `${where}, a mean behind each tick; without a group`,
      ...told,
      ...beside(times.group, times.none),
      ...(by && { goal: { most: median(times.none) + 40 } }),
    });
  }
}

export const run: Benchmark = async (report, { quick }) => {
  const there = goals.filter(([by]) => missingLaunch(by) === null);
  if (there.length === 0) {
    console.log(`ranks: ${missingLaunch(openMpi)}; ${missingLaunch(mpich)}`);
    return;
  }
  const exchanges = String(quick ? 500 : 2000);
  const threads: number[] = [];
  const processes = there.map(() => [] as number[]);
  for (let round = 0; round < (quick ? 3 : 9); round++) {
    threads.push(timed(null, exchanging, exchanges));
    for (const [at, [by]] of there.entries()) processes[at]!.push(timed(by, exchanging, exchanges));
  }
  for (const [at, [{ name }, goal]] of there.entries())
    report({
      case: `54 × 54 × 79, 8 edges, two processes of ${name}; two threads`,
      metric: 'time per exchange',
      ...beside(processes[at]!, threads),
      unit: 'µs',
      goal: { ratio: 1 / goal },
    });
  averages(report, quick);
};
