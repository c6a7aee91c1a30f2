/**
 * Learners of the caller in train(): their interface, the module of their policy, and the checks of
 * both.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkDevice } from '../../device/checks.ts';
import { type Device, Tensor } from '../../device/device.ts';
import type { Products } from '../../device/facts.ts';
import { openDevice } from '../../device/open.ts';
import { Learner } from '../../learn/learner.ts';
import { plainLayers } from '../../learn/network/plain-layers.ts';
import { MlpPolicy } from '../../learn/policy.ts';
import { DescribedLearner } from '../../learn/trace/learner/learner.ts';
import type { Policy } from '../environments/explore.ts';
import { described, type Spaces } from '../environments/spaces.ts';
import type { PolicyContext } from '../environments/vector-collector.ts';
import type { LearnerPlan, OwnLearner } from './learner-plan.ts';

/** The arguments of a function that makes a learner for train(). */
export interface LearnerContext {
  /** device of train(), which train() closes after the learner */
  readonly device: Device;
  /** spaces of each environment */
  readonly spaces: Spaces;
  /** number of values of all observations that the learner receives at once */
  readonly obsDim: number;
  /** whether batches have masks of legal actions */
  readonly actionMask: boolean;
  /** the option `seed` of train() */
  readonly seed: number;
}

/** Makes a learner for train(). */
export type LearnerFactory = (context: LearnerContext) => OwnLearner | Promise<OwnLearner>;

/** The arguments of the default export of a policy's module. */
export interface TrainPolicyContext<O = unknown> extends PolicyContext<O> {
  /** number of values of all observations that the policy receives at once */
  readonly obsDim: number;
  /** true in evaluations, whose `worker` is 0. In collectors the policy may explore */
  readonly greedy: boolean;
}

/** The policy of a learner of your own, as a module. */
export interface PolicyModule {
  /**
   * URL of a module that each thread loads. Its default export is a function that returns a policy
   * with act() and load()
   */
  module: URL;
  /** `options` that the function receives, cloned for each thread, default: none */
  options?: unknown;
  /** name of the learner's weights that the policy loads, default: all published weights */
  weights?: string;
}

/** The policy that takes the action with the largest output of a network of a traced learner. */
export interface PolicyNetwork {
  /** name of the network in the learner's description */
  network: string;
}

/** The policy of a learner of your own. */
export type PolicyChoice = URL | PolicyModule | PolicyNetwork;

/** Type of the policy that `policy` of train() describes. */
export type ChosenPolicy<C extends PolicyChoice> = C extends PolicyNetwork
  ? MlpPolicy
  : Required<Policy>;

/** Returns whether the option `learner` is a learner, or a function that makes one. */
export const isOwnLearner = (learner: unknown): learner is OwnLearner | LearnerFactory =>
  typeof learner === 'function' ||
  (typeof learner === 'object' &&
    learner !== null &&
    typeof (learner as OwnLearner).update === 'function');

/** Checks the option `policy` of a learner of the caller, and returns it as an object. */
export function checkPolicyChoice(policy: unknown): PolicyModule | PolicyNetwork {
  const way =
    "pass the URL of its module, such as new URL('./policy.js', import.meta.url), or { network: 'q' } for the best output of a network";
  if (policy === undefined)
    throw typeError(`a learner of your own needs the option policy: ${way}`);
  const choice = (policy instanceof URL ? { module: policy } : policy) as PolicyModule;
  if (typeof choice !== 'object' || choice === null || Array.isArray(choice))
    throw typeError(`policy: ${way}; got ${describeValue(policy)}`);
  const text = (name: string, value: unknown) => {
    if (typeof value !== 'string' || value === '')
      throw typeError(`policy.${name} must be a name, got ${describeValue(value)}`);
  };
  if ('network' in choice) {
    checkKeys('policy with a network', choice, ['network']);
    text('network', choice.network);
    return choice as PolicyNetwork;
  }
  checkKeys('policy', choice, ['module', 'options', 'weights', 'network']);
  if (!(choice.module instanceof URL))
    throw typeError(`policy: ${way}; got ${describeValue(choice.module)}`);
  if (choice.weights !== undefined) text('weights', choice.weights);
  try {
    return { ...choice, options: structuredClone(choice.options) };
  } catch (error) {
    throw typeError(
      `policy.options go to threads, as a structured clone, and cannot be cloned: ${(error as Error).message}`,
    );
  }
}

/** A learner of the caller that is open, and its plan. Closes what train() has made. */
export interface OpenOwnLearner extends Disposable {
  readonly plan: LearnerPlan;
}

/** Options of openOwnLearner(), with defaults. */
interface Opening {
  learner: OwnLearner | LearnerFactory;
  policy: PolicyModule | PolicyNetwork;
  device: string;
  products: Products | undefined;
  /** whether the training saves checkpoints */
  saved: boolean;
  spaces: Spaces;
  stack: number;
  masked: boolean;
  seed: number;
}

