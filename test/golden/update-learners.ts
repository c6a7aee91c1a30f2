/**
 * Makes the learner for each kind of update case, with the options that the file's configuration
 * means.
 */

import {
  type ActorCriticOptions,
  type AdamOptions,
  DqnLearner,
  type Learner,
  SacLearner,
  type SacOptions,
  Td3Learner,
} from '../../src/entries/learner.ts';
import type { Device } from '../../src/index.ts';
import { Difference } from './differences.ts';
import type { UpdateCase } from './updates.ts';

export type Config = Readonly<Record<string, number>> & {
  optimizer: { betas: [number, number]; eps: number; weight_decay: number; kind: string };
};

/**
 * Throws if the configuration lacks an entry, because a case must not depend on the learner's
 * defaults.
 */
function needed(golden: UpdateCase, names: readonly string[]): void {
  const config = golden.config as Readonly<Record<string, unknown>>;
  const optimizer = (config.optimizer ?? {}) as Readonly<Record<string, unknown>>;
  for (const name of names)
    if (config[name] === undefined) throw new Difference(`the file's config lacks '${name}'`);
  for (const name of ['betas', 'eps', 'weight_decay', 'kind'])
    if (optimizer[name] === undefined)
      throw new Difference(`the file's config.optimizer lacks '${name}'`);
}

/**
 * Returns the number of the first step. Steps are counted from it to find those that move the actor
 * or the targets, and every step of the file must agree.
 */
function firstUpdateOf(
  { config, steps }: UpdateCase,
  actorEvery: number,
  targetEvery: number,
): number {
  const fits = (first: number) =>
    steps.every(({ expect: { events }, target_update: follows }, i) => {
      const due = (every: number) => (first + i) % every === 0;
      const moves = events.some(({ optimizer }) => optimizer === 'actor');
      return due(actorEvery) === moves && (follows === undefined || due(targetEvery) === follows);
    });
  const told = config.first_step as number | undefined;
  if (told !== undefined && fits(told)) return told;
  const first = Array.from({ length: actorEvery * targetEvery }, (_, i) => i).find(fits);
  if (first === undefined)
    throw new Difference('the actor, or the targets, do not move every so many steps');
  return first;
}

function adamOf({ optimizer }: Config, learningRate: number | undefined): AdamOptions {
  const { betas, eps, weight_decay: weightDecay, kind } = optimizer;
  if (learningRate === undefined) throw new Difference("the file's config lacks a learning rate");
  if (!/^adamw?$/i.test(kind)) throw new Difference(`config.optimizer.kind is '${kind}'`);
  return {
    learningRate,
    beta1: betas[0],
    beta2: betas[1],
    epsilon: eps,
    weightDecay,
    decoupled: /w$/i.test(kind),
  };
}

function hiddenOf(golden: UpdateCase, which: 'actor' | 'q'): number[] {
  const weights = (golden.layout[which] ?? []).filter(({ shape }) => shape.length === 2);
  const heads = weights.some(({ name }) => name.startsWith('fc_logstd')) ? 2 : 1;
  return weights.slice(0, weights.length - heads).map(({ shape }) => shape[0] as number);
}

function common(
  golden: UpdateCase,
  config: Config,
  every = config.policy_frequency,
): ActorCriticOptions {
  needed(golden, ['batch', 'obs', 'act', 'gamma', 'tau']);
  if (every === undefined) throw new Difference("the file's config lacks 'policy_frequency'");
  // TD3's targets move with its actor.
  const targetEvery = golden.kind === 'update.td3' ? every : (config.target_network_frequency ?? 1);
  const { actor_lr, critic_lr, lr, policy_lr, q_lr, max_grad_norm: most, weight_decay } = config;
  const critics = Object.keys(golden.init).filter((name) => /^q\d+$/.test(name)).length;
  const clips =
    most !== undefined && most > 0 && !(golden.kind === 'update.fast_td3' && !(weight_decay! > 0));
  const options: ActorCriticOptions = {
    obsDim: config.obs!,
    actionDim: config.act!,
    batchSize: config.batch!,
    tau: config.tau!,
    critics,
    actorHidden: hiddenOf(golden, 'actor'),
    criticHidden: hiddenOf(golden, 'q'),
    ...(config.critic_obs !== undefined && { criticObsDim: config.critic_obs }),
    ...(config.action_low !== undefined && { actionLow: config.action_low }),
    ...(config.action_high !== undefined && { actionHigh: config.action_high }),
    ...(config.atoms !== undefined && {
      critic: {
        kind: 'categorical' as const,
        atoms: config.atoms,
        min: config.v_min!,
        max: config.v_max!,
      },
    }),
    ...gammaOf(golden, config),
    actorOptimizer: adamOf(config, actor_lr ?? policy_lr ?? lr),
    criticOptimizer: adamOf(config, critic_lr ?? q_lr ?? lr),
    ...(clips && { maxGradNorm: most }),
    actorEvery: every,
    targetEvery,
    firstUpdate: firstUpdateOf(golden, every, targetEvery),
  };
  return options;
}

