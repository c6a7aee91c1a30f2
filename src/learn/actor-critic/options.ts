/** What learners with an actor and critics are told, and the networks made of it. */
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import type { LearnerSettings } from '../learner.ts';
import { elu, gelu, type Layer, layerNorm, linear, relu, silu, tanh } from '../network/layers.ts';
import { Network } from '../network/network.ts';
import { type NormaliserOptions, normaliserOption, normaliserOptions } from '../normaliser.ts';
import type { ActorValue } from './critics.ts';
import type { CriticKind } from './heads.ts';
import { boxOf } from './squashed-gaussian.ts';

const between = { relu, tanh, silu, gelu, elu } as const;

export interface ActorOptions {
  /** floats of an observation, and of an action */
  obsDim: number;
  actionDim: number;
  /** the box of actions: one number for all, or one for each; default −1 and 1 */
  actionLow?: number | readonly number[];
  actionHigh?: number | readonly number[];
  /** neurons of the actor's hidden layers; default [256, 256] */
  actorHidden?: readonly number[];
  /** layer norm between linear layers and activations; default false */
  layerNorm?: boolean;
  /** default 'relu' */
  activation?: keyof typeof between;
  /**
   * running normalisation of observations, whose statistics are published behind the actor's
   * parameters. Critics with observations of their own (criticObsDim) see those as they are.
   * Default false
   */
  normaliser?: boolean | NormaliserOptions;
}

export interface ActorCriticOptions extends ActorOptions {
  /** rows of one minibatch; an update of K × batchSize rows makes K steps */
  batchSize: number;
  /**
   * floats of what critics see instead of obs: the batch's criticObs and nextCriticObs; default:
   * they see obs
   */
  criticObsDim?: number;
  /** neurons of the critics' hidden layers; default [256, 256] */
  criticHidden?: readonly number[];
  /** how many; default 2 */
  critics?: number;
  /** what a critic says of a row; default { kind: 'scalar' } */
  critic?: CriticKind;
  /**
   * all critics learn the least of their targets (Fujimoto et al., 2018), else each its own;
   * default: true of scalar ones
   */
  clippedDouble?: boolean;
  /** which critic an actor goes by */
  actorValue?: ActorValue;
  /** discount of one step, for batches without `discounts` of their own; default 0.99 */
  gamma?: number;
  /** target ← tau · online + (1 − tau) · target; default 0.005 */
  tau?: number;
  /** steps from one move of the targets to the next */
  targetEvery?: number;
  /** steps from one of the actor to the next */
  actorEvery?: number;
  /** the number of the first step, from which those every so many are counted; default 0 */
  firstUpdate?: number;
  /** factor of the batch's rewards; default 1 */
  rewardScale?: number;
  /** default learningRate 3e-4, else as Adam's */
  actorOptimiser?: AdamOptions;
  criticOptimiser?: AdamOptions;
  /** largest norm of the actor's gradient, and of all critics' together; default: no clipping */
  maxGradNorm?: number;
  /** of first weights and of the random numbers; default 0 */
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
  'normaliser',
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
  'actorOptimiser',
  'criticOptimiser',
  'maxGradNorm',
  'seed',
] as const;

/** The part of options that a policy is made of. */
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

/** What of an actor's options its weights do not show. */
export function actorSettings(options: ActorOptions): LearnerSettings {
  const { activation = 'relu', layerNorm: norm = false, actionDim } = options;
  const { low, high } = boxOf(actionDim, options);
  const normaliser = normaliserOption(options.normaliser ?? false);
  const how = normaliser ? normaliserOptions(normaliser) : null;
  return { activation, layerNorm: norm, actionLow: low, actionHigh: high, normaliser: how };
}

/** From observations to `outputs` numbers, `behind` them. */
export function actorNetwork(
  options: ActorOptions,
  outputs: (actionDim: number) => number,
  behind: Layer[] = [],
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
    ...behind,
  ]);
}

/** From observations and actions, side by side, to `outputs` numbers. */
export function criticNetwork(options: ActorCriticOptions, outputs: number): Network {
  const { obsDim, actionDim, criticObsDim = obsDim, criticHidden = [256, 256] } = options;
  const { layers, last } = hidden('criticHidden', criticObsDim + actionDim, criticHidden, options);
  return new Network([...layers, linear(last, outputs)]);
}

/** With defaults where learners agree; throws for what is none. */
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
  const normaliser = normaliserOption(options.normaliser ?? false);
  return {
    critics,
    critic,
    clippedDouble,
    tau,
    rewardScale,
    seed,
    firstUpdate,
    normaliser,
    actorValue,
  };
}

/** How often something happens. */
export function everyOf(name: string, value: number): number {
  return checkCount(name, value, 1, 2 ** 31 - 1);
}

/** A learner's optimiser: what it was told, clipped as the learner says. */
export function optimiserOf(
  name: string,
  given: AdamOptions | undefined,
  maxGradNorm: number | undefined,
): AdamOptions {
  if (given !== undefined && (typeof given !== 'object' || given === null))
    throw typeError(`${name} must be an object of Adam's options, got ${describeValue(given)}`);
  if (given?.maxGradNorm !== undefined && maxGradNorm !== undefined)
    throw rangeError(
      `${name} has a maxGradNorm (${given.maxGradNorm}) beside the learner's (${maxGradNorm})`,
    );
  return { ...(maxGradNorm !== undefined && { maxGradNorm }), ...given };
}
