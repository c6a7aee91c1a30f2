/** Checks the options of train(). */

import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import { checkCount, checkFlag, checkKeys, checkPath, describeValue } from '../../base/checks.ts';
import { rangeError, typeError, unavailableError } from '../../base/errors.ts';
import { checkProducts } from '../../device/checks.ts';
import type { Products } from '../../device/facts.ts';
import { checkSignal } from '../../shm/wait.ts';
import { parseEvery } from '../checkpoint/every.ts';
import type { Explore, Policy } from '../environments/explore.ts';
import type { LearnerChoice, TrainedPolicy } from './algorithms.ts';
import type { EvaluateFunction } from './evaluate-function.ts';
import type { EvaluatedWeights } from './evaluated-weights.ts';
import type { OwnLearner } from './learner-plan.ts';
import {
  type ChosenPolicy,
  checkPolicyChoice,
  isOwnLearner,
  type LearnerFactory,
  type PolicyChoice,
} from './own-learner.ts';
import type { CurvePoint, TrainParts } from './progress.ts';

/** Options of train(). A resumed training keeps the saved values of omitted options. */
export interface TrainOptions<P extends Policy = TrainedPolicy> {
  /**
   * URL of a module that each thread loads. Its default export is the environment's class, a
   * function that makes one environment, or the result of gymnasium().
   */
  environment: URL;
  /**
   * `options` that the environment's class or function receives, cloned for each thread, default:
   * none
   */
  environmentOptions?: unknown;
  /** algorithm and options of the learner, `{ algorithm: 'dqn' | 'td3' | 'sac', … }` */
  learner: LearnerChoice;
  /** device of the learner, default 'auto' */
  device?: string;
  /**
   * precision of the matrix products of cuBLAS on `device`: 'float32' or 'tf32'. Default: that of
   * the checkpoint, otherwise that with which the process has the device open, otherwise 'float32'
   */
  products?: Products;
  /**
   * seed of weights, draws, environments and exploration, default 0. Threads race, so two runs with
   * one seed still differ, unless `deterministic` is true
   */
  seed?: number;
  /**
   * whether collecting, learning and evaluations take turns in one thread, default false. Two runs
   * with equal options on the same machine then have equal bits, if the environment's episodes
   * depend only on their seeds. The training takes longer
   */
  deterministic?: boolean;
  /** collector threads, 1 to 16, default 1 */
  workers?: number;
  /** number of environments of each thread, 1 to 65,536, default 1 */
  environments?: number;
  /**
   * environment steps of the whole training, over all runs that resume each other, default 100,000
   */
  steps?: number;
  /**
   * seconds of the whole training, over all runs that resume each other, default: no limit. The
   * last evaluation may take a tenth more.
   */
  seconds?: number;
  /**
   * mean return at which the training is solved and ends, default: none. A resumed training that
   * has already reached it ends at once.
   */
  goal?: number;
  /** gradient steps per environment step, more than 0, default 1 */
  updatesPerStep?: number;
  /**
   * gradient steps of a tick, a multiple of the learner's cycle. Default: that cycle, which is 1
   * unless the learner updates some of its networks less often (TD3: 2)
   */
  minibatches?: number;
  /** number of environment steps in the buffer, default: `steps`, at most 1,000,000 */
  capacity?: number;
  /**
   * environment steps before the first update, default 1,000. Their actions are random, unless
   * `explore` says otherwise. The default is larger if a TrajectoryBuffer for many environments
   * needs more steps.
   */
  warmUp?: number;
  /** number of environment steps whose rewards one row sums, 1 to 65,536, default 1 */
  nStep?: number;
  /**
   * number of observations that the learner receives at once, 1 to 65,536, default 1. They are
   * [stack, …], oldest first, such as the last frames.
   */
  stack?: number;
  /** whether rows with a large TD error are sampled more often, default false */
  prioritized?: boolean;
  /**
   * exploration. Default: random actions in the warm-up, and for dqn an epsilon that falls from 1
   * to 0.05 over 10,000 steps
   */
  explore?: Explore;
  /**
   * standard deviation of the noise on td3's actions, in half widths of the action box, at least 0,
   * default 0.1
   */
  noise?: number;
  /** evaluations of the newest weights, or a function that replaces their greedy episodes */
  evaluation?: EvaluationOptions<P> | EvaluateFunction<P>;
  /**
   * folder to save into at the end and at the interval `every`, default '60 s'. If the folder
   * contains a checkpoint of the same training, train() resumes it. The environments then begin new
   * episodes. Default: no checkpoint
   */
  checkpoint?: { folder: string | URL; every?: string };
  /**
   * npz file for the buffer's contents at the end, in the format of the buffer's dump(), default:
   * none. The file is not written if `signal` ended the training.
   */
  dump?: string | URL;
  /** signal that ends the training with its results so far, default: none */
  signal?: AbortSignal;
  /** whether progress is shown on the terminal, default false */
  display?: boolean;
  /**
   * function that receives each evaluation: a point of the curve, and the weights. train() awaits
   * its result
   */
  onPoint?: (point: CurvePoint, evaluated: EvaluatedWeights<P>) => unknown;
  /**
   * function that receives the parts before they run, for example to serve a live page. train()
   * awaits its result
   */
  onOpen?: (parts: TrainParts) => unknown;
}

