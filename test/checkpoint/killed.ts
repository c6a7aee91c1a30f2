/**
 * Runs a training of CartPole in lock-step, kills it during saves, and resumes it in another process.
 * Returns its result with that of a run that was not killed. Tests of the host and of every device
 * family use it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Checkpoint } from '../../src/index.ts';
import { withFastFolder } from '../rig/fast-folder.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const LOCK_STEP = 'dist/test/checkpoint/lock-step.js';
const FREE = 'dist/examples/cartpole-dqn/main.js';

export interface Ran {
  ticks: number;
  weights: string;
  steps: number;
  episodes: number;
  loss: number;
}

/**
 * Starts processes of lock-step.ts, or with `free` of the CartPole example. Arguments and
 * environment name the device.
 */
export class Example {
  readonly #main: string;
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;

  constructor(
    args: readonly string[],
    env: NodeJS.ProcessEnv = process.env,
    { free = false } = {},
  ) {
    this.#main = free ? FREE : LOCK_STEP;
    this.#args = [...(free ? ['--json', '--quiet', '--max-seconds', '600'] : []), ...args];
    this.#env = env;
  }

  start(
    args: readonly string[],
  ): ChildProcess & { ended: Promise<{ stdout: string; stderr: string }> } {
    const child = spawn(process.execPath, [this.#main, ...this.#args, ...args], {
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

  /** Runs the example to its end and returns its summary. */
  async run(...args: string[]): Promise<Ran> {
    const { stdout, stderr } = await this.start(args).ended;
    const last = stdout.trim().split('\n').at(-1);
    if (!last) throw new Error(stderr);
    return JSON.parse(last) as Ran;
  }

  /**
   * Runs the example with a save every 10 ms. Kills it as soon as a save past `tick` exists.
   * Returns the last saved tick.
   */
  async killedBehind(tick: number, folder: string): Promise<number> {
    const child = this.start(['--resume', folder, '--every', '10ms']);
    let saved = -1;
    while (saved < tick && child.exitCode === null) {
      await new Promise(setImmediate);
      // Until the first save is complete, the folder has no checkpoint.
      saved = (await Checkpoint.inspect(folder).catch(() => null))?.tick ?? -1;
    }
    child.kill('SIGKILL');
    const { stderr } = await child.ended;
    const contents = await Checkpoint.inspect(folder);
    if (contents === null) throw new Error(`nothing was saved: ${stderr}`);
    return contents.tick;
  }
}

/** Calls `use` with the path of a folder that does not exist yet. */
export const withFolder = <T>(use: (folder: string) => Promise<T>): Promise<T> =>
  withFastFolder((folder) => use(join(folder, 'run')));

/**
 * Kills the example `kills` times, each time some ticks later, then lets it finish. Also runs it
 * once without kills.
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
    // Runs both at once, because a process takes longer to start than to train.
    return Promise.all([
      example.run('--ticks', ticks, '--resume', folder),
      example.run('--ticks', ticks),
    ]);
  });
}
