/** Options of learners with an actor and critics, and functions that build the networks. */
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import type { LearnerSettings } from '../learner.ts';
import { elu, gelu, type Layer, layerNorm, linear, relu, silu, tanh } from '../network/layers.ts';
import { Network } from '../network/network.ts';
import { type NormalizerOptions, normalizerOption, normalizerOptions } from '../normalizer.ts';
import type { ActorValue, CriticKind } from './critics.ts';
import { boxOf } from './squashed-gaussian.ts';

const between = { relu, tanh, silu, gelu, elu } as const;

/** Options that describe an actor. A learner takes them, and so do policies in other threads. */
export interface ActorOptions {
  /** number of floats of an observation */
  obsDim: number;
  /** number of floats of an action */
  actionDim: number;
  /**
   * lower end of the box of actions, one number or one for each element of an action, default −1.
   * It is rounded up to float32
   */
  actionLow?: number | readonly number[];
  /**
   * upper end of the box of actions, in the same form as actionLow, default 1. It is rounded down
   * to float32
   */
  actionHigh?: number | readonly number[];
  /** number of neurons of each hidden layer of the actor, default [256, 256] */
  actorHidden?: readonly number[];
  /** whether a layer norm follows each hidden linear layer, before the activation. Default false */
  layerNorm?: boolean;
  /** activation of the hidden layers, default 'relu' */
  activation?: keyof typeof between;
  /**
   * running normalization of observations, default false. Its statistics are published after the
   * actor's parameters. It does not change the critics' own observations, which criticObsDim
   * defines
   */
  normalizer?: boolean | NormalizerOptions;
  /** @deprecated Use `normalizer`. This name is removed in 0.5. */
  normaliser?: boolean | NormalizerOptions;
}

export interface ActorCriticOptions extends ActorOptions {
  /** number of rows of one minibatch. An update of K × batchSize rows does K gradient steps */
  batchSize: number;
  /**
   * number of floats of criticObs and nextCriticObs in the batch. Default: the critics use obs and
   * nextObs
   */
  criticObsDim?: number;
  /** number of neurons of each hidden layer of the critics, default [256, 256] */
  criticHidden?: readonly number[];
  /** number of critics, 1 to 1,024, default 2 */
  critics?: number;
  /** output of a critic for each row, default { kind: 'scalar' } */
  critic?: CriticKind;
  /**
   * whether all critics learn the smallest of their targets (Fujimoto et al., 2018). If false, each
   * critic learns its own target. Default: true for scalar critics, false for categorical critics
   */
  clippedDouble?: boolean;
  /**
   * which value of the critics the actor maximizes. Default: 'first' for TD3 with scalar critics.
   * Otherwise the default is 'min' with clippedDouble and 'mean' without it
   */
  actorValue?: ActorValue;
  /** discount of one step, 0 to 1, default 0.99. Only for batches without `discounts` */
  gamma?: number;
  /** share of the critic in target ← tau · critic + (1 − tau) · target, 0 to 1, default 0.005 */
  tau?: number;
  /**
   * number of gradient steps from one update of the targets to the next. Default: actorEvery for
   * TD3 with a target actor, otherwise 1
   */
  targetEvery?: number;
  /**
   * number of gradient steps from one update of the actor to the next, default 1 for SAC, 2 for TD3
   */
  actorEvery?: number;
  /**
   * number of the first gradient step, default 0. Targets and the actor are updated in steps whose
   * number is a multiple of targetEvery or actorEvery
   */
  firstUpdate?: number;
  /** factor by which the learner multiplies the batch's rewards, default 1 */
  rewardScale?: number;
  /** Adam's options for the actor, default learningRate 3e-4 */
  actorOptimizer?: AdamOptions;
  /** Adam's options for the critics, default learningRate 3e-4 */
  criticOptimizer?: AdamOptions;
  /** @deprecated Use `actorOptimizer`. This name is removed in 0.5. */
  actorOptimiser?: AdamOptions;
  /** @deprecated Use `criticOptimizer`. This name is removed in 0.5. */
  criticOptimiser?: AdamOptions;
  /**
   * largest norm of the actor's gradient, and of the gradient of all critics together. Default: no
   * clipping. Do not combine it with an optimizer's maxGradNorm
   */
  maxGradNorm?: number;
  /** seed of the initial weights and of the random numbers, default 0 */
  seed?: number;
}

export const actorKeys = [
  'obsDim',
  'actionDim',
  'actionLow',
  'actionHigh',
  'actorHidden',
  'layerNorm',
  'activation',
  'normalizer',
] as const;
export const actorCriticKeys = [
  ...actorKeys,
  'batchSize',
  'criticObsDim',
  'criticHidden',
  'critics',
  'critic',
  'clippedDouble',
  'actorValue',
  'gamma',
  'tau',
  'targetEvery',
  'actorEvery',
  'firstUpdate',
  'rewardScale',
  'actorOptimizer',
  'criticOptimizer',
  'maxGradNorm',
  'seed',
] as const;

/** Returns the options whose names are in `keys`, such as those of a policy. */
export function actorOf<O extends ActorOptions>(options: O, keys: readonly string[]): O {
  return Object.fromEntries(Object.entries(options).filter(([key]) => keys.includes(key))) as O;
}

