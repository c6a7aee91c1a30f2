/** TD3+BC from a buffer that nobody adds to (Fujimoto and Gu, 2021). */
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
  /** told about twenty times how far it is */
  say(line: string): void;
}

const BATCH = 256;
/** Gradient steps of a tick: a multiple of the cycle in which the actor moves. */
const MINIBATCHES = 4;
/** Environments that are evaluated side by side. */
const TESTERS = 10;

/** What was learned; null when the signal came first. */
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
    // The paper's rates are for D4RL's million rows; these files are small, and so are the
    // networks.
    actorOptimizer: { learningRate: 1e-3 },
    criticOptimizer: { learningRate: 1e-3 },
    behaviorCloning: { alpha },
    // The paper's (x − mean) / (deviation + 1e-3), of the rows that were drawn: it is published
    // with the weights.
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

/** What a policy is worth in the environment: the first time that one is stepped. */
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
