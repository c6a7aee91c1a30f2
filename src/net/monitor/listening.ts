/**
 * Turns the reports of pipelines and collector pools into values of curves. A tick costs one read
 * of the clock, and most ticks are not written.
 */
import { checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Tick } from '../../engine/pipeline/history.ts';
import type { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { CollectorPool } from '../../run/collectors/collector-pool.ts';
import type { RunningCollectors } from '../../run/collectors/pool-pause.ts';
import { watchedCollectors } from '../../run/collectors/watched.ts';
import type { Put } from './events.ts';

export interface ListenOptions {
  /** pipeline whose ticks are written */
  pipeline?: ReplayPipeline;
  /** a CollectorPool or RemoteCollectors, whose episodes and steps are written */
  collectors?: RunningCollectors;
  /** minimum seconds between two written ticks, default 0.1. 0 writes every tick */
  every?: number;
}

/** Milliseconds between two reports of a speed. */
const SPEED_MS = 1000;
/**
 * Minimum milliseconds over which the last speed is measured, when the listening ends. If fewer
 * have passed since the previous report, this speed is not reported. The limit does not apply if no
 * speed was reported before.
 */
const MIN_MS = 500;
/**
 * Minimum milliseconds between two reads of the pool's step count. An episode is written at the
 * step count that was read last.
 */
const STEPS_MS = 20;

/** Throws if the options are wrong. */
export function checkListen(what: ListenOptions): void {
  checkKeys('listen', what, ['pipeline', 'collectors', 'every']);
  const { pipeline, collectors, every = 0.1 } = what;
  if (pipeline === undefined && collectors === undefined)
    throw typeError('listen takes { pipeline, collectors }, at least one of them');
  if (pipeline !== undefined && typeof pipeline?.ticks !== 'function')
    throw typeError(`listen: pipeline must be a ReplayPipeline, got ${describeValue(pipeline)}`);
  if (collectors !== undefined && !watchedCollectors.has(collectors))
    throw typeError(
      `listen: collectors must be a CollectorPool or RemoteCollectors, got ${describeValue(collectors)}`,
    );
  if (typeof every !== 'number')
    throw typeError(`listen: every must be a number of seconds, got ${describeValue(every)}`);
  if (!(every >= 0 && every < 2 ** 31))
    throw rangeError(`listen: every must be seconds, 0 or more, got ${every}`);
}

/** Passes values to `put` until the returned function is called. */
export function listenTo(
  { pipeline, collectors, every = 0.1 }: ListenOptions,
  put: Put,
): () => void {
  const ends = [
    ...(pipeline ? [listenToTicks(pipeline, every * 1000, put)] : []),
    ...(collectors ? [listenToCollectors(collectors, put)] : []),
  ];
  return () => {
    for (const end of ends) end();
  };
}

function listenToTicks(pipeline: ReplayPipeline, everyMs: number, put: Put): () => void {
  let ticks = 0;
  let last: Tick | null = null;
  let written: Tick | null = null;
  let due = Number.NEGATIVE_INFINITY;
  const write = (tick: Tick) => {
    written = tick;
    for (const name in tick.scalars)
      put(`train/${name}`, tick.scalars[name] as number, tick.tickId);
  };
  const onTick = (tick: Tick) => {
    ticks++;
    last = tick;
    const now = performance.now();
    if (now < due) return;
    due = now + everyMs;
    write(tick);
  };
  const speed = trackSpeed(
    'speed/updates_per_second',
    () => ({ count: ticks, step: last?.tickId ?? 0 }),
    put,
  );
  let over = false;
  const end = () => {
    if (over) return;
    over = true;
    pipeline.off('tick', onTick).off('close', end);
    // Writes the last tick, so that the curves end with the training.
    if (last !== null && last !== written) write(last);
    speed();
  };
  pipeline.on('tick', onTick).on('close', end);
  return end;
}

function listenToCollectors(collectors: RunningCollectors, put: Put): () => void {
  const isPool = typeof (collectors as Partial<CollectorPool>).episodes === 'function';
  return isPool
    ? listenToEpisodes(collectors as CollectorPool, put)
    : listenToRemote(collectors, put);
}

/**
 * Reports the speeds, and the mean return about once a second if episodes have ended. Other
 * machines do not report single episodes.
 */
function listenToRemote(collectors: RunningCollectors, put: Put): () => void {
  const rows = () => watchedCollectors.get(collectors)?.remote()?.rows ?? 0;
  const { steps: first, episodes } = collectors.statistics();
  const firstRows = rows();
  let before = episodes;
  const report = () => {
    const { steps, episodes, meanReturn } = collectors.statistics();
    if (episodes > before && !Number.isNaN(meanReturn)) put('episodes/return', meanReturn, steps);
    before = episodes;
  };
  const timer = setInterval(report, SPEED_MS).unref();
  const ends = [
    trackSpeed(
      'speed/steps_per_second',
      () => {
        const { steps: step } = collectors.statistics();
        return { count: step - first, step };
      },
      put,
    ),
    trackSpeed(
      'speed/rows_per_second',
      () => ({ count: rows() - firstRows, step: collectors.statistics().steps }),
      put,
    ),
  ];
  let over = false;
  return () => {
    if (over) return;
    over = true;
    clearInterval(timer);
    report();
    for (const each of ends) each();
  };
}

function listenToEpisodes(pool: CollectorPool, put: Put): () => void {
  const controller = new AbortController();
  const first = pool.statistics().steps;
  let [steps, read] = [first, Number.NEGATIVE_INFINITY];
  const stepsNow = () => {
    const now = performance.now();
    if (now - read >= STEPS_MS) [steps, read] = [pool.statistics().steps, now];
    return steps;
  };
  const speed = trackSpeed(
    'speed/steps_per_second',
    () => {
      const { steps: step } = pool.statistics();
      return { count: step - first, step };
    },
    put,
  );
  const reading = async () => {
    for await (const { return: value, length } of pool.episodes({ signal: controller.signal })) {
      if (controller.signal.aborted) break;
      const step = stepsNow();
      put('episodes/return', value, step);
      if (length !== null) put('episodes/length', length, step);
    }
  };
  // Ignores errors, because the pool's `done` reports a collector's failure. The abort, or the
  // close of the pool, may also end this loop with an error.
  reading()
    .catch(() => {})
    .finally(speed);
  return () => {
    controller.abort();
    speed();
  };
}

/**
 * Reports how fast a count grows, about once a second and only while it grows. Stops when the
 * returned function is called.
 */
function trackSpeed(
  tag: string,
  progress: () => { count: number; step: number },
  put: Put,
): () => void {
  let [since, before, reported] = [performance.now(), 0, false];
  const report = (leastMs: number) => {
    const now = performance.now();
    const { count, step } = progress();
    if (now - since < leastMs) return;
    if (count > before) {
      put(tag, ((count - before) * 1000) / Math.max(now - since, 1), step);
      reported = true;
    }
    [since, before] = [now, count];
  };
  const timer = setInterval(report, SPEED_MS, 0).unref();
  let over = false;
  return () => {
    if (over) return;
    over = true;
    clearInterval(timer);
    report(reported ? MIN_MS : 0);
  };
}
