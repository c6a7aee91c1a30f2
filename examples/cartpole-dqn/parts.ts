/**
 * The objects of a training: buffer, limiter, mailbox, learner, and the pipeline with its captured
 * graph.
 */

import { DqnLearner } from '../../src/entries/learner.ts';
import {
  type Fields,
  type OffPolicyFields,
  openDevice,
  type Placement,
  prioritized,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  TrajectoryBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { ACTIONS, OBS_DIM } from './cartpole.ts';
import { fields } from './lane-collector.ts';
import { needsOrder, type Settings } from './settings.ts';

export interface PartsOptions {
  seed: number;
  device: string;
  placement: Placement;
  /** file for a trace, or undefined for no trace */
  trace: string | undefined;
  settings: Settings;
  /**
   * whether a limiter balances collecting and learning. A thread that does both in
   * turns needs none
   */
  limited: boolean;
}

type Rows = ReplayBuffer<OffPolicyFields>;
type Trajectories = TrajectoryBuffer<typeof fields>;

export interface Parts extends AsyncDisposable {
  /** whole transitions, or the steps of each pole in order */
  buffer: Rows | Trajectories;
  mailbox: WeightMailbox;
  learner: DqnLearner;
  pipeline: ReplayPipeline<Fields, DqnLearner['scalars'][number]>;
}

/**
 * Opens all parts and captures the learner's update: K minibatches of one batch, once for each
 * slot.
 */
export async function openParts({
  seed,
  device,
  placement,
  trace,
  settings,
  limited,
}: PartsOptions): Promise<Parts> {
  const { batchSize, minibatches, hidden, learningRate, gamma, tau, maxGradNorm } = settings;
  const sampleCount = batchSize * minibatches;
  const buffer = openBuffer(settings, limited ? openLimiter(settings, sampleCount) : undefined);
  const network = { obsDim: OBS_DIM, actions: ACTIONS, hidden };
  const opened = openDevice(device);
  const learner = new DqnLearner(opened, {
    ...network,
    batchSize,
    learningRate,
    // The view computes discounts with gamma, so its batches have them and the learner needs no
    // gamma.
    ...(needsOrder(settings) ? {} : { gamma }),
    tau,
    maxGradNorm,
    seed,
  });
  try {
    await learner.ready;
    const mailbox = WeightMailbox.create({ length: learner.parameters.size });
    const pipeline = await openPipeline(buffer, learner, settings, {
      device,
      sampleCount,
      // The seed of a tick is baseSeed + tickId. Runs with different seeds draw different rows.
      baseSeed: (seed * 1_000_003) % 2 ** 31,
      placement,
      mailbox,
      trace: trace === undefined ? false : { file: trace },
    });
    const close = async () => {
      await pipeline.close();
      learner.close();
      opened.close();
      buffer.close();
    };
    return { buffer, mailbox, learner, pipeline, [Symbol.asyncDispose]: close };
  } catch (error) {
    learner.close();
    opened.close();
    throw error;
  }
}

function openBuffer(settings: Settings, limiter: RateLimiter | undefined): Rows | Trajectories {
  const { capacity, environments: lanes } = settings;
  const limited = limiter ? { limiter } : {};
  if (!needsOrder(settings))
    return ReplayBuffer.offPolicy({ capacity, obsDim: OBS_DIM, actionDim: 1, ...limited });
  // Every pole has a lane, and all lanes have the same length.
  return TrajectoryBuffer.create({
    capacity: capacity - (capacity % lanes),
    lanes,
    fields,
    ...limited,
  });
}

type Common = Omit<
  Parameters<typeof ReplayPipeline.open>[0],
  'buffer' | 'view' | 'sampler' | 'beta'
>;

async function openPipeline(
  buffer: Rows | Trajectories,
  learner: DqnLearner,
  { replay, nStep, gamma, alpha, firstBeta }: Settings,
  common: Common,
): Promise<Parts['pipeline']> {
  const captured = { scalars: learner.scalars, weights: learner.parameters };
  if (buffer instanceof ReplayBuffer) {
    const pipeline = await ReplayPipeline.open({ ...common, buffer });
    return orClosed(pipeline, () =>
      pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), captured),
    );
  }
  const view = buffer.transitions({ nStep, gamma });
  const drawn =
    replay === 'prioritized' ? { sampler: prioritized({ alpha }), beta: firstBeta } : {};
  const pipeline = await ReplayPipeline.open({ ...common, ...drawn, buffer, view });
  // A batch drawn by priority has weights and priorities. The learner reads the weights and writes
  // the priorities if the batch has them.
  return orClosed(pipeline, () =>
    pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), captured),
  );
}

async function orClosed<T>(pipeline: AsyncDisposable, capture: () => T): Promise<T> {
  try {
    return capture();
  } catch (error) {
    await pipeline[Symbol.asyncDispose]();
    throw error;
  }
}

function openLimiter(
  { samplesPerInsert, warmUp, environments }: Settings,
  sampleCount: number,
): RateLimiter {
  return RateLimiter.create({
    samplesPerInsert,
    minSize: warmUp,
    // The minimum is a batch plus an add. Twice as much lets both sides work ahead instead of in
    // turns.
    errorBuffer: 2 * (sampleCount + samplesPerInsert * environments),
    gateAdd: true,
  });
}