/** Makes the learner, or checks the one that the caller made. Throws if it does not fit. */
export async function openOwnLearner(opening: Opening): Promise<OpenOwnLearner> {
  const { spaces, stack, seed, masked: actionMask } = opening;
  const obsDim = stack * spaces.observation.size;
  if (typeof opening.learner !== 'function') {
    const plan = planOf(checkOwnLearner(opening.learner, opening), obsDim, opening);
    return { plan, [Symbol.dispose]() {} };
  }
  const device = openDevice(opening.device, { products: opening.products });
  let learner: OwnLearner | undefined;
  const close = () => {
    try {
      learner?.close?.();
    } finally {
      device.close();
    }
  };
  try {
    learner = await opening.learner({ device, spaces, obsDim, actionMask, seed });
    const plan = planOf(checkOwnLearner(learner, opening), obsDim, opening);
    if (learner.device.name !== device.name)
      throw rangeError(
        `learner: the function has made a learner on ${learner.device.name}; make it on its argument device, ${device.name}`,
      );
    return { plan, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}

function planOf(learner: OwnLearner, obsDim: number, opening: Opening): LearnerPlan {
  const { batchSize, device } = learner;
  const { kind = (learner as object).constructor?.name ?? 'learner' } = learner;
  const { policy, weights } = policyOf(learner, opening);
  return {
    name: kind,
    policy,
    obsDim,
    batchSize,
    cycle: 1,
    own: true,
    flat: learner instanceof Learner && !(learner instanceof DescribedLearner),
    open: () => ({ device, learner, weights, [Symbol.dispose]() {} }),
  };
}

function checkOwnLearner(learner: OwnLearner, { saved }: Pick<Opening, 'saved'>): OwnLearner {
  if (!isOwnLearner(learner) || typeof learner === 'function')
    throw typeError(
      `learner: the function must return a learner with update(), it returned ${describeValue(learner)}`,
    );
  checkDevice('learner.device', learner.device);
  checkCount('learner.batchSize', learner.batchSize);
  const { scalars } = learner;
  if (!Array.isArray(scalars) || !scalars.every((name) => typeof name === 'string'))
    throw typeError(`learner.scalars must be an array of names, got ${describeValue(scalars)}`);
  const states = typeof learner.state === 'function' && typeof learner.loadState === 'function';
  if (saved && !states)
    throw typeError(
      'checkpoint: this learner has no state() and loadState(), which a checkpoint needs; add both to the learner, or omit checkpoint',
    );
  return learner;
}

/** Returns the policy's plan, and the vector of weights that it loads. */
function policyOf(
  learner: OwnLearner,
  { policy, spaces }: Opening,
): { policy: LearnerPlan['policy']; weights: Tensor<'float32'> } {
  if (!('network' in policy)) {
    const { module, options, weights } = policy;
    return { policy: { module: module.href, options }, weights: vectorOf(learner, weights) };
  }
  const { network: name } = policy;
  const way = 'make the policy in a module';
  if (spaces.action.kind !== 'discrete' || spaces.observation.dtype === 'uint8')
    throw rangeError(
      `policy.network takes the largest output for an observation of floats, and the environment has ${described(spaces)}; ${way}`,
    );
  const made = policyFor(learner, name, way);
  if (!(made instanceof MlpPolicy) || made.constructor !== MlpPolicy)
    throw typeError(
      `policy.network is for learners whose policy('${name}') takes the largest output, such as those of learner(); ${way}`,
    );
  const { network } = made;
  if (network.outputs !== spaces.action.n)
    throw rangeError(
      `policy.network: '${name}' has ${network.outputs} outputs, and the environment has ${spaces.action.n} actions`,
    );
  const weights = vectorOf(learner, name);
  if (weights.size !== network.parameterCount)
    throw rangeError(
      `policy.network: '${name}' has ${weights.size} weights, and its policy ${network.parameterCount}; name one network, such as '${name}.0'`,
    );
  return { policy: { layers: plainLayers('policy.network', network) }, weights };
}

/**
 * Calls the learner's policy() with a name. If policy() of a class throws, as that of
 * DiscreteSacLearner, which takes options, the error names the remedy `way`.
 */
function policyFor(learner: OwnLearner, name: string, way: string): unknown {
  try {
    return (learner as { policy?: (name: string) => unknown }).policy?.(name);
  } catch (error) {
    if (learner instanceof DescribedLearner) throw error;
    throw typeError(
      `policy.network: policy('${name}') of this learner throws: ${(error as Error).message}; ${way}`,
    );
  }
}

/** Returns the learner's weights by name, or all that it publishes. */
function vectorOf(learner: OwnLearner, name: string | undefined): Tensor<'float32'> {
  if (name !== undefined && typeof learner.weights !== 'function')
    throw typeError(
      `policy.weights: '${name}' is a part of a learner that has weights(name), and this learner has none; omit it`,
    );
  const vector =
    name === undefined ? (learner.published ?? learner.parameters) : learner.weights?.(name);
  const what =
    name === undefined ? 'learner.published or .parameters' : `learner.weights('${name}')`;
  if (!(vector instanceof Tensor) || vector.dtype !== 'float32')
    throw typeError(
      `${what} must be the contiguous float32 vector of the weights that the policy loads, got ${describeValue(vector)}`,
    );
  return vector;
}

/** Finds out whether an update uses the column of priorities. */
export class PriorityWatch {
  #expected: boolean;

  constructor(expected: boolean) {
    this.#expected = expected;
  }

  /** Returns the batch, whose reads of `priorities` are noticed. */
  of<B extends object>(batch: B): B {
    if (!this.#expected) return batch;
    const { priorities } = batch as { priorities?: unknown };
    const get = () => {
      this.#expected = false;
      return priorities;
    };
    return Object.defineProperty({ ...batch }, 'priorities', { get, enumerable: true });
  }

  /** Throws if an update should have written priorities, and did not use the column. */
  check(): void {
    if (this.#expected)
      throw typeError(
        'prioritized: update() of this learner ignores batch.priorities; write the priority of each row to this tensor, float32 [rows], or omit prioritized',
      );
  }
}