/** Options of train() with a learner of your own. */
export interface OwnTrainOptions<C extends PolicyChoice = PolicyChoice>
  extends Omit<TrainOptions<ChosenPolicy<C>>, 'learner' | 'noise'> {
  /**
   * a learner that you made and close yourself, or a function that makes one on the device of
   * train()
   */
  learner: OwnLearner | LearnerFactory;
  /**
   * policy that acts by the learner's weights: a module, `{ module, options?, weights? }`, or
   * `{ network }` for the largest output of a network
   */
  policy: C;
  /**
   * discount factor of the column `discounts`, 0 to 1, default 0.99. Only batches of steps in order
   * have this column: those with nStep, prioritized, stack or observations of bytes
   */
  gamma?: number;
}

/** Options of train() with any learner. */
export type AnyTrainOptions = TrainOptions | OwnTrainOptions;

/** The option `evaluation` of train(). */
export interface EvaluationOptions<P extends Policy = TrainedPolicy> {
  /** environment steps between two evaluations, default: a twentieth of `steps` */
  every?: number;
  /** greedy episodes of an evaluation, default 10 */
  episodes?: number;
  /**
   * episodes of the last evaluation, default 100. The evaluation with other seeds that confirms
   * the goal has the same number
   */
  confirm?: number;
  /** function that replaces the greedy episodes, default: train() plays them */
  evaluate?: EvaluateFunction<P>;
}

/**
 * Minimum and maximum of each count. At most 16 workers are allowed, because each of them waits at
 * one limiter, which has 16 wake-up counters.
 */
const counts = {
  seed: [0],
  workers: [1, 16],
  environments: [1, 2 ** 16],
  steps: [1],
  minibatches: [1],
  capacity: [2],
  warmUp: [1],
  nStep: [1, 2 ** 16],
  stack: [1, 2 ** 16],
} as const;
const others = [
  'environment',
  'environmentOptions',
  'learner',
  'device',
  'products',
  'seconds',
  'goal',
  'updatesPerStep',
  'prioritized',
  'deterministic',
  'explore',
  'noise',
  'evaluation',
  'checkpoint',
  'dump',
  'signal',
  'display',
  'onPoint',
  'onOpen',
  'policy',
  'gamma',
];

/** Returns the options without those that are undefined. train() treats these as omitted. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as T;
}

/**
 * Checks the options, and returns them without undefined ones, also in nested options. Throws for
 * errors that it can find before the environment is loaded.
 */
