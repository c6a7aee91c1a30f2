/** An exchange between two processes of an MPI launcher, beside the same between two threads of one. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Launch, missingLaunch, mpich, openMpi, overTcp } from '../test/ranks/launch.ts';
import { type Benchmark, beside } from './harness.ts';

/** At most so many times as long as between threads. */
const goals: readonly (readonly [Launch, number])[] = [
  [openMpi, 1.5],
  [overTcp, 4],
  [mpich, 1.5],
];
const program = fileURLToPath(new URL('./ranks-process.js', import.meta.url));

function timed(by: Launch | null, exchanges: number): number {
  const launched = by ? [by.command, ...by.args, '-n', '2'] : [];
  const ours = [process.execPath, '--no-warnings', program, by ? 'mpi' : 'threads', String(exchanges)];
  const [first, ...rest] = [...launched, ...ours];
  const { stdout, stderr, status } = spawnSync(first!, rest, { encoding: 'utf8', env: { ...process.env, ...by?.env } });
  if (status !== 0) throw new Error(`${first} ended with ${status}:\n${stderr}`);
  return Number(stdout);
}

export const run: Benchmark = async (report, { quick }) => {
  const there = goals.filter(([by]) => missingLaunch(by) === null);
  if (there.length === 0) {
    console.log(`ranks: ${missingLaunch(openMpi)}; ${missingLaunch(mpich)}`);
    return;
  }
  const exchanges = quick ? 500 : 2000;
  const threads: number[] = [];
  const processes = there.map(() => [] as number[]);
  for (let round = 0; round < (quick ? 3 : 9); round++) {
    threads.push(timed(null, exchanges));
    for (const [at, [by]] of there.entries()) processes[at]!.push(timed(by, exchanges));
  }
  for (const [at, [{ name }, goal]] of there.entries())
    report({
      case: `54 × 54 × 79, 8 edges, two processes of ${name} (goal: at most ${goal} × the time); two threads`,
      metric: 'time per exchange',
      ...beside(processes[at]!, threads),
      unit: 'µs',
    });
};
