/**
 * Repeats a training run, each time with one failing driver call, and prints one JSON line for each
 * failure. It runs in a software driver's environment. The arguments are the number of occurrences
 * of each call that fail, and a placement.
 */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openParts } from '../../examples/cartpole-dqn/parts.ts';
import { defaults } from '../../examples/cartpole-dqn/settings.ts';
import { getSharedCaptureStream } from '../../src/entries/graph.ts';
import {
  type Device,
  DeviceError,
  openDevice,
  type Placement,
  prioritized,
  ReplayBuffer,
  ReplayPipeline,
} from '../../src/index.ts';
import { rows } from '../pipeline/fixture.ts';
import { stepsBuffer, VIEW } from '../pipeline/steps.ts';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, software } from './talk.ts';

export interface Outcome {
  call: string;
  nth: number;
  forever: boolean;
  /** milliseconds from the start until everything is closed */
  ms: number;
  /** whether the run reached the call that was to fail */
  fired: boolean;
  /** the driver call that the error names, or null if the run succeeded */
  named: string | null;
  /** the error's message, or null if the run succeeded */
  error: string | null;
  /** driver calls that process warnings named */
  warned: string[];
  /** what closing threw, or null */
  closing: string | null;
  /** number of additional live objects after the run, by kind */
  leaked: Record<string, number>;
}

/** The current step of the run, which is printed if the run hangs. */
let stage: string | null = null;
const [most, placement] = process.argv.slice(2) as [string, string];
const at = (
  placement === 'spread' ? [['pack'], ['submit'], ['poll'], ['replay']] : placement
) as Placement;
const driver = await software();
const trace = join(tmpdir(), `hotslot-every-call-${process.pid}.json`);
const TICKS = 6;

/** Returns the driver call of the innermost DeviceError, or null. */
function namedBy(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof DeviceError) return at.call;
  return null;
}

/**
 * Opens, captures, trains, publishes, ticks by hand and reads back. It closes everything even if a
 * step fails.
 */
async function train(closing: (error: unknown) => void): Promise<void> {
  const parts = await openParts({
    seed: 1,
    device: TESTED,
    placement: at,
    trace,
    settings: { ...defaults, capacity: 256, batchSize: 16, minibatches: 2, hidden: [8] },
    limited: false,
  });
  try {
    const { buffer, pipeline, learner } = parts;
    pipeline.on('warning', (text) => warnings.push(text));
    // The listener prevents an uncaught 'error' event. The pipeline's next call throws the same
    // error.
    pipeline.on('error', () => {});
    if (buffer instanceof ReplayBuffer) buffer.add(rows(64));
    stage = 'run';
    await pipeline.run({ ticks: TICKS, publishEvery: 2 });
    stage = 'large batch';
    const batch = await pipeline.sampleLargeBatch(TICKS, 32);
    await batch.obs?.toArray();
    pipeline.afterTick();
    const { device } = learner;
    recaptured(device);
    await learner.parameters.toArray();
    await byPriorities(closing);
    await keptRows(closing);
  } finally {
    stage += ', closing';
    try {
      await parts[Symbol.asyncDispose]();
    } catch (error) {
      closing(error);
    }
  }
}

/** Runs the same steps over trajectories, where priorities return from the device. */
async function byPriorities(closing: (error: unknown) => void): Promise<void> {
  const { buffer, writer } = stepsBuffer(20, 80);
  const sampler = prioritized();
  stage = 'opening, by priorities';
  const view = buffer.transitions(VIEW);
  const pipeline = await ReplayPipeline.open({
    buffer,
    view,
    sampler,
    device: TESTED,
    sampleCount: 8,
    depth: 2,
    placement: at,
    // The pipeline copies steps to the device when they are drawn.
    rows: 'device',
  });
  try {
    pipeline.on('warning', (text) => warnings.push(text));
    // The listener prevents an uncaught 'error' event. The pipeline's next call throws the same
    // error.
    pipeline.on('error', () => {});
    stage = 'running, by priorities';
    pipeline.capture((batch, { stream, priorities }) => stream.copy(priorities!, batch.rewards));
    await pipeline.run({ ticks: 3 });
    const batch = await pipeline.sampleLargeBatch(3, 8);
    await batch.pixels.toArray();
    pipeline.afterTick();
  } finally {
    stage += ', closing';
    writer.close();
    try {
      await pipeline.close();
    } catch (error) {
      closing(error);
    }
  }
  // The pipeline has released the sampler, even if it failed.
  buffer.updatePriorities([0], [1]);
}

