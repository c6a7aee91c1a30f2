/** One of the learners, with its own environments, buffer, network and pipeline. */

import { ACTIONS, OBS_DIM } from '../../../examples/cartpole-dqn/cartpole.ts';
import { CartPoleCollector } from '../../../examples/cartpole-dqn/collector.ts';
import { evaluate, SOLVED } from '../../../examples/cartpole-dqn/evaluate.ts';
import { defaults, networkSizes } from '../../../examples/cartpole-dqn/settings.ts';
import { DqnLearner, type LearnerState, MlpPolicy } from '../../../src/entries/learner.ts';
import type { LearnerGroup } from '../../../src/entries/ranks.ts';
import { type Device, ReplayBuffer, ReplayPipeline, WeightMailbox } from '../../../src/index.ts';

/** Ticks between two rounds of collection, and rounds between two evaluations. */
const ROUND = 8;
const LOOK_EVERY = 10;
/** The weights are evaluated once the mean length of the latest episodes reaches this. */
const PROMISING = 150;
const RECENT = 100;

export interface Plan {
  device: Device;
  every: number;
  seed: number;
  maxTicks: number;
}

export interface Came {
  ticks: number;
  /** environment steps of this learner */
  steps: number;
  /**
   * mean return of a hundred greedy episodes with rank 0's weights, or null before the first
   * evaluation
   */
  finalReturn: number | null;
  solved: boolean;
  /** whether this learner's parameters equaled rank 0's bit for bit at every check */
  equal: boolean;
  looks: number;
}

/** Number of float32 values that a learner averages: its online and its target network. */
export const PARAMETERS = 2 * new MlpPolicy({ sizes: networkSizes(defaults) }).parameters.length;

export async function train(
  group: LearnerGroup,
  { device, every, seed, maxTicks }: Plan,
): Promise<Came> {
  const {
    batchSize,
    minibatches,
    hidden,
    learningRate,
    gamma,
    tau,
    maxGradNorm,
    samplesPerInsert,
    environments,
  } = defaults;
  const shape = { obsDim: OBS_DIM, actions: ACTIONS, hidden };
  const how = { batchSize, learningRate, gamma, tau, maxGradNorm, seed: seed + group.rank };
  using learner = new DqnLearner(device, { ...shape, ...how });
  await learner.ready;
  // All learners begin with rank 0's parameters.
  learner.loadState(await group.broadcast(await learner.state()));
  using buffer = ReplayBuffer.offPolicy({
    capacity: defaults.capacity,
    obsDim: OBS_DIM,
    actionDim: 1,
  });
  const mailbox = WeightMailbox.create({ length: learner.parameters.size });
  await using pipeline = await ReplayPipeline.open({
    buffer,
    mailbox,
    group,
    device: device.name,
    sampleCount: batchSize * minibatches,
    // Each learner draws from its own rows with its own seed.
    baseSeed: (seed * 1_000_003 + group.rank * 7_919) % 2 ** 31,
  });
  pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
    scalars: learner.scalars,
    weights: learner.parameters,
    sync: 'parameters',
    parameters: [learner.parameters, learner.target],
    every,
  });
  const recent: number[] = [];
  let [steps, episodes] = [0, 0];
  const collector = new CartPoleCollector({
    worker: group.rank,
    workers: group.size,
    seed,
    restarts: 0,
    stepsBefore: 0,
    state: undefined,
    options: defaults,
    writer: null,
    fields: {},
    report: {
      steps(n) {
        steps += n;
      },
      episode(length) {
        recent[episodes++ % RECENT] = length;
      },
    },
  });
  const collect = (times: number) => {
    for (let i = 0; i < times; i++) buffer.add(collector.collect());
  };
  collect(Math.ceil(defaults.warmUp / environments));
  const turns = Math.round((ROUND * batchSize * minibatches) / (samplesPerInsert * environments));
  const weights = new Float32Array(mailbox.length);
  const judge = new Judge(seed);
  const came: Came = {
    ticks: 0,
    steps: 0,
    finalReturn: null,
    solved: false,
    equal: true,
    looks: 0,
  };
  while (!came.solved && came.ticks < maxTicks) {
    const ticks = Math.min(ROUND, maxTicks - came.ticks);
    came.ticks += (await pipeline.run({ ticks, publishEvery: ticks })).ticks;
    mailbox.read(weights);
    collector.load(weights);
    collect(turns);
    came.steps = steps;
    if (came.ticks % (ROUND * LOOK_EVERY) !== 0) continue;
    came.looks++;
    const mean = recent.reduce((sum, length) => sum + length, 0) / recent.length;
    // Rank 0 evaluates, and broadcasts its weights and the result. Each learner compares its
    // weights with them.
    const seen = group.rank === 0 && mean >= PROMISING ? await judge.look(weights) : Number.NaN;
    const told = await group.broadcast(state(weights, seen));
    const [first, verdict] = [told.weights!.data as Float32Array, told.verdict!.data[0] as number];
    came.equal &&= sameBits(first, weights);
    if (!Number.isNaN(verdict)) came.finalReturn = verdict;
    came.solved = verdict >= SOLVED;
  }
  return came;
}

const state = (weights: Float32Array, verdict: number): LearnerState => ({
  weights: { dtype: 'float32', shape: [weights.length], data: weights },
  verdict: { dtype: 'float64', shape: [1], data: Float64Array.of(verdict) },
});

const sameBits = (a: Float32Array, b: Float32Array) =>
  Buffer.compare(
    Buffer.from(a.buffer, a.byteOffset, a.byteLength),
    Buffer.from(b.buffer, b.byteOffset, b.byteLength),
  ) === 0;

class Judge {
  readonly #policy = new MlpPolicy({ sizes: networkSizes(defaults) });
  readonly #seed: number;
  #sets = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }
  /**
   * Returns the mean return of a hundred greedy episodes. If it reaches the threshold, returns the
   * mean of a hundred other episodes instead.
   */
  async look(weights: Float32Array): Promise<number> {
    this.#policy.load(weights);
    const once = await evaluate(this.#policy, this.#seed, this.#sets++, SOLVED);
    if (once.meanReturn < SOLVED) return once.meanReturn;
    return (await evaluate(this.#policy, this.#seed, this.#sets++)).meanReturn;
  }
}
