/** What a training is made of: buffer, limiter, mailbox, learner, and the pipeline with its captured graph. */
import {
  type OffPolicyFields,
  openDevice,
  type Placement,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  WeightMailbox,
} from '../../src/index.ts';
import { DqnLearner } from '../../src/learner/index.ts';
import { ACTIONS, OBS_DIM } from './cartpole.ts';
import type { Settings } from './settings.ts';

export interface PartsOptions {
  seed: number;
  device: string;
  placement: Placement;
  /** trace file, if one is wanted */
  trace: string | undefined;
  settings: Settings;
  /** whether a limiter keeps collecting and learning in proportion; a lock-step run does so itself */
  limited: boolean;
}

export interface Parts extends AsyncDisposable {
  buffer: ReplayBuffer<OffPolicyFields>;
  mailbox: WeightMailbox;
  learner: DqnLearner;
  pipeline: ReplayPipeline<OffPolicyFields, DqnLearner['scalars'][number]>;
}

/** Opens everything and captures the learner's update: K minibatches of one hot batch, once per slot. */
export async function openParts({ seed, device, placement, trace, settings, limited }: PartsOptions): Promise<Parts> {
  const { batchSize, minibatches, hidden, learningRate, gamma, tau, maxGradNorm } = settings;
  const sampleCount = batchSize * minibatches;
  const limiter = limited ? openLimiter(settings, sampleCount) : undefined;
  const buffer = ReplayBuffer.offPolicy({
    capacity: settings.capacity,
    obsDim: OBS_DIM,
    actionDim: 1,
    ...(limiter ? { limiter } : {}),
  });
  const network = { obsDim: OBS_DIM, actions: ACTIONS, hidden };
  const opened = openDevice(device);
  const learner = new DqnLearner(opened, {
    ...network,
    batchSize,
    learningRate,
    gamma,
    tau,
    maxGradNorm,
    seed,
  });
  try {
    await learner.ready;
    const mailbox = WeightMailbox.create({ length: learner.parameters.size });
    const pipeline = await ReplayPipeline.open({
      buffer,
      device,
      sampleCount,
      // Every run of a seed draws its own rows; ticks count up from here.
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
    try {
      const captured = pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
        scalars: learner.scalars,
        weights: learner.parameters,
      });
      return { buffer, mailbox, learner, pipeline: captured, [Symbol.asyncDispose]: close };
    } catch (error) {
      await pipeline.close();
      throw error;
    }
  } catch (error) {
    learner.close();
    opened.close();
    throw error;
  }
}

function openLimiter({ samplesPerInsert, warmUp, environments }: Settings, sampleCount: number): RateLimiter {
  return RateLimiter.create({
    samplesPerInsert,
    minSize: warmUp,
    // At least a batch and an add; twice that lets both sides work ahead instead of in turns.
    errorBuffer: 2 * (sampleCount + samplesPerInsert * environments),
    gateAdd: true,
  });
}
