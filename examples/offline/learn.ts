/** TD3+BC (Fujimoto and Gu, 2021) from a buffer to which nobody adds rows. */
import { type Evaluation, evaluate } from '../../src/entries/collect.ts';
import { Td3Learner, type Td3Policy } from '../../src/entries/learner.ts';
import { openDevice, ReplayPipeline } from '../../src/index.ts';
import Pendulum from '../environments/pendulum.ts';
import type { Transitions } from './data.ts';

export interface LearnOptions {
  steps: number;
  alpha: number;
  seed: number;
  device: string;
  signal: AbortSignal;
  /** receives a line of progress about twenty times */
  say(line: string): void;
}

const BATCH = 256;
/** Gradient steps of a tick. It must be a multiple of the period in which the actor is updated. */
const MINIBATCHES = 4;
/** Number of environments that an evaluation steps together. */
const TESTERS = 10;

/** Trains a policy and returns it, or null if the signal aborts before the end. */
export async function learn(buffer: Transitions, how: LearnOptions): Promise<Td3Policy | null> {
  const { steps, alpha, seed, signal } = how;
  using device = openDevice(how.device);
  using learner = new Td3Learner(device, {
    obsDim: 3,
    actionDim: 1,
    actionLow: -2,
    actionHigh: 2,
    seed,
    actorHidden: [64, 64],
    criticHidden: [64, 64],
    batchSize: BATCH,
    gamma: 0.98,
    // The paper's rates are for the million rows of D4RL. This file and these networks are small,
    // so the rates are higher.
    actorOptimizer: { learningRate: 1e-3 },
    criticOptimizer: { learningRate: 1e-3 },
    behaviorCloning: { alpha },
    // The paper's form (x − mean) / (deviation + 1e-3), with statistics of the rows that were
    // drawn. They are published with the weights.
    normalizer: { form: 'deviation', epsilon: 1e-3 },
  });
  await learner.ready;
  await using pipeline = await ReplayPipeline.open({
    buffer,
    device: how.device,
    sampleCount: BATCH * MINIBATCHES,
    baseSeed: seed,
  });
  pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
    scalars: learner.scalars,
  });
  const ticks = Math.ceil(steps / MINIBATCHES);
  const often = Math.ceil(ticks / 20);
  pipeline.on('tick', ({ tickId, scalars }) => {
    if ((tickId + 1) % often !== 0) return;
    const numbers = Object.entries(scalars).map(([name, value]) => `${name} ${value.toFixed(3)}`);
    how.say(
      `${((tickId + 1) * MINIBATCHES).toLocaleString('en-US')} gradient steps  ${numbers.join('  ')}`,
    );
  });
  await pipeline.run({ ticks, signal });
  if (signal.aborted) return null;
  const weights = await learner.published.toArray();
  return learner.policy().load(weights) as Td3Policy;
}

/**
 * Evaluates a policy in the environment. No environment is stepped before this, unless the file had
 * to be made.
 */
export async function judge(
  policy: Td3Policy,
  how: { episodes: number; seed: number; signal: AbortSignal },
): Promise<Evaluation> {
  return evaluate({
    environments: Array.from({ length: TESTERS }, () => new Pendulum()),
    policy,
    ...how,
  });
}
