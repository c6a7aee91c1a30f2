/** An exchange between two processes of an MPI launcher, beside the same between two threads of one. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Benchmark, beside } from './harness.ts';

const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
const ways: Readonly<Record<string, { command: readonly string[]; goal: number }>> = {
  'Open MPI': { command: ['mpirun.openmpi', '--oversubscribe', '-n', '2'], goal: 1.5 },
  'Open MPI over TCP': {
    command: ['mpirun.openmpi', '--oversubscribe', '--mca', 'btl', 'tcp,self', '-n', '2'],
    goal: 4,
  },
  MPICH: { command: ['mpirun.mpich', '-n', '2'], goal: 1.5 },
};
const program = fileURLToPath(new URL('./ranks-process.js', import.meta.url));

function timed(command: readonly string[], how: string, exchanges: number): number {
  const [first, ...rest] = [...command, process.execPath, '--no-warnings', program, how, String(exchanges)];
  const { stdout, stderr, status } = spawnSync(first!, rest, { encoding: 'utf8', env: { ...process.env, ...asRoot } });
  if (status !== 0) throw new Error(`${command[0] ?? 'node'} ended with ${status}:\n${stderr}`);
  return Number(stdout);
}

export const run: Benchmark = async (report, { quick }) => {
  const there = Object.entries(ways).filter(([, { command }]) => !spawnSync(command[0]!, ['--version']).error);
  if (there.length === 0) {
    console.log('ranks: neither mpirun.openmpi nor mpirun.mpich is installed (Debian: openmpi-bin, mpich)');
    return;
  }
  const exchanges = quick ? 500 : 2000;
  const threads: number[] = [];
  const processes: Record<string, number[]> = {};
  for (let round = 0; round < (quick ? 3 : 9); round++) {
    threads.push(timed([], 'threads', exchanges));
    for (const [name, { command }] of there) {
      processes[name] ??= [];
      processes[name].push(timed(command, 'mpi', exchanges));
    }
  }
  for (const [name, { goal }] of there)
    report({
      case: `54 × 54 × 79, 8 edges, two processes of ${name} (goal: at most ${goal} × the time); two threads`,
      metric: 'time per exchange',
      ...beside(processes[name]!, threads),
      unit: 'µs',
    });
};
