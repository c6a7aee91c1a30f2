/**
 * One run. It opens buffer, collectors, pipeline and learner, runs them for some time, and measures
 * them.
 */
import { setTimeout as wait } from 'node:timers/promises';
import {
  CollectorPool,
  openDevice,
  RateLimiter,
  ReplayPipeline,
  type Summary,
  TrajectoryBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { FRAME } from '../environments/catch.ts';
import type collector from './collector.ts';
import { PixelLearner } from './learner.ts';
import { fields, type Settings } from './settings.ts';

const COLLECTOR = new URL('./collector.js', import.meta.url);

const MAX_TIMER_MS = 2 ** 31 - 1;

export interface RunOptions {
  settings: Settings;
  device: string;
  seed: number;
  seconds: number;
}

/** Progress of a run. */
export interface Progress {
  seconds: number;
  /** number of steps written. `batches` is the number of batches drawn */
  steps: number;
  batches: number;
  /** mean return of the last hundred games of each worker. NaN before the first */
  meanReturn: number;
  loss: number;
  waitingFor: string;
}

export interface Result extends Progress {
  device: string;
  /** bytes of a batch that are copied to the device */
  batchBytes: number;
  /**
   * bytes of the buffer's shared memory. `stackedBytes` is what the buffer would need if it stored
   * stacks as batches contain them
   */
  bufferBytes: number;
  stackedBytes: number;
  stages: Summary['stages'];
  /** frames of a sampled stack, [stack, SIDE, SIDE] */
  frames: Uint8Array;
}

export class PixelRun {
  progress: () => Progress = () => ({
    seconds: 0,
    steps: 0,
    batches: 0,
    meanReturn: Number.NaN,
    loss: Number.NaN,
    waitingFor: '',
  });

  /** Runs for `seconds`, or until `interrupt` aborts. Rejects if a collector or an actor fails. */
  async run(
    { settings, device, seed, seconds }: RunOptions,
    interrupt: AbortSignal,
  ): Promise<Result> {
    const { lanes, capacity, stack, nStep, gamma, rows, workers } = settings;
    const limiter = openLimiter(settings);
    using buffer = TrajectoryBuffer.create({
      capacity,
      lanes,
      fields,
      ...(limiter ? { limiter } : {}),
    });
    const view = buffer.transitions({ nStep, gamma, stack: { obs: stack } });
    using opened = openDevice(device);
    using made = new Closing(new PixelLearner(opened, settings, seed));
    const learner = made.it;
    await learner.dqn.ready;
    const mailbox = WeightMailbox.create({ length: learner.dqn.parameters.size });
    await using pipeline = await ReplayPipeline.open({
      buffer,
      view,
      device,
      sampleCount: rows,
      baseSeed: seed,
      mailbox,
    });
    let [batches, batchBytes, loss] = [0, 0, Number.NaN];
    const captured = pipeline.capture(
      (batch, { stream, out }) => {
        batchBytes = Object.values(batch).reduce((sum, { bytes }) => sum + bytes, 0);
        learner.update(stream, batch, out);
      },
      { scalars: learner.dqn.scalars, weights: learner.dqn.parameters },
    );
    captured.on('tick', ({ scalars }) => {
      batches++;
      loss = Number.isNaN(loss) ? scalars.loss : loss + 0.02 * (scalars.loss - loss);
    });
    await using pool = await CollectorPool.open<typeof collector>({
      entry: COLLECTOR,
      buffer,
      mailbox,
      workers,
      seed,
      options: settings,
    });
    const begin = performance.now();
    this.progress = () => ({
      seconds: (performance.now() - begin) / 1000,
      steps: buffer.ptr,
      batches,
      loss,
      meanReturn: pool.statistics().meanReturn,
      waitingFor: pipeline.waitingFor(),
    });
    const end = new AbortController();
    const signal = AbortSignal.any([interrupt, end.signal]);
    const running = captured.run({ signal, publishEvery: 1 });
    const over = wait(Math.min(seconds * 1000, MAX_TIMER_MS), undefined, { signal }).catch(
      () => {},
    );
    try {
      await Promise.race([over, running, pool.done]);
    } finally {
      end.abort();
      await running.catch(() => {});
    }
    // Fixes the progress now, because collectors still add steps until they close.
    const progress = this.progress();
    this.progress = () => progress;
    const { stages } = await running;
    await pool.close();
    const isEmpty = buffer.drawable(view) === 0;
    return {
      ...progress,
      device: opened.name,
      batchBytes,
      bufferBytes: buffer.share().memory.byteLength,
      stackedBytes: (capacity * batchBytes) / rows,
      stages,
      frames: isEmpty ? new Uint8Array(stack * FRAME) : buffer.sample({ view, seed, count: 1 }).obs,
    };
  }
}

/** Makes an object that only has close() usable with `using`. */
class Closing<T extends { close(): void }> implements Disposable {
  readonly it: T;
  constructor(it: T) {
    this.it = it;
  }
  [Symbol.dispose](): void {
    this.it.close();
  }
}

function openLimiter({ samplesPerInsert, warmUp, rows, lanes }: Settings): RateLimiter | null {
  if (samplesPerInsert === 0) return null;
  return RateLimiter.create({
    samplesPerInsert,
    minSize: warmUp,
    // The minimum is a batch plus an add. Twice as much lets both sides work ahead instead of in
    // turns.
    errorBuffer: 2 * (rows + samplesPerInsert * lanes),
    gateAdd: true,
  });
}
