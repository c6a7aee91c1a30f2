/**
 * Starts a compiled program as several processes, with each MPI implementation that is installed.
 */
import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Launch {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Debian's package */
  readonly package: string;
}

// Lets tests run as root, and with more processes than cores.
const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
export const openMpi: Launch = {
  name: 'Open MPI',
  command: 'mpirun.openmpi',
  args: ['--oversubscribe'],
  env: asRoot,
  package: 'openmpi-bin',
};
export const overTcp: Launch = {
  ...openMpi,
  name: 'Open MPI over TCP',
  args: ['--oversubscribe', '--mca', 'btl', 'tcp,self'],
};
export const mpich: Launch = {
  name: 'MPICH',
  command: 'mpirun.mpich',
  args: [],
  env: {},
  package: 'mpich',
};

/** Returns why this launcher cannot be used here, or null. */
export function missingLaunch({ command, package: from }: Launch): string | null {
  return spawnSync(command, ['--version']).error
    ? `${command} is not installed (Debian: ${from})`
    : null;
}

/** Skips the test if one of the launchers cannot be used, and prints why. */
export function needLaunch(context: Mocha.Context, ...all: readonly Launch[]): void {
  const why = all.map(missingLaunch).find((each) => each !== null);
  if (why === undefined) return;
  console.log(`      left out: ${why}`);
  context.skip();
}

export interface Launched {
  code: number | null;
  stdout: string;
  stderr: string;
  /** the JSON lines of stdout, in any order of processes */
  told: { rank: number; [key: string]: unknown }[];
}

/**
 * Starts the processes and resolves when they have ended, after `ms` at the latest. `file` is
 * relative to the compiled tree. With `last`, the last process runs the file in that tree instead.
 */
export function launch(
  { command, args, env }: Launch,
  processes: number,
  file: string,
  given: readonly string[],
  { ms = 60_000, more = {}, last }: { ms?: number; more?: NodeJS.ProcessEnv; last?: URL } = {},
): Promise<Launched> {
  const tree = new URL('../../', import.meta.url);
  const of = (many: number, from: URL) => [
    '-n',
    String(many),
    process.execPath,
    '--no-warnings',
    fileURLToPath(new URL(file, from)),
    ...given,
  ];
  const own = last ? [...of(processes - 1, tree), ':', ...of(1, last)] : of(processes, tree);
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args, ...own], {
      env: { ...process.env, FORCE_COLOR: '0', ...env, ...more },
      timeout: ms,
    });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        said[name] += text;
      });
    child.on('error', reject);
    child.on('close', (code) => {
      const lines = said.stdout.split('\n').filter((line) => line.startsWith('{'));
      resolve({
        code,
        ...said,
        told: lines.map((line) => JSON.parse(line) as Launched['told'][number]),
      });
    });
  });
}