/** Runs a pipeline whose rows stay on the device. Several copies carry them there. */
async function keptRows(closing: (error: unknown) => void): Promise<void> {
  const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 });
  buffer.add(rows(64));
  stage = 'opening, rows on the device';
  const of = {
    buffer,
    device: TESTED,
    sampleCount: 8,
    depth: 2,
    placement: at,
    rows: 'device',
  } as const;
  const pipeline = await ReplayPipeline.open({ ...of, deviceRing: { guard: 16, chunkBytes: 512 } });
  try {
    pipeline.on('warning', (text) => warnings.push(text));
    pipeline.on('error', () => {});
    stage = 'running, rows on the device';
    pipeline.capture((batch, { stream, out }) =>
      stream.copy(out.view({ shape: [1] }), batch.rewards.view({ shape: [1] })),
    );
    await pipeline.run({ ticks: 3 });
    buffer.add(rows(16));
    const batch = await pipeline.sampleLargeBatch(3, 8);
    await batch.obs.toArray();
    pipeline.afterTick();
  } finally {
    stage += ', closing';
    try {
      await pipeline.close();
    } catch (error) {
      closing(error);
    }
  }
}

/**
 * Captures a graph, updates it twice and replays it, as a training run does if it captures again.
 */
function recaptured(device: Device): void {
  using stream = device.createStream();
  using a = device.allocate({ shape: [4] });
  using b = device.allocate({ shape: [4], dtype: 'float64' });
  const capture = (work: () => void) => {
    stream.beginCapture();
    try {
      work();
    } catch (error) {
      try {
        stream.endCapture().close();
      } catch {
        // The first error has broken the capture.
      }
      throw error;
    }
    return stream.endCapture();
  };
  using one = capture(() => stream.fill(a, 1));
  using same = capture(() => stream.fill(a, 2));
  using other = capture(() => {
    stream.fill(b, 1.5);
    stream.fill(a.view({ shape: [2] }), 3);
  });
  using exec = one.instantiate();
  exec.update(same);
  exec.update(other);
  stream.replay(exec);
}

const threads = () => readdirSync('/proc/self/task').length;
const warnings: string[] = [];
process.on('warning', ({ message }) => warnings.push(message));

// Stays open, so that every count below includes the objects of the device itself.
const held = openDevice(TESTED);

/**
 * Empties the cache of closed memory, whose size depends on the timing of threads. A request for
 * too much memory makes the device free it.
 */
function trimmed(): void {
  try {
    held.allocate({ shape: [held.memoryInfo().total] }).close();
  } catch {
    // Expected: the request is for four times the memory of the device.
  }
}

function living(): Record<string, number> {
  getSharedCaptureStream(held);
  trimmed();
  const all: Record<string, number> = {
    ...counts(driver.live()),
    ...openHandles(),
    pins: pinnedHandles(),
  };
  delete all.pageable_copies;
  // The device caches staging memory for the next read or write, up to a limit.
  delete all.host_allocations;
  delete all.host_allocation_bytes;
  return all;
}

/** Returns the kinds of objects whose number has grown since `before`. */
function leaks(before: Record<string, number>): Record<string, number> {
  const more = Object.entries(living()).map(
    ([kind, count]) => [kind, count - (before[kind] ?? 0)] as const,
  );
  return Object.fromEntries(more.filter(([, count]) => count > 0));
}

