/** The options of train(), checked on entry. */

import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import { checkCount, checkFlag, checkKeys, checkPath, describeValue } from '../../base/checks.ts';
import { rangeError, typeError, unavailableError } from '../../base/errors.ts';
import { checkSignal } from '../../shm/wait.ts';
import { parseEvery } from '../checkpoint/every.ts';
import type { Explore } from '../environments/explore.ts';
import type { LearnerChoice } from './algorithms.ts';
import type { CurvePoint, TrainParts } from './progress.ts';

/** Options of train(). A resumed training keeps the saved values of omitted options. */
export interface TrainOptions {
  /**
   * URL of a module that each thread loads. Its default export is the environment's class, a
   * function that makes one, or gymnasium().
   */
  environment: URL;
  /** `options` of the environment's class or function, cloned for each thread, default: none */
  environmentOptions?: unknown;
  /** algorithm and options of the learner, `{ algorithm: 'dqn' | 'td3' | 'sac', … }` */
  learner: LearnerChoice;
  /** device of the learner, default 'auto' */
  device?: string;
  /**
   * seed of weights, draws, environments and exploration, default 0. Threads race, so two runs with
   * one seed still differ.
   */
  seed?: number;
  /** collector threads, 1 to 16, default 1 */
  workers?: number;
  /** environments of each thread, 1 to 65,536, default 1 */
  environments?: number;
  /**
   * environment steps of the whole training, over all runs that resume each other, default 100,000
   */
  steps?: number;
  /**
   * seconds of the whole training, over all its runs, default: no limit. The last evaluation may
   * take a tenth more.
   */
  seconds?: number;
  /**
   * mean return at which the training is solved and ends, default: none. A resumed training that
   * has reached it ends at once.
   */
  goal?: number;
  /** gradient steps per environment step, more than 0, default 1 */
  updatesPerStep?: number;
  /**
   * gradient steps of a tick, a multiple of the learner's cycle. Default: that cycle, which is 1
   * unless the learner updates parts less often (TD3: 2)
   */
  minibatches?: number;
  /** environment steps that the buffer holds, default: `steps`, at most 1,000,000 */
  capacity?: number;
  /**
   * environment steps before the first update, default 1,000. They are random, unless `explore`
   * says otherwise. For trajectories of many environments the default is larger.
   */
  warmUp?: number;
  /** environment steps whose rewards one row sums, 1 to 65,536, default 1 */
  nStep?: number;
  /**
   * number of observations that the learner receives at once, 1 to 65,536, default 1. They are
   * [stack, …], oldest first, such as the last frames.
   */
  stack?: number;
  /** whether rows with a large TD error are sampled more often, default false */
  prioritized?: boolean;
  /**
   * exploration, default: random in the warm-up, and for dqn epsilon from 1 to 0.05 over 10,000
   * steps
   */
  explore?: Explore;
  /**
   * standard deviation of td3's noise on actions, in half widths of the box, at least 0, default
   * 0.1
   */
  noise?: number;
  /** evaluations of the newest weights */
  evaluation?: {
    /** environment steps between two evaluations, default: a twentieth of `steps` */
    every?: number;
    /** greedy episodes of an evaluation, default 10 */
    episodes?: number;
    /**
     * episodes of the last evaluation, and of the one that confirms the goal with other seeds,
     * default 100
     */
    confirm?: number;
  };
  /**
   * folder to save into at the end and every `every`, default '60 s'. If the folder holds a
   * checkpoint of such a training, train() resumes it. Its environments begin other episodes.
   * Default: none
   */
  checkpoint?: { folder: string | URL; every?: string };
  /**
   * npz file for the buffer's contents at the end, as its dump() writes it, default: none. It is
   * not written if `signal` ended the training.
   */
  dump?: string | URL;
  /** signal that ends the training with its results so far, default: none */
  signal?: AbortSignal;
  /** whether progress is shown on the terminal, default false */
  display?: boolean;
  /** function that is called after each evaluation */
  onPoint?: (point: CurvePoint) => void;
  /**
   * function that is called with the parts before they run, and awaited, for example to serve a
   * live page of them
   */
  onOpen?: (parts: TrainParts) => unknown;
}

/** Least and most of each count. Every collector waits at one limiter, which has room for 16. */
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
  'seconds',
  'goal',
  'updatesPerStep',
  'prioritized',
  'explore',
  'noise',
  'evaluation',
  'checkpoint',
  'dump',
  'signal',
  'display',
  'onPoint',
  'onOpen',
];

/** Returns the options without undefined ones, which count as omitted. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as T;
}

/**
 * Returns the options without undefined ones, also inside of them. Throws for errors that are
 * visible before the environment is known.
 */
export function checkedTrain(given: TrainOptions): TrainOptions {
  checkKeys('train', given, [...Object.keys(counts), ...others]);
  const options = { ...defined(given) };
  for (const name of ['learner', 'explore', 'evaluation'] as const)
    if (typeof options[name] === 'object' && options[name] !== null)
      options[name] = defined(options[name]) as never;
  const { environment, signal, goal, seconds, updatesPerStep = 1, noise = 0.1, learner } = options;
  if (
    options.noise !== undefined &&
    (learner as { algorithm?: unknown } | null)?.algorithm !== 'td3'
  )
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
  if (typeof noise !== 'number' || !(noise >= 0))
    throw rangeError(`noise must be a number of at least 0, got ${describeValue(noise)}`);
  checkFlag('prioritized', options.prioritized ?? false);
  checkFlag('display', options.display ?? false);
  checkSignal(signal);
  for (const name of ['onPoint', 'onOpen'] as const)
    if (options[name] !== undefined && typeof options[name] !== 'function')
      throw typeError(`${name} must be a function, got ${describeValue(options[name])}`);
  const { evaluation = {}, checkpoint } = options;
  if (checkpoint !== undefined) {
    checkKeys('checkpoint', checkpoint, ['folder', 'every']);
    if (checkpoint.every !== undefined) parseEvery(checkpoint.every);
    options.checkpoint = {
      ...checkpoint,
      folder: checkPath('checkpoint.folder', checkpoint.folder),
    };
  }
  if (options.dump !== undefined) options.dump = writablePath(options.dump);
  checkKeys('evaluation', evaluation, ['every', 'episodes', 'confirm']);
  for (const name of ['every', 'episodes', 'confirm'] as const)
    if (evaluation[name] !== undefined) checkCount(`evaluation.${name}`, evaluation[name]);
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

/** Checks before the training that the file can be written. */
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