function hidden(
  name: string,
  inputs: number,
  sizes: readonly number[],
  options: ActorOptions,
): { layers: Layer[]; last: number } {
  const { layerNorm: norm = false, activation = 'relu' } = options;
  if (!Array.isArray(sizes))
    throw typeError(`${name} must be an array of layer sizes, got ${describeValue(sizes)}`);
  checkFlag('layerNorm', norm);
  if (typeof activation !== 'string' || !Object.hasOwn(between, activation))
    throw typeError(
      `activation must be one of ${Object.keys(between).join(', ')}, got ${describeValue(activation)}`,
    );
  let last = inputs;
  const layers = sizes.flatMap((size: number, i) => {
    checkCount(`${name}[${i}]`, size, 1, 2 ** 20);
    const made = [linear(last, size), ...(norm ? [layerNorm(size)] : []), between[activation]()];
    last = size;
    return made;
  });
  return { layers, last };
}

/** Returns the settings of an actor that its weights do not determine. */
export function actorSettings(options: ActorOptions): LearnerSettings {
  const { activation = 'relu', layerNorm: norm = false, actionDim } = options;
  const { low, high } = boxOf(actionDim, options);
  const normalizer = normalizerOption(options.normalizer ?? false);
  const how = normalizer ? normalizerOptions(normalizer) : null;
  return { activation, layerNorm: norm, actionLow: low, actionHigh: high, normalizer: how };
}

/**
 * Returns a network from observations to `outputs(actionDim)` outputs, followed by the layers
 * `after`.
 */
export function actorNetwork(
  options: ActorOptions,
  outputs: (actionDim: number) => number,
  after: Layer[] = [],
): Network {
  const { obsDim, actionDim, actorHidden = [256, 256] } = options;
  const { layers, last } = hidden(
    'actorHidden',
    checkCount('obsDim', obsDim),
    actorHidden,
    options,
  );
  return new Network([
    ...layers,
    linear(last, outputs(checkCount('actionDim', actionDim))),
    ...after,
  ]);
}

/** Returns a network from rows of observation and action to `outputs` outputs. */
export function criticNetwork(options: ActorCriticOptions, outputs: number): Network {
  const { obsDim, actionDim, criticObsDim = obsDim, criticHidden = [256, 256] } = options;
  const { layers, last } = hidden('criticHidden', criticObsDim + actionDim, criticHidden, options);
  return new Network([...layers, linear(last, outputs)]);
}

/**
 * Returns the options that all actor-critic learners share, with defaults filled in. Throws for
 * invalid options.
 */
export function actorCriticOptions(
  what: string,
  options: ActorCriticOptions,
  keys: readonly string[],
) {
  checkKeys(what, options, keys);
  const {
    critics = 2,
    critic = { kind: 'scalar' } as CriticKind,
    tau = 0.005,
    rewardScale = 1,
    seed = 0,
  } = options;
  const {
    clippedDouble = (critic as CriticKind | undefined)?.kind === 'scalar',
    criticObsDim,
    firstUpdate = 0,
  } = options;
  checkCount('obsDim', options.obsDim);
  checkCount('actionDim', options.actionDim);
  boxOf(options.actionDim, options);
  if (criticObsDim !== undefined) checkCount('criticObsDim', criticObsDim);
  checkCount('critics', critics, 1, 1024);
  checkFlag('clippedDouble', clippedDouble);
  checkWithin('gamma', options.gamma ?? 0, 0, 1);
  checkWithin('tau', tau, 0, 1);
  checkWithin('rewardScale', rewardScale, -1e30, 1e30);
  checkCount('firstUpdate', firstUpdate, 0);
  checkCount('seed', seed, 0);
  const { actorValue } = options;
  if (actorValue !== undefined && !['first', 'min', 'mean'].includes(actorValue))
    throw typeError(
      `actorValue must be 'first', 'min' or 'mean', got ${describeValue(actorValue)}`,
    );
  const normalizer = normalizerOption(options.normalizer ?? false);
  return {
    critics,
    critic,
    clippedDouble,
    tau,
    rewardScale,
    seed,
    firstUpdate,
    normalizer,
    actorValue,
  };
}

/**
 * Returns the option `name`, a period in gradient steps. Throws if it is not an integer from 1 to
 * 2³¹ − 1.
 */
export function everyOf(name: string, value: number): number {
  return checkCount(name, value, 1, 2 ** 31 - 1);
}

/**
 * Returns an optimizer's options, with the learner's maxGradNorm added. Throws if both have a
 * maxGradNorm.
 */
export function optimizerOf(
  name: string,
  given: AdamOptions | undefined,
  maxGradNorm: number | undefined,
): AdamOptions {
  if (given !== undefined && (typeof given !== 'object' || given === null))
    throw typeError(`${name} must be an object of Adam's options, got ${describeValue(given)}`);
  if (given?.maxGradNorm !== undefined && maxGradNorm !== undefined)
    throw rangeError(
      `${name} has a maxGradNorm (${given.maxGradNorm}) in addition to the learner's (${maxGradNorm}); give one of them`,
    );
  return { ...(maxGradNorm !== undefined && { maxGradNorm }), ...given };
}
