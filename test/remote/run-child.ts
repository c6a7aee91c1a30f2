/**
 * Runs a learner or a host as a process: `run-child.js learner|host '<options>'`. It answers what
 * the test asks.
 */

import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { Checkpoint, type ReplayBuffer } from '../../src/index.ts';
import { bufferOf, type Kind, leash, numbersIn } from './runs.ts';

export interface ChildOptions {
  readonly url: string;
  readonly run: string;
  readonly kind?: Kind;
  readonly name?: string;
  /** number of rows of each worker */
  readonly limit?: number;
  readonly options?: unknown;
  /** folder for the checkpoints of a learner of rows. The learner resumes the newest one */
  readonly folder?: string;
  /** milliseconds by which its wall clock is ahead. The message `ahead` makes the clock jump */
  readonly ahead?: number;
}

export interface ChildIsTold {
  readonly ask?: string;
  readonly limit?: number;
  readonly ahead?: number;
}

const [role, json] = process.argv.slice(2) as [string, string];
const {
  url,
  run,
  kind = 'rows',
  name,
  limit = 0,
  options,
  folder,
  ahead,
} = JSON.parse(json) as ChildOptions;
const say = (said: object) => void process.send?.(said);
const { entry, to } = leash();
to(limit);

try {
  const clock = ahead === undefined ? null : await import('./wall-clock.ts');
  clock?.jump(ahead as number);
  const buffer = bufferOf(kind);
  const restored = folder && (await Checkpoint.restore(folder, { buffer: buffer as ReplayBuffer }));
  const resume = restored ? restored.collectors : undefined;
  const made =
    role === 'learner'
      ? await RemoteCollectors.open({ url, run, buffer, options, resume })
      : await CollectorHost.open({ url, run, entry, name, flushMs: 1 });
  made.done.then(
    () => say({ ended: 'closed' }),
    (error) => say({ ended: { code: error.code, message: error.message } }),
  );
  const answers: Record<string, () => unknown> = {
    async save() {
      const parts = { buffer: buffer as ReplayBuffer, collectors: made as RemoteCollectors };
      await using checkpoint = await Checkpoint.open(folder as string, parts);
      return await checkpoint.save();
    },
    statistics: () => made.statistics(),
    numbers: () => numbersIn(buffer),
  };
  process.on('message', async ({ ask, limit: further, ahead: jumped }: ChildIsTold) => {
    if (further !== undefined) to(further);
    if (jumped !== undefined) clock?.jump(jumped);
    if (ask !== undefined) say({ [ask]: await answers[ask]!() });
  });
  say({ open: true });
} catch (error) {
  say({ ended: { message: (error as Error).message } });
  process.disconnect();
}
// The test's process has ended.
process.once('disconnect', () => process.exit());
