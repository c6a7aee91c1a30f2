/** Options that several traced learners have, and the networks and optimizers of these options. */
import { checkCount, checkFlag, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { checkMaskSize } from '../../base/mask-bits.ts';
import { type Activation, checkActivation } from '../activation.ts';
import { type ActorOptions, actorKeys, criticNetwork } from '../actor-critic/options.ts';
import { boxOf, type GaussianOptions, gaussianKeys } from '../actor-critic/squashed-gaussian.ts';
import { ACTOR_CRITIC_RATE, type AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import { refuseMasks } from '../masks.ts';
import { hiddenLayers } from '../mlp.ts';
import { linear } from '../network/layers.ts';
import { Network } from '../network/network.ts';
import type { Expression } from '../trace/expression.ts';
import { type OptimizerDescription, plainAdam } from '../trace/learner/optimizers.ts';

/** Options of learners that value each of several actions. */
export interface ValueOptions {
  /** number of floats of an observation */
  obsDim: number;
  /** number of actions, which a batch stores as indices */
  actions: number;
  /** number of neurons of each hidden layer, such as [120, 84] */
  hidden: readonly number[];
  /** activation after each hidden layer, default 'relu' */
  activation?: Activation;
  /** number of rows of one minibatch. An update of K × batchSize rows does K gradient steps */
  batchSize: number;
  /** discount of one step, 0 to 1, default 0.99. Only for batches without `discounts` */
  gamma?: number;
  /** share in target ← tau · network + (1 − tau) · target after each step, default 0.005 */
  tau?: number;
  /** seed of the initial weights and of the random numbers, default 0 */
  seed?: number;
  /** whether batches have masks of legal actions, default false */
  actionMask?: boolean;
}

export const valueKeys = [
  'obsDim',
  'actions',
  'hidden',
  'activation',
  'batchSize',
  'gamma',
  'tau',
  'seed',
  'actionMask',
] as const;

/** The masks of a batch. Only those that a learner declared may be read. */
export interface Masks {
  readonly actionMask?: Expression;
  readonly nextActionMask?: Expression;
}

/**
 * Returns the fields of the masks in the batch of the learner `what`, by name, and its options of
 * TracedLearner. Without the option, the learner refuses batches with masks.
 */
export function maskOptions(
  what: string,
  { actionMask = false, actions }: ValueOptions,
  names: readonly (keyof Masks)[],
) {
  checkFlag('actionMask', actionMask);
  if (!actionMask)
    return { fields: {}, options: { checkBatch: (batch: object) => refuseMasks(what, batch) } };
  const mask = checkMaskSize('actionMask: actions', actions);
  const fields = Object.fromEntries(names.map((name) => [name, { mask }]));
  // The types of the batch lack the masks, which a learner has or has not.
  return { fields: fields as Record<never, never>, options: { settings: { actionMask } } };
}

/** Returns a network from observations to `outputs` numbers, with the hidden layers of `sizes`. */
export function layered(
  name: string,
  inputs: number,
  sizes: readonly number[],
  outputs: number,
  activation: Activation = 'relu',
): Network {
  if (!Array.isArray(sizes))
    throw typeError(`${name} must be an array of layer sizes, got ${describeValue(sizes)}`);
  for (const [i, size] of sizes.entries()) checkCount(`${name}[${i}]`, size, 1, 2 ** 20);
  const between = checkActivation('activation', activation);
  return new Network([
    ...hiddenLayers([inputs, ...sizes], between),
    linear(sizes.at(-1) ?? inputs, outputs),
  ]);
}

/** Returns the network of the options, with `outputs` outputs. */
export const valueNetwork = (options: ValueOptions, outputs: number): Network =>
  layered(
    'hidden',
    checkCount('obsDim', options.obsDim),
    options.hidden,
    outputs,
    options.activation,
  );

/** Describes an optimizer by Adam's options, with a default of 3e-4 for the learning rate. */
export function adamOf(
  name: string,
  options: AdamOptions | undefined,
  of?: readonly string[],
): OptimizerDescription {
  if (options !== undefined && (typeof options !== 'object' || options === null))
    throw typeError(`${name} must be an object of Adam's options, got ${describeValue(options)}`);
  return plainAdam(options ?? {}, ACTOR_CRITIC_RATE, of);
}

/** Options of learners whose actions are numbers in a box. */
export interface BoxOptions extends Omit<ActorOptions, 'normalizer' | 'normaliser'> {
  /** number of rows of one minibatch. An update of K × batchSize rows does K gradient steps */
  batchSize: number;
  /** number of neurons of each hidden layer of the critics, default [256, 256] */
  criticHidden?: readonly number[];
  /** discount of one step, 0 to 1, default 0.99. Only for batches without `discounts` */
  gamma?: number;
  /** share in target ← tau · critic + (1 − tau) · target after each step, default 0.005 */
  tau?: number;
  /** seed of the initial weights and of the random numbers, default 0 */
  seed?: number;
  /** Adam's options, each with a default learningRate of 3e-4 */
  actorOptimizer?: AdamOptions;
  criticOptimizer?: AdamOptions;
}

export const boxKeys: readonly string[] = [
  ...actorKeys.filter((key) => key !== 'normalizer'),
  'batchSize',
  'criticHidden',
  'gamma',
  'tau',
  'seed',
  'actorOptimizer',
  'criticOptimizer',
];

/** Options of learners whose actor keeps an entropy by a learned temperature. */
export interface EntropyOptions extends BoxOptions, GaussianOptions {
  /** initial value of the learned temperature, default 1 */
  initialTemperature?: number;
  /** entropy in nats that the temperature aims at, default −actionDim */
  targetEntropy?: number;
  /** Adam's options for the temperature, default learningRate 3e-4 */
  temperatureOptimizer?: AdamOptions;
}

export const entropyKeys: readonly string[] = [
  ...new Set([...boxKeys, ...gaussianKeys]),
  'initialTemperature',
  'targetEntropy',
  'temperatureOptimizer',
];

/** Returns the options of the temperature with defaults filled in. */
export function entropyOf(options: EntropyOptions) {
  const { initialTemperature = 1, targetEntropy = -options.actionDim } = options;
  checkWithin('initialTemperature', initialTemperature, 1e-30, 1e30);
  checkWithin('targetEntropy', targetEntropy, -1e30, 1e30);
  return { initialTemperature, targetEntropy };
}

/** Returns the fields of a batch, except those from which the factor of the bootstrap is made. */
export function boxFields({ obsDim, actionDim, ...options }: BoxOptions) {
  checkCount('obsDim', obsDim);
  boxOf(actionDim, options);
  return {
    obs: [obsDim],
    nextObs: [obsDim],
    actions: [actionDim],
    rewards: [],
    weights: [],
  } as const;
}

/** Returns a critic of observation and action, with `outputs` outputs. */
export const criticOf = (options: BoxOptions, outputs: number): Network =>
  criticNetwork(options, outputs);
