/**
 * Computes the plan of a training from its options and the environment's spaces. Creates the
 * limiter, the buffer and the options of collectors from the plan.
 */
import { rangeError } from '../../base/errors.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { RateLimiter } from '../../store/rate-limiter.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { checkExplore, type Explore } from '../environments/explore.ts';
import type { Spaces } from '../environments/spaces.ts';
import { type LearnerChoice, planOf } from './algorithms.ts';
import type { TrainCollectorOptions } from './collector.ts';
import type { LearnerPlan } from './learner-plan.ts';
import {
  type AnyTrainOptions,
  type EvaluationOptions,
  evaluationOf,
  type OwnTrainOptions,
  type TrainOptions,
} from './options.ts';
import {
  checkPolicyChoice,
  isOwnLearner,
  type OpenOwnLearner,
  openOwnLearner,
} from './own-learner.ts';

export interface TrainPlan
  extends Required<
    Omit<
      TrainOptions,
      | 'learner'
      | 'explore'
      | 'evaluation'
      | 'environmentOptions'
      | 'checkpoint'
      | 'dump'
      | 'onPoint'
      | 'products'
    >
  > {
  checkpoint: TrainOptions['checkpoint'] | null;
  products?: TrainOptions['products'];
  environmentOptions: unknown;
  onPoint?: TrainOptions['onPoint'];
  dump?: string | URL;
  learner: LearnerPlan;
  /** algorithm of a built-in learner, null for a learner of the caller */
  algorithm: LearnerChoice['algorithm'] | null;
  /** name of the algorithm, for people */
  name: string;
  /** discount factor of one step */
  gamma: number;
  explore: Explore;
  evaluation: EvaluationOptions & { every: number; episodes: number; confirm: number };
  spaces: Spaces;
  /** number of rows that a tick samples */
  sampleCount: number;
  /** number of ticks of the whole training */
  ticks: number;
  /** true if the buffer is a TrajectoryBuffer, which stores each environment's steps in order */
  ordered: boolean;
  /** true if the environments give masks of legal actions, which the buffer stores */
  masked: boolean;
  /** true if the learner takes observations in another form than that of the batch */
  converted: boolean;
}

/** Parts that a training opens before its plan. */
export interface Opened {
  /** plan of a learner of the caller, null for a built-in learner */
  own: LearnerPlan | null;
  /** whether the environments give masks of legal actions */
  masked: boolean;
}

/**
 * Opens a learner of the caller, with the defaults of a training's plan. Returns null for a built-in
 * learner.
 */
export async function openLearner(
  options: AnyTrainOptions,
  spaces: Spaces,
  masked: boolean,
): Promise<OpenOwnLearner | null> {
  const { learner, policy, device = 'auto', seed = 0, stack = 1 } = options as OwnTrainOptions;
  const { products } = options;
  if (!isOwnLearner(learner)) return null;
  const saved = options.checkpoint !== undefined;
  const choice = checkPolicyChoice(policy);
  return await openOwnLearner({
    learner,
    policy: choice,
    device,
    products,
    saved,
    spaces,
    stack,
    masked,
    seed,
  });
}

/**
 * Returns the plan of a training, with defaults. Throws if the options do not fit each other or the
 * environment's spaces.
 */