/** Returns what each thread does now, from /proc. */
function doing(): string {
  const told = (thread: string, what: string) => {
    try {
      return readFileSync(`/proc/self/task/${thread}/${what}`, 'utf8').trim();
    } catch {
      return '?';
    }
  };
  return readdirSync('/proc/self/task')
    .map((thread) => ['comm', 'wchan', 'syscall'].map((what) => told(thread, what)).join(' '))
    .join('\n');
}

/**
 * Prints what begins, so that whoever stops a hanging worker knows where it hung. The worker prints
 * its threads and exits by itself after a minute, if its event loop still runs.
 */
function begins(what: string): void {
  process.stderr.write(`${what}\n`);
  clearTimeout(hangs);
  hangs = setTimeout(() => {
    process.stderr.write(`has not ended after a minute: ${stage}\n${doing()}\n`);
    process.exit(3);
  }, 60_000);
  hangs.unref();
}
let hangs: NodeJS.Timeout | undefined;

async function attempt(call: string, nth: number, forever: boolean): Promise<Outcome> {
  begins(`${call} ${nth}${forever ? ' for ever' : ''}`);
  const before = living();
  warnings.length = 0;
  const asked = counts(driver.calls())[call] ?? 0;
  const begin = performance.now();
  let error: unknown = null;
  let closing: string | null = null;
  driver.fail(`${call}:${nth}:999${forever ? ':forever' : ''}`);
  try {
    await train((thrown) => {
      closing = String(thrown);
    });
  } catch (thrown) {
    error = thrown;
  }
  const ms = Math.round(performance.now() - begin);
  driver.fail(null);
  const fired = (counts(driver.calls())[call] ?? 0) - asked >= nth;
  // A later call returns closed memory that was in use, so the loop below makes such calls.
  let leaked = leaks(before);
  // If a warning says that the driver kept an object, waiting longer does not help.
  const patience = warnings.length > 0 ? 200 : 3000;
  for (
    const end = performance.now() + patience;
    Object.keys(leaked).length > 0 && performance.now() < end;
  ) {
    held.createEvent().close();
    held.memoryInfo();
    await new Promise(setImmediate);
    leaked = leaks(before);
  }
  const warned = warnings.map((text) => /: (\w+) failed with/.exec(text)?.[1] ?? text);
  return {
    call,
    nth,
    forever,
    ms,
    fired,
    named: namedBy(error),
    error: error === null ? null : String((error as Error).message),
    warned,
    closing,
    leaked,
  };
}

// Two runs load everything and create every thread of the pool. The run after them counts only its
// own calls.
for (let i = 0; i < 2; i++) {
  begins('first runs');
  await train((error) => {
    throw error;
  });
}
// Creates every thread of Node's pool.
await Promise.all(Array.from({ length: 8 }, () => held.currentStream.synchronize()));
const before = counts(driver.calls());
await train((error) => {
  throw error;
});
const made = Object.entries(counts(driver.calls()))
  .map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
  .filter(([, count]) => count > 0);
const threadsBefore = threads();
begins('a run beside a busy stream');
// A run while another stream is busy. No call of the run may wait for that stream.
{
  using stream = held.createStream();
  using latch = new Latch(held);
  using behind = held.createEvent();
  latch.hold(stream);
  stream.record(behind);
  await train((error) => {
    throw error;
  });
}
process.stdout.write(
  `${JSON.stringify({ made: Object.fromEntries(made), waits: driver.waits() })}\n`,
);

/** Returns which occurrences of a call are to fail, counted from 1. */
function tried(count: number): number[] {
  const first = [...Array(Math.min(count, Number(most))).keys()].map((i) => i + 1);
  const later = Number(most) > 1 ? [Math.ceil(count / 2), Math.max(1, count - 1), count] : [count];
  const all = new Set([...first, ...later]);
  return [...all].sort((a, b) => a - b);
}
for (const [call, count] of made) {
  for (const nth of tried(count))
    process.stdout.write(`${JSON.stringify(await attempt(call, nth, false))}\n`);
  process.stdout.write(`${JSON.stringify(await attempt(call, 1, true))}\n`);
}
rmSync(trace, { force: true });
process.stdout.write(`${JSON.stringify({ threads: threads() - threadsBefore })}\n`);
