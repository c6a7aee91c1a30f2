/**
 * The proof of resuming, as a process: a lock-step run that is killed in the midst of saving itself
 * again and again, and goes on in another process, ends with the bits of one that nobody disturbed.
 * For the host, and for every family's driver.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Checkpoint } from '../../src/index.ts';
import { withFastFolder } from '../rig/fast-folder.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const MAIN = 'dist/examples/cartpole-dqn/main.js';

export interface Ran {
  ticks: number;
  weights: string;
  steps: number;
  episodes: number;
  loss: number;
}

/**
 * How a process of the example is started: arguments, and the environment in which it finds its
 * device. `free`: not in turns.
 */
export class Example {
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;

  constructor(
    args: readonly string[],
    env: NodeJS.ProcessEnv = process.env,
    { free = false } = {},
  ) {
    this.#args = [...(free ? [] : ['--lock-step']), '--json', '--quiet', ...args];
    this.#env = env;
  }

  start(
    args: readonly string[],
  ): ChildProcess & { ended: Promise<{ stdout: string; stderr: string }> } {
    const child = spawn(process.execPath, [MAIN, ...this.#args, ...args], {
      cwd: root,
      env: this.#env,
    });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (text: Buffer) => {
        said[name] += text.toString();
      });
    const ended = new Promise<typeof said>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', () => resolve(said));
    });
    return Object.assign(child, { ended });
  }

  /** To its end; its summary. */
  async run(...args: string[]): Promise<Ran> {
    const { stdout, stderr } = await this.start(args).ended;
    const last = stdout.trim().split('\n').at(-1);
    if (!last) throw new Error(stderr);
    return JSON.parse(last) as Ran;
  }

  /**
   * Saves every few milliseconds, and is killed as soon as a save past `tick` is there; the last
   * tick that is saved.
   */
  async killedBehind(tick: number, folder: string): Promise<number> {
    const child = this.start(['--resume', folder, '--every', '10ms', '--max-seconds', '600']);
    let saved = -1;
    while (saved < tick && child.exitCode === null) {
      await new Promise(setImmediate);
      // While the first one is on its way there is none.
      saved = (await Checkpoint.inspect(folder).catch(() => null))?.tick ?? -1;
    }
    child.kill('SIGKILL');
    const { stderr } = await child.ended;
    const contents = await Checkpoint.inspect(folder);
    if (contents === null) throw new Error(`nothing was saved: ${stderr}`);
    return contents.tick;
  }
}

/** The path of a folder that is not there yet. */
export const withFolder = <T>(use: (folder: string) => Promise<T>): Promise<T> =>
  withFastFolder((folder) => use(join(folder, 'run')));

/**
 * Killed `kills` times, each some ticks later, and then on to its end, beside a run that was left
 * alone.
 */
export async function killedAndWhole(
  example: Example,
  kills: number,
  more = 200,
): Promise<[killed: Ran, whole: Ran]> {
  return withFolder(async (folder) => {
    let saved = -1;
    for (let kill = 0; kill < kills; kill++)
      saved = await example.killedBehind(saved + more / 2, folder);
    const ticks = String(saved + 1 + more);
    // Beside each other: a process takes longer to begin than to train.
    return Promise.all([
      example.run('--ticks', ticks, '--resume', folder),
      example.run('--ticks', ticks),
    ]);
  });
}
