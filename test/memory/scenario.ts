/**
 * Runs the scenario that the first argument names, with one probe, and prints what it has seen as
 * JSON.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import { nativeManaged } from '../../src/device/native.ts';
import {
  compilationError,
  compilationState,
  compileAllocator,
  createUnifiedMempool,
  UnifiedMemoryCompileTimeoutError,
  UnifiedMemoryUnsupportedError,
} from '../../src/entries/memory.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { givenTask, perform, TestThread } from '../rig/test-thread.ts';
import { until } from '../rig/until.ts';

const folder = isMainThread ? mkdtempSync(join(tmpdir(), 'hotslot-probe-')) : '';
const probesFile = join(folder, 'probes');
const warnings: string[] = [];

/** Makes later probes write their process ids and fail in this way. */
function trouble(kind: 'none' | 'hang' | 'hang later' | 'crash' | 'throw'): void {
  process.env.NODE_OPTIONS = `--import=${new URL('./probe-trouble.js', import.meta.url)}`;
  process.env.HOTSLOT_TEST_PROBES = probesFile;
  process.env.HOTSLOT_TEST_TROUBLE = kind;
}
const probes = () =>
  existsSync(probesFile)
    ? readFileSync(probesFile, 'utf8').trim().split('\n').filter(Boolean).map(Number)
    : [];
/** Returns whether the process is gone, or has ended and is a zombie. */
function dead(pid: number): boolean {
  try {
    return /^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
}

type Task = 'look' | 'compile' | 'compile at once' | 'pool';

/** Returns what this thread knows about the compilation. */
function look() {
  const error = compilationError();
  let refused: Error | undefined;
  try {
    createUnifiedMempool('host:0').close();
  } catch (e) {
    refused = e as Error;
  }
  return {
    state: compilationState(),
    error: error?.name ?? null,
    timeout:
      error instanceof UnifiedMemoryCompileTimeoutError &&
      error instanceof UnifiedMemoryUnsupportedError,
    message: error?.message ?? '',
    refused:
      refused instanceof UnifiedMemoryUnsupportedError
        ? [refused.name, (refused as { code?: string }).code]
        : [],
    text: refused?.message ?? '',
    causeIsError: refused?.cause === error,
  };
}

const thread = (task: Task) => new TestThread<Task>(new URL(import.meta.url), task);

/** The tasks of a thread. It sends the result. */
const tasks: Record<Task, () => unknown> = {
  look,
  compile: () => compileAllocator({ timeoutMs: 20_000 }),
  'compile at once': () => compileAllocator({ timeoutMs: 1 }),
  pool: () => {
    using pool = createUnifiedMempool('host:0');
    return [pool.device.name, compilationState()];
  },
};

const told = (call: () => unknown) => {
  const { code, message } = refusal(call);
  return { code, message };
};

const scenarios: Record<string, () => Promise<unknown>> = {
  async succeeds() {
    const before = [compilationState(), compilationError()];
    const state = await compileAllocator();
    return { before, state, here: look(), there: await thread('look').next() };
  },

  async 'times out in a worker'() {
    const state = await thread('compile at once').next();
    return {
      state,
      again: await compileAllocator(),
      here: look(),
      there: await thread('look').next(),
    };
  },

  async 'kills what hangs'() {
    trouble('hang');
    const state = await compileAllocator({ timeoutMs: 3000 });
    const [pid] = probes();
    await until('the probe is dead', () => dead(pid as number));
    return { state, probes: probes().length, message: compilationError()?.message };
  },

  async 'says what hangs'() {
    trouble('hang later');
    return {
      state: await compileAllocator({ timeoutMs: 3000 }),
      message: compilationError()?.message,
    };
  },

  async 'all at once'() {
    trouble('none');
    const threads = [thread('compile'), thread('compile'), thread('pool')];
    const states = [compileAllocator(), compileAllocator(), ...threads.map((each) => each.next())];
    return { states: await Promise.all(states), probes: probes().length };
  },

  async 'a thread dies with its probe'() {
    trouble('hang');
    const first = thread('compile');
    await until('it probes', () => probes().length === 1);
    const busy = told(() => createUnifiedMempool('host:0'));
    await first.terminate();
    await until('the probe is dead', () => dead(probes()[0] as number));
    const between = compilationState();
    trouble('none');
    return { busy, between, state: await compileAllocator(), probes: probes().length };
  },

  async 'waits in a worker for another thread'() {
    trouble('hang');
    const first = thread('compile');
    await until('it probes', () => probes().length === 1);
    trouble('none');
    const second = thread('pool');
    await first.terminate();
    return { answer: await second.next(), probes: probes().length };
  },

  async 'asks itself while it probes'() {
    const promise = compileAllocator();
    const controller = new AbortController();
    const impatient = rejection(compileAllocator({ signal: controller.signal }));
    controller.abort(new Error('no time'));
    const aborted = (await impatient).message;
    return { busy: told(() => createUnifiedMempool('host:0')), aborted, state: await promise };
  },

  async 'probes by itself when a pool is made'() {
    trouble('none');
    using pool = createUnifiedMempool('host:0');
    return {
      device: pool.device.name,
      state: compilationState(),
      again: await compileAllocator(),
      probes: probes().length,
    };
  },

  async crashes() {
    trouble('crash');
    return { state: await compileAllocator(), here: look(), there: await thread('look').next() };
  },

  async throws() {
    trouble('throw');
    return { state: await compileAllocator(), here: look() };
  },

  async 'throws when a pool is made'() {
    trouble('throw');
    return { here: look(), state: compilationState() };
  },

  async 'cannot start'() {
    process.execPath = '/no/such/node';
    return { state: await compileAllocator(), here: look() };
  },

  async 'a family failed'() {
    nativeManaged().claimProbe();
    nativeManaged().publishProbe(
      JSON.stringify({ error: null, reasons: { host: 'the test says so', cuda: 'no driver' } }),
    );
    return { here: look(), gpu: told(() => createUnifiedMempool('cuda:0')) };
  },
};

if (isMainThread) {
  process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`));
  const seen = await scenarios[process.argv[2] as string]?.();
  await turn();
  console.log(JSON.stringify({ seen, warnings }));
  rmSync(folder, { recursive: true });
} else {
  await perform(tasks[givenTask<Task>()]);
}
