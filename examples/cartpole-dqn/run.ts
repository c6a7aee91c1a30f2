/**
 * Runs collectors and actors in their own threads. This thread only evaluates, shows progress, and
 * stops them.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { CollectorPool, ReplayBuffer } from '../../src/index.ts';
import type rowsOf from './collector.ts';
import type lanesOf from './lane-collector.ts';
import type { Ended, Training } from './training.ts';

const ROWS = new URL('./collector.js', import.meta.url);
const LANES = new URL('./lane-collector.js', import.meta.url);
/** Time between two evaluations of the newest weights. */
const LOOK_MS = 30;

export async function runConcurrently(training: Training, stop: AbortController): Promise<Ended> {
  const { parts, options } = training;
  const { buffer, mailbox, pipeline } = parts;
  const { seed, settings, maxTicks } = options;
  const workers = { mailbox, seed, options: settings, resume: training.restored?.collectors };
  await using pool =
    buffer instanceof ReplayBuffer
      ? await CollectorPool.open<typeof rowsOf>({ ...workers, entry: ROWS, buffer })
      : await CollectorPool.open<typeof lanesOf>({ ...workers, entry: LANES, buffer });
  training.collected = () => pool.statistics();
  training.curves?.listen({ collectors: pool });
  await training.keep(pool);
  if (training.firstTick >= maxTicks) return { solvedReturn: null, stages: null };
  training.monitor?.watch({ collectors: pool });
  const { signal } = stop;
  const running = pipeline.run({
    ticks: maxTicks - training.firstTick,
    signal,
    publishEvery: settings.publishEvery,
  });
  const watching = evaluateUntilSolved(training, signal);
  try {
    await Promise.race([watching, running, pool.done]);
  } finally {
    stop.abort();
    await Promise.allSettled([watching, running]);
  }
  await training.keepLast();
  const { stages } = await running;
  return { solvedReturn: await watching, stages };
}

/**
 * Returns the confirmed mean return as soon as published weights solve CartPole, or null if the
 * signal aborts before.
 */
async function evaluateUntilSolved(
  training: Training,
  signal: AbortSignal,
): Promise<number | null> {
  while (!signal.aborted) {
    training.anneal();
    const solved = await training.look();
    if (solved !== null) return solved;
    await wait(LOOK_MS);
  }
  return null;
}
