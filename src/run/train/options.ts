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

export interface TrainOptions {
  /**
   * module that each thread loads, whose default export is the environment's class, or a function
   * that makes one
   */
  environment: URL;
  /** `options` of the environment's class or function, cloned */
  environmentOptions?: unknown;
  learner: LearnerChoice;
  /** default 'auto' */
  device?: string;
  /**
   * seed of weights, draws, environments and exploration, default 0 (threads race, so two runs with
   * one seed still differ)
   */
  seed?: number;
  /** collector threads, default 1 */
  workers?: number;
  /** environments of each thread, default 1 */
  environments?: number;
  /**
   * environment steps of the whole training, over all runs that resume each other, default 100,000
   */
  steps?: number;
  /**
   * seconds of the whole training, over all its runs, as in the result, default: no limit. The last
   * evaluation may take a tenth more.
   */
  seconds?: number;
  /**
   * the mean return at which the training is solved, and ends (a resumed training that has reached
   * it ends at once)
   */
  goal?: number;
  /** gradient steps for each environment step, default 1 */
  updatesPerStep?: number;
  /**
   * gradient steps of a tick, default: the learner's cycle, which is 1 unless it updates parts less
   * often
   */
  minibatches?: number;
  /** steps that the buffer holds, default 1,000,000 or `steps` if that is less */
  capacity?: number;
  /**
   * steps before the first update, default 1,000. They are random, unless `explore` says otherwise.
   */
  warmUp?: number;
  /** steps whose rewards one row sums, default 1 */
  nStep?: number;
  /**
   * observations that the learner sees at once, such as the last frames: [stack, …], oldest first,
   * default 1
   */
  stack?: number;
  /** samples rows with a large TD error more often, default false */
  prioritized?: boolean;
  /** default: random in the warm-up, and for dqn epsilon from 1 to 0.05 over 10,000 steps */
  explore?: Explore;
  /** for td3: deviation of the noise on actions, in half widths of the box, default 0.1 */
  noise?: number;
  evaluation?: {
    /** environment steps between two evaluations, default a twentieth of all */
    every?: number;
    /** greedy episodes of an evaluation, default 10 */
    episodes?: number;
    /**
     * episodes of the last evaluation, and of the one that confirms the goal, with other seeds,
     * default 100
     */
    confirm?: number;
  };
  /**
   * saves into the folder every 60 s, unless `every` says otherwise, and at the end. If the folder
   * holds a checkpoint of such a training, resumes it: its environments begin other episodes.
   */
  checkpoint?: { folder: string | URL; every?: string };
  /**
   * npz file for the buffer's contents at the end, as its dump() writes it, not written if `signal`
   * ended the training
   */
  dump?: string | URL;
  /** ends the training, with the results so far */
  signal?: AbortSignal;
  /** shows progress on the terminal, default false */
  display?: boolean;
  /** called after each evaluation */
  onPoint?: (point: CurvePoint) => void;
  /**
   * called with the parts before they run, and awaited, for example to serve a live page of them
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