export function trainPlan(
  options: AnyTrainOptions,
  spaces: Spaces,
  { own, masked }: Opened = { own: null, masked: false },
): TrainPlan {
  const {
    seed = 0,
    workers = 1,
    environments = 1,
    steps = 100_000,
    updatesPerStep = 1,
    nStep = 1,
    stack = 1,
  } = options;
  const { learner: choice, prioritized = false, deterministic = false } = options;
  if (deterministic && workers > 1)
    throw rangeError(
      `deterministic: true collects in one thread; omit workers (${workers}), and raise environments`,
    );
  const bytes = spaces.observation.dtype === 'uint8';
  const ordered = nStep > 1 || prioritized || stack > 1 || bytes;
  const all = workers * environments;
  // The first row of a lane can be sampled when the lane contains a window and the step after the
  // window.
  const least = ordered ? all * (nStep + stack + 1) : 2 * all;
  const lanes = ordered
    ? `, for ${all} environments with windows of ${nStep + stack - 1}`
    : `, two for each of ${all} environments`;
  const { warmUp = Math.max(1000, ordered ? least : 0) } = options;
  if (ordered && warmUp < least)
    throw rangeError(`warmUp must be at least ${least}${lanes}; got ${warmUp}`);
  // Rows of a TrajectoryBuffer have their own discounts, which include `gamma`. A learner does not
  // accept `gamma` for such rows, so it is left out.
  const { gamma = 0.99, ...others } = (own ? options : (choice ?? {})) as OwnTrainOptions;
  if (own && !ordered && (options as OwnTrainOptions).gamma !== undefined)
    throw rangeError(
      'gamma is for rows with discounts: those with nStep, prioritized, stack or observations of bytes. Here the learner itself discounts, so omit the option',
    );
  const learner =
    own ?? planOf((ordered ? others : choice) as LearnerChoice, spaces, { seed, stack, masked });
  const { minibatches = learner.cycle } = options;
  if (minibatches % learner.cycle !== 0)
    throw rangeError(
      `minibatches must be a multiple of ${learner.cycle}, so that a tick holds whole cycles; got ${minibatches}`,
    );
  if (steps <= warmUp)
    throw rangeError(`steps must be more than warmUp, got ${steps} and ${warmUp}`);
  const room = Math.max(least, warmUp);
  const { capacity = Math.max(Math.min(1_000_000, steps), room) } = options;
  if (capacity < room)
    throw rangeError(
      `capacity must be at least ${room}${room === least ? lanes : ', as warmUp requires'}; got ${capacity}`,
    );
  const algorithm = own ? null : (choice as LearnerChoice).algorithm;
  const epsilon =
    spaces.action.kind === 'discrete'
      ? { epsilon: { to: 0.05, steps: Math.min(10_000, steps) } }
      : {};
  const explore = { randomSteps: warmUp, ...epsilon, ...options.explore };
  checkExplore(explore, spaces);
  return {
    device: 'auto',
    seconds: Number.POSITIVE_INFINITY,
    goal: Number.POSITIVE_INFINITY,
    noise: 0.1,
    display: false,
    signal: new AbortController().signal,
    onOpen: () => {},
    ...(options as TrainOptions),
    seed,
    workers,
    environments,
    steps,
    updatesPerStep,
    nStep,
    stack,
    prioritized,
    deterministic,
    warmUp,
    minibatches,
    algorithm,
    name: learner.name,
    masked,
    gamma,
    environmentOptions: options.environmentOptions,
    checkpoint: options.checkpoint ?? null,
    // Rounds the capacity up, because all lanes have the same length.
    capacity: ordered ? Math.ceil(capacity / all) * all : capacity,
    evaluation: {
      every: Math.ceil(steps / 20),
      episodes: 10,
      confirm: 100,
      ...evaluationOf(options),
    },
    learner,
    explore,
    spaces,
    ordered,
    // Bytes of a learner of the caller are not converted, because it decides on their scale.
    converted: own ? learner.flat === true && stack > 1 && !bytes : stack > 1 || bytes,
    sampleCount: learner.batchSize * minibatches,
    ticks: Math.ceil(((steps - warmUp) * updatesPerStep) / minibatches),
  };
}

/** Returns the limiter, or null for a deterministic training, which counts its turns itself. */
export function limiterOf({
  learner,
  updatesPerStep,
  warmUp,
  sampleCount,
  workers,
  environments,
  deterministic,
}: TrainPlan): RateLimiter | null {
  if (deterministic) return null;
  const samplesPerInsert = learner.batchSize * updatesPerStep;
  return RateLimiter.create({
    samplesPerInsert,
    minSize: warmUp,
    gateAdd: true,
    // The error buffer must be at least one batch plus one add. Twice that size lets the learner
    // and the collectors work ahead instead of in turns.
    errorBuffer: 2 * (sampleCount + samplesPerInsert * environments * workers),
  });
}

export function bufferOf(
  plan: TrainPlan,
  limiter: RateLimiter | null,
): ReplayBuffer | TrajectoryBuffer {
  const { capacity, spaces, ordered, masked, workers, environments } = plan;
  const { action } = spaces;
  const { size } = action;
  const limited = limiter ? { limiter } : {};
  const actions = masked && action.kind === 'discrete' ? action.n : 0;
  if (!ordered)
    return ReplayBuffer.offPolicy({
      capacity,
      obsDim: spaces.observation.size,
      actionDim: size,
      ...(actions > 0 && { actionMask: actions }),
      ...limited,
    }) as ReplayBuffer;
  const { shape, dtype } = spaces.observation;
  const fields = {
    obs: { shape, observation: true, ...(dtype === 'uint8' ? { dtype } : {}) },
    actions: { shape: action.kind === 'discrete' ? [] : [size] },
    ...(actions > 0 && { actionMask: { mask: actions, observation: true } }),
  };
  return TrajectoryBuffer.create({
    capacity,
    lanes: workers * environments,
    fields,
    ...limited,
  }) as unknown as TrajectoryBuffer;
}

export const viewOf = (buffer: TrajectoryBuffer, { nStep, gamma, stack }: TrainPlan) =>
  buffer.transitions({ nStep, gamma, ...(stack > 1 ? { stack: { obs: stack } } : {}) });

export function collectorOptions(plan: TrainPlan): TrainCollectorOptions {
  const { environment, environmentOptions, environments, stack, learner, noise, explore } = plan;
  return {
    environment: environment.href,
    environmentOptions,
    environments,
    stack,
    policy: learner.policy,
    noise,
    explore,
  };
}
