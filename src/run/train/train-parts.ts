/** What a training is opened with, as its plan says. */

import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { RateLimiter } from '../../store/rate-limiter.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { TrainCollectorOptions } from './train-collector.ts';
import type { TrainPlan } from './train-options.ts';

export function limiterOf({
  learner,
  updatesPerStep,
  warmUp,
  sampleCount,
  workers,
  environments,
}: TrainPlan): RateLimiter {
  const samplesPerInsert = learner.batchSize * updatesPerStep;
  return RateLimiter.create({
    ...{ samplesPerInsert, minSize: warmUp, gateAdd: true },
    // At least a batch and an add; twice that lets both sides work ahead instead of in turns.
    errorBuffer: 2 * (sampleCount + samplesPerInsert * environments * workers),
  });
}

export function bufferOf(plan: TrainPlan, limiter: RateLimiter): ReplayBuffer | TrajectoryBuffer {
  const { capacity, spaces, ordered, workers, environments } = plan;
  const { size } = spaces.action;
  if (!ordered)
    return ReplayBuffer.offPolicy({
      capacity,
      obsDim: spaces.observation.size,
      actionDim: size,
      limiter,
    }) as ReplayBuffer;
  const { shape, dtype } = spaces.observation;
  const fields = {
    obs: { shape, observation: true, ...(dtype === 'uint8' ? { dtype } : {}) },
    actions: { shape: spaces.action.kind === 'discrete' ? [] : [size] },
  } as const;
  return TrajectoryBuffer.create({
    capacity,
    lanes: workers * environments,
    fields,
    limiter,
  }) as unknown as TrajectoryBuffer;
}

export const viewOf = (buffer: TrajectoryBuffer, { nStep, gamma, stack }: TrainPlan) =>
  buffer.transitions({ nStep, gamma, ...(stack > 1 ? { stack: { obs: stack } } : {}) });

export function collectorOptions(plan: TrainPlan): TrainCollectorOptions {
  const { environment, environmentOptions, environments, stack, learner, noise, explore } = plan;
  const { href } = environment;
  return { ...{ environment: href, environmentOptions, environments }, stack, policy: learner.policy, noise, explore };
}