/**
 * The temperature is learned or fixed. A fixed one is given by the file's first log alpha, if it
 * has one.
 */
function temperatureOf(
  { init }: UpdateCase,
  config: Config,
  targetEntropy: number,
): Partial<SacOptions> {
  if (config.autotune) return { temperature: 'auto', targetEntropy };
  const log = init.log_alpha?.[0] ?? config.log_alpha_init;
  return { temperature: log === undefined ? config.alpha! : Math.exp(log) };
}

/**
 * The discount of a step, which depends on the number of environment steps per row. It is omitted
 * if rows have their own numbers of steps.
 */
const gammaOf = (
  { steps: [first] }: UpdateCase,
  { gamma, n_steps: steps = 1 }: Config,
): { gamma?: number } => (first?.batch.n_steps ? {} : { gamma: gamma! ** steps });

/** Kind of the cases with masks. They check a described learner and DqnLearner. */
export const MASKED = 'update.masked_double_dqn';

export const makers: Readonly<
  Record<string, (device: Device, golden: UpdateCase, config: Config) => Learner>
> = {
  'update.dqn': (device, golden, config) =>
    new DqnLearner(device, {
      obsDim: config.obs!,
      actions: config.actions!,
      hidden: hiddenOf(golden, 'q'),
      batchSize: config.batch!,
      double: Boolean(config.double),
      tau: config.tau!,
      ...adamOf(config, config.lr),
      ...(config.per_row_discount ? {} : { gamma: config.gamma! }),
      ...(config.max_grad_norm! > 0 && { maxGradNorm: config.max_grad_norm! }),
    }),
  [MASKED]: (device, golden, config) =>
    new DqnLearner(device, {
      obsDim: config.obs!,
      actions: config.actions!,
      hidden: hiddenOf(golden, 'q'),
      batchSize: config.batch!,
      actionMask: true,
      gamma: config.gamma!,
      tau: config.tau!,
      ...adamOf(config, config.lr),
      maxGradNorm: config.max_grad_norm!,
    }),
  'update.td3': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, config),
      policyNoise: config.policy_noise!,
      noiseClip: config.noise_clip!,
    }),
  'update.sac': (device, golden, config) =>
    new SacLearner(device, {
      ...common(golden, config),
      logStd: { form: 'tanh', min: config.log_std_min!, max: config.log_std_max! },
      policyRepeats: config.policy_frequency!,
      ...temperatureOf(golden, config, config.target_entropy!),
    }),
  'update.fast_sac': (device, golden, config) =>
    new SacLearner(device, {
      ...common(golden, config),
      layerNorm: Boolean(config.layer_norm),
      activation: 'silu',
      meanClamp: 10,
      correction: 'split',
      logStd: { form: 'tanh', min: config.log_std_min!, max: config.log_std_max! },
      ...temperatureOf(golden, config, -config.act! * config.target_entropy_ratio!),
      temperatureOptimizer: { ...adamOf(config, config.alpha_lr), weightDecay: 0 },
    }),
  'update.fast_td3': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, config),
      policyNoise: config.policy_noise!,
      noiseClip: config.noise_clip!,
      targetActor: false,
      clippedDouble: Boolean(config.use_cdq),
      ...(config.obs_normalization && {
        normalizer: { form: 'deviation' as const, epsilon: config.norm_eps! },
      }),
    }),
  'update.fast_td3_own': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, config, config.policy_frequency ?? 2),
      policyNoise: config.policy_noise!,
      noiseClip: config.noise_clip!,
      targetActor: false,
      clippedDouble: Boolean(config.use_cdq),
    }),
};
