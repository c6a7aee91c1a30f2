/** What train() is given, checked on entry. */

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
   * module whose default export is the environment's class, or a function that makes one; each
   * thread loads it
   */
  environment: URL;
  /** what that is given as `options`; cloned */
  environmentOptions?: unknown;
  learner: LearnerChoice;
  /** default 'auto' */
  device?: string;
  /**
   * of weights, draws, environments and exploration; threads race, so two runs of one seed still
   * differ. Default 0
   */
  seed?: number;
  /** collector threads; default 1 */
  workers?: number;
  /** environments of each; default 1 */
  environments?: number;
  /**
   * environment steps of the whole training, over all runs that resume each other; default 100,000
   */
  steps?: number;
  /**
   * seconds of the whole training, over all its runs, as in the result; default: no limit. The last
   * evaluation may take a tenth more.
   */
  seconds?: number;
  /**
   * the mean return at which the training is solved, and over; a resumed training that has reached
   * it is over at once
   */
  goal?: number;
  /** gradient steps for each environment step; default 1 */
  updatesPerStep?: number;
  /**
   * gradient steps of a tick; default 1, of a learner that moves parts every so many steps that
   * many
   */
  minibatches?: number;
  /** steps that the buffer holds; default 1,000,000, at most `steps` */
  capacity?: number;
  /**
   * steps before the first update; default 1,000. They are random, unless `explore` says otherwise.
   */
  warmUp?: number;
  /** rewards of so many steps in one row; default 1 */
  nStep?: number;
  /**
   * observations that the learner sees at once, such as the last frames: [stack, …], oldest first;
   * default 1
   */
  stack?: number;
  /** rows that were far off are drawn more often; default false */
  prioritized?: boolean;
  /** default: random in the warm-up; of dqn epsilon falls from 1 to 0.05 over 10,000 steps */
  explore?: Explore;
  /** of td3: deviation of the noise on actions, in half widths of the box; default 0.1 */
  noise?: number;
  evaluation?: {
    /** environment steps between two looks; default a twentieth of all */
    every?: number;
    /** greedy episodes of a look; default 10 */
    episodes?: number;
    /** of the last look, and of the one that confirms the goal: with other seeds; default 100 */
    confirm?: number;
  };
  /**
   * where it is saved, every 60 s unless `every` says otherwise, and at its end. Where the folder
   * holds a checkpoint of such a training, it goes on from there: its environments begin other
   * episodes.
   */
  checkpoint?: { folder: string | URL; every?: string };
  /**
   * npz file for what the buffer holds when it is over, as its dump() writes it; not where `signal`
   * ended it
   */
  dump?: string | URL;
  /** ends it, with what has been reached */
  signal?: AbortSignal;
  /** shows on the terminal how it goes; default false */
  display?: boolean;
  /** told of each look */
  onPoint?: (point: CurvePoint) => void;
  /** given the parts before they run, and waited for: such as what serves a live page of them */
  onOpen?: (parts: TrainParts) => unknown;
}

/** Counts: their least and most. Every collector waits at one limiter, which has room for 16. */
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

/** Without what is undefined: that is not given. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as T;
}

/**
 * The options without what is undefined, inside of them too. Throws for what can be said before the
 * environment is known.
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
    throw typeError('noise is of td3: sac explores by its own deviations, dqn by explore.epsilon');
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

/** What cannot be written is said before the training, not behind it. */
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
