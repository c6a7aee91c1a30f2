/**
 * The options of a resumed training. One rule: an option that the call gives replaces the saved one, with a warning if they differ; an
 * option that the call does not give stays as saved. A new option of train() belongs into `savedOptions()`, unless it says where the
 * training runs or who watches it. Options that the saved state does not allow to change are refused by Checkpoint.restore().
 */

import { shown } from '../../base/checks.ts';
import { extraOf } from '../checkpoint/extra.ts';
import type { TrainOptions, TrainPlan } from './train-options.ts';

type Options = Readonly<Record<string, unknown>>;
const plain = (options: object) => options as Options;

/** What a checkpoint keeps of the options, with defaults in place. */
export type SavedOptions = Omit<
  TrainOptions,
  'environment' | 'environmentOptions' | 'device' | 'checkpoint' | 'dump' | 'signal' | 'display' | 'onPoint' | 'onOpen'
>;

export interface Resumption {
  /** the call's, and the saved ones that it does not give */
  readonly options: TrainOptions;
  /** Emits one process warning if the call gives others than the saved ones. For a checkpoint that was restored. */
  warn(): void;
}

/** Options whose own entries may be given one by one. */
const nested = ['learner', 'explore', 'evaluation', 'epsilon'];
const optimisers = ['actorOptimiser', 'criticOptimiser', 'temperatureOptimiser'];
/** Options of learners for the first gradient step, and their defaults. */
const initial: Options = { initialTemperature: 1, firstUpdate: 0 };

export function savedOptions(plan: TrainPlan, { learner, capacity }: TrainOptions): SavedOptions {
  const { seed, workers, environments, steps, seconds, goal, updatesPerStep, minibatches, warmUp, nStep, stack } = plan;
  const { prioritized, explore, noise, evaluation } = plan;
  return {
    ...{
      learner,
      seed,
      workers,
      environments,
      steps,
      seconds,
      goal,
      updatesPerStep,
      minibatches,
      warmUp,
      nStep,
      stack,
    },
    // The plan rounds it up to lanes of one length.
    ...{ prioritized, explore, evaluation, capacity: capacity ?? plan.capacity },
    ...(plan.algorithm === 'td3' ? { noise } : {}),
  };
}

/** Reads what the folder of `given.checkpoint` keeps. */
export async function resumptionOf(given: TrainOptions): Promise<Resumption> {
  const { checkpoint } = given;
  const extra = checkpoint && ((await extraOf(checkpoint.folder)) as { options?: SavedOptions } | undefined);
  const saved = extra?.options;
  // Of another algorithm no option fits, and Checkpoint.restore() says so.
  if (!checkpoint || !saved || saved.learner?.algorithm !== given.learner?.algorithm)
    return { options: given, warn() {} };
  const [learner, savedLearner] = [plain(given.learner), plain(saved.learner)];
  const warn = () => {
    const odd = differences(plain(given), plain(saved));
    const { folder } = checkpoint;
    const texts = [
      ...(odd.length > 0 ? [`options given now replace those saved in '${folder}': ${odd.join(', ')}`] : []),
      ...withoutEffect(learner, savedLearner, folder),
    ];
    if (texts.length > 0) process.emitWarning(`train: ${texts.join('; ')}`, 'CheckpointWarning');
  };
  const base = { ...saved, learner: withoutRivals(learner, savedLearner) };
  return { options: merged(base, plain(given)) as unknown as TrainOptions, warn };
}

function merged(saved: Options, given: Options): Options {
  const whole: Record<string, unknown> = { ...saved };
  for (const [key, value] of Object.entries(given)) {
    const before = saved[key];
    if (value === undefined) continue;
    whole[key] = isNested(key, value) && isNested(key, before) ? merged(before, value) : value;
  }
  return whole;
}

const isNested = (key: string, value: unknown): value is Options =>
  (nested.includes(key) || optimisers.includes(key)) && typeof value === 'object' && value !== null;

/** The saved options of a learner without those that exclude a given one. */
function withoutRivals(given: Options, saved: Options): Options {
  const left: Record<string, unknown> = { ...saved };
  if (given.algorithm === 'dqn' && given.targetEvery !== undefined) delete left.tau;
  if (given.algorithm === 'dqn' && given.tau !== undefined) delete left.targetEvery;
  const clips = (name: string) => (given[name] as Options | undefined)?.maxGradNorm !== undefined;
  if (optimisers.some(clips)) delete left.maxGradNorm;
  if (given.maxGradNorm !== undefined)
    for (const name of optimisers.filter((key) => isNested(key, left[key]))) {
      const { maxGradNorm: _, ...others } = left[name] as Options;
      left[name] = others;
    }
  return left;
}

/** A text for each entry that both have and that differs. The learner names its own when it loads its state. */
function differences(given: Options, saved: Options, at = ''): string[] {
  return Object.entries(given).flatMap(([key, value]) => {
    const before = saved[key];
    if (key === 'learner' || value === undefined || before === undefined) return [];
    if (isNested(key, value) && isNested(key, before)) return differences(value, before, `${at}${key}.`);
    return value === before ? [] : [`${at}${key} ${shown(value)} (saved: ${shown(before)})`];
  });
}

const withoutEffect = (given: Options, saved: Options, folder: string | URL): string[] =>
  Object.entries(initial)
    .filter(([key, value]) => given[key] !== undefined && given[key] !== (saved[key] ?? value))
    .map(
      ([key]) =>
        `learner.${key} ${shown(given[key])} has no effect: it is for the first gradient step of a training, and ` +
        `the one in '${folder}' is past it`,
    );