export function checkedTrain(given: AnyTrainOptions): AnyTrainOptions {
  checkKeys('train', given, [...Object.keys(counts), ...others]);
  const options = { ...defined(given) };
  if (typeof options.evaluation === 'function')
    options.evaluation = { evaluate: options.evaluation };
  const own = isOwnLearner(options.learner);
  for (const name of ['learner', 'explore', 'evaluation'] as const)
    if (typeof options[name] === 'object' && options[name] !== null && !(own && name === 'learner'))
      options[name] = defined(options[name]) as never;
  checkOwn(options, own);
  const { environment, signal, goal, seconds, updatesPerStep = 1, learner } = options;
  const { noise } = options as TrainOptions;
  if (noise !== undefined && (learner as { algorithm?: unknown } | null)?.algorithm !== 'td3')
    throw typeError(
      'noise is an option of td3; sac explores by its own deviations, dqn by explore.epsilon',
    );
  if (!(environment instanceof URL))
    throw typeError(
      `environment must be the URL of its module, such as new URL('./environment.js', import.meta.url); got ${describeValue(environment)}`,
    );
  for (const [name, [least, most]] of Object.entries(counts) as [
    keyof typeof counts,
    readonly [number, number?],
  ][])
    if (options[name] !== undefined) checkCount(name, options[name], least, most);
  checkPositive('updatesPerStep', updatesPerStep);
  if (seconds !== undefined) checkPositive('seconds', seconds);
  if (goal !== undefined && (typeof goal !== 'number' || Number.isNaN(goal)))
    throw typeError(`goal must be a number, got ${describeValue(goal)}`);
  if (noise !== undefined && (typeof noise !== 'number' || !(noise >= 0)))
    throw rangeError(`noise must be a number of at least 0, got ${describeValue(noise)}`);
  checkProducts(options.products);
  checkFlag('prioritized', options.prioritized ?? false);
  checkFlag('display', options.display ?? false);
  checkFlag('deterministic', options.deterministic ?? false);
  checkSignal(signal);
  for (const name of ['onPoint', 'onOpen'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'function')
      throw typeError(`${name} must be a function, got ${describeValue(options[name])}`);
  const { checkpoint } = options;
  const evaluation = evaluationOf(options);
  if (checkpoint !== undefined) {
    checkKeys('checkpoint', checkpoint, ['folder', 'every']);
    if (checkpoint.every !== undefined) parseEvery(checkpoint.every);
    options.checkpoint = {
      ...checkpoint,
      folder: checkPath('checkpoint.folder', checkpoint.folder),
    };
  }
  if (options.dump !== undefined) options.dump = writablePath(options.dump);
  checkKeys('evaluation', evaluation, ['every', 'episodes', 'confirm', 'evaluate']);
  for (const name of ['every', 'episodes', 'confirm'] as const)
    if (evaluation[name] !== undefined) checkCount(`evaluation.${name}`, evaluation[name]);
  if (evaluation.evaluate !== undefined && typeof evaluation.evaluate !== 'function')
    throw typeError(
      `evaluation.evaluate must be a function, got ${describeValue(evaluation.evaluate)}`,
    );
  try {
    options.environmentOptions = structuredClone(options.environmentOptions);
  } catch (error) {
    const why = (error as Error).message;
    throw typeError(
      `environmentOptions go to threads, as a structured clone, and cannot be cloned: ${why}`,
    );
  }
  return options;
}

/** Checks the options that only a learner of the caller has. */
function checkOwn(options: AnyTrainOptions, own: boolean): void {
  const { learner, policy, gamma, device, products } = options as OwnTrainOptions;
  if (own) {
    checkPolicyChoice(policy);
    if (device !== undefined && typeof learner !== 'function')
      throw typeError(
        `device: this learner is on its own device, ${describeValue(learner.device?.name)}; omit the option, or pass a function that makes the learner`,
      );
    if (products !== undefined && typeof learner !== 'function')
      throw typeError(
        `products: this learner is on its own device, which has '${learner.device?.traits?.products}'; omit the option, or pass a function that makes the learner`,
      );
    if (gamma !== undefined && !(typeof gamma === 'number' && gamma >= 0 && gamma <= 1))
      throw rangeError(`gamma must be a number from 0 to 1, got ${describeValue(gamma)}`);
    return;
  }
  if (policy !== undefined)
    throw typeError(
      'policy is for a learner of your own; a learner of { algorithm } has its own policy. Pass a function that makes the learner, such as learner: ({ device, obsDim }) => new DqnLearner(device, { obsDim, … })',
    );
  if (gamma !== undefined)
    throw typeError('gamma is an option of the learner here: learner: { algorithm, gamma }');
}

/** Returns the evaluations of checked options as an object. */
export const evaluationOf = ({ evaluation = {} }: AnyTrainOptions): EvaluationOptions =>
  (typeof evaluation === 'function' ? { evaluate: evaluation } : evaluation) as EvaluationOptions;

/** Returns the path of the file. Throws if its folder cannot be written. */
function writablePath(path: string | URL): string {
  const to = checkPath('dump', path);
  try {
    accessSync(dirname(to), constants.W_OK);
  } catch (error) {
    throw unavailableError(
      `dump: '${to}' cannot be written: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
  return to;
}

function checkPositive(name: string, value: unknown): void {
  if (typeof value !== 'number' || !(value > 0))
    throw rangeError(`${name} must be a number above 0, got ${describeValue(value)}`);
}
