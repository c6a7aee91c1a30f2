/**
 * Saves and resumes a training: its options, its parts, and the counts of train() itself.
 *
 * If a training is resumed, an option that the caller gives replaces the saved one, with a warning
 * if they differ. An omitted option keeps its saved value. Add a new option of train() to
 * `savedOptions()`, unless it says where the training runs or who watches it. Checkpoint.restore()
 * throws for changes that the saved state does not allow.
 */

import { describeValue } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import { withPresentNames, withSavedNames } from '../../base/old-names.ts';
import type { Products } from '../../device/facts.ts';
import type { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { Checkpoint } from '../checkpoint/checkpoint.ts';
import { extraOf } from '../checkpoint/extra.ts';
import type { CheckpointParts } from '../checkpoint/parts.ts';
import type { LearnerChoice } from './algorithms.ts';
import type { SavedBest } from './evaluated-weights.ts';
import type { OwnLearner } from './learner-plan.ts';
import type { AnyTrainOptions, TrainOptions } from './options.ts';
import { isOwnLearner } from './own-learner.ts';
import type { TrainPlan } from './plan.ts';
import type { CurvePoint } from './progress.ts';

/**
 * A mean return that was confirmed to reach the goal, and the weights that reached it. The learner
 * may have newer weights, because ticks continued during the evaluation.
 */
export interface Solved {
  readonly meanReturn: number;
  readonly weights: Float32Array;
}

/** Counts of a training since the beginning of its first run. */
export interface TrainCounts {
  readonly ticks: number;
  readonly seconds: number;
  readonly curve: readonly CurvePoint[];
  /** the result that reached the goal, if any. Checkpoints of earlier versions do not have it */
  readonly solved?: Solved | null;
  /** the best weights so far. Checkpoints of earlier versions do not have them */
  readonly best?: SavedBest | null;
}

interface TrainParts {
  buffer: ReplayBuffer | TrajectoryBuffer;
  learner: OwnLearner;
  pipeline: ReplayPipeline;
  mailbox: WeightMailbox;
}

export class TrainCheckpoint implements AsyncDisposable {
  /** counts of the run that this one resumes, null in a first run */
  readonly before: TrainCounts | null;
  /** saved states of the collectors, for `resume` of their pool */
  readonly collectors: unknown;
  readonly #where: NonNullable<TrainPlan['checkpoint']> | null;
  readonly #options: SavedOptions;
  readonly #parts: CheckpointParts;
  #checkpoint: Checkpoint | null = null;

  /**
   * Restores the folder's checkpoint into the parts, if there is one. Without the option
   * `checkpoint` nothing is restored or saved.
   */
  static async of(
    plan: TrainPlan,
    parts: TrainParts,
    { options, warn, products }: Resumption,
  ): Promise<TrainCheckpoint> {
    const { checkpoint } = plan;
    const { products: here } = parts.learner.device.traits;
    if (checkpoint && products !== null && here !== products)
      throw rangeError(
        `products is '${here}' here, and '${products}' in the checkpoint of '${checkpoint.folder}'; open the device with products: '${products}', or name another folder`,
      );
    const restored = checkpoint
      ? await Checkpoint.restore(checkpoint.folder, parts as CheckpointParts)
      : null;
    if (restored) warn();
    return new TrainCheckpoint(
      plan,
      savedOptions(plan, options, here),
      parts as CheckpointParts,
      restored,
    );
  }

  private constructor(
    { checkpoint }: TrainPlan,
    options: SavedOptions,
    parts: CheckpointParts,
    restored: { tick: number; collectors: unknown; extra: unknown } | null,
  ) {
    this.#where = checkpoint ?? null;
    this.#options = options;
    this.#parts = parts;
    this.collectors = restored?.collectors;
    const counted = restored?.extra as Omit<TrainCounts, 'ticks'> | undefined;
    this.before = restored && counted ? { ...counted, ticks: restored.tick + 1 } : null;
  }

  /** Begins to save. Resolves with null without the option `checkpoint`. */
  async begin(
    collectors: NonNullable<CheckpointParts['collectors']>,
    counts: () => Omit<TrainCounts, 'ticks'>,
  ): Promise<Checkpoint | null> {
    if (this.#where === null) return null;
    const { folder, every = '60 s' } = this.#where;
    const extra = () => ({ ...counts(), options: this.#options });
    this.#checkpoint = await Checkpoint.open(folder, { ...this.#parts, collectors, extra, every });
    return this.#checkpoint;
  }

  /** Saves at the end of the training. The collectors must still be open. */
  async last(): Promise<void> {
    await this.#checkpoint?.save();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#checkpoint?.close();
  }
}

type Options = Readonly<Record<string, unknown>>;
const plain = (options: object) => options as Options;

/** The options that a checkpoint contains, with defaults. */
export type SavedOptions = Omit<
  TrainOptions,
  | 'learner'
  | 'environment'
  | 'environmentOptions'
  | 'device'
  | 'checkpoint'
  | 'dump'
  | 'signal'
  | 'display'
  | 'onPoint'
  | 'onOpen'
> & {
  /** options of a built-in learner, or an empty object for a learner of the caller */
  learner: Partial<LearnerChoice>;
  /** discount factor, for a learner of the caller whose rows have discounts */
  gamma?: number;
};

export interface Resumption {
  /** precision of products in the checkpoint, null without a checkpoint of such a training */
  readonly products: Products | null;
  /** the call's options, and the saved options that the call omits */
  readonly options: AnyTrainOptions;
  /**
   * Emits one process warning if the call's options differ from the saved ones. Call it after the
   * checkpoint was restored.
   */
  warn(): void;
}

/**
 * Options that are objects. A call may replace some of their entries, and the other entries stay as
 * saved.
 */
const nested = ['learner', 'explore', 'evaluation', 'epsilon'];
const optimizers = ['actorOptimizer', 'criticOptimizer', 'temperatureOptimizer'];
/** Options of learners that affect only the first gradient step, with their defaults. */
const initial: Options = { initialTemperature: 1, firstUpdate: 0 };

export function savedOptions(
  plan: TrainPlan,
  { learner, capacity }: AnyTrainOptions,
  products: Products = 'float32',
): SavedOptions {
  return {
    // A learner of the caller cannot be saved. Each run gives its own.
    learner: (isOwnLearner(learner)
      ? {}
      : withSavedNames(plain(learner))) as SavedOptions['learner'],
    seed: plan.seed,
    workers: plan.workers,
    environments: plan.environments,
    steps: plan.steps,
    seconds: plan.seconds,
    goal: plan.goal,
    updatesPerStep: plan.updatesPerStep,
    minibatches: plan.minibatches,
    warmUp: plan.warmUp,
    nStep: plan.nStep,
    stack: plan.stack,
    prioritized: plan.prioritized,
    deterministic: plan.deterministic,
    explore: plan.explore,
    evaluation: counted(plan.evaluation),
    // `plan.capacity` is rounded up, so that all lanes have the same length. If the caller gave a
    // capacity, that number is saved instead.
    capacity: capacity ?? plan.capacity,
    // Checkpoints of earlier versions have no such entry, and are those of 'float32'.
    ...(products === 'float32' ? {} : { products }),
    ...(plan.algorithm === 'td3' ? { noise: plan.noise } : {}),
    ...(plan.learner.own && plan.ordered ? { gamma: plan.gamma } : {}),
  };
}

/** Returns the counts of evaluations. A function cannot be saved, so each run gives its own. */
const counted = ({ evaluate: _, ...counts }: TrainPlan['evaluation']) => counts;

/** Merges the options with those that the folder of `options.checkpoint` contains. */
export async function resumptionOf(options: AnyTrainOptions): Promise<Resumption> {
  const own = isOwnLearner(options.learner);
  const given = own
    ? options
    : ({
        ...options,
        learner: withPresentNames('train: learner', options.learner as LearnerChoice),
      } as TrainOptions);
  const { checkpoint } = given;
  const algorithm = own ? undefined : (given as TrainOptions).learner?.algorithm;
  const extra =
    checkpoint && ((await extraOf(checkpoint.folder)) as { options?: SavedOptions } | undefined);
  const saved = extra?.options;
  // If the algorithms differ, the saved options do not fit. Checkpoint.restore() then throws an
  // error that names the algorithms.
  if (!checkpoint || !saved || saved.learner?.algorithm !== algorithm)
    return { options: given, products: null, warn() {} };
  const { deterministic = false } = saved;
  if (given.deterministic !== undefined && given.deterministic !== deterministic)
    throw rangeError(
      `deterministic is ${given.deterministic} here, and ${deterministic} in the checkpoint of '${checkpoint.folder}'; omit the option, or name another folder`,
    );
  const learner = own ? {} : plain(given.learner);
  const savedLearner = withPresentNames(checkpoint.folder.toString(), plain(saved.learner));
  const warn = () => {
    const changed = differences(plain(given), plain(saved));
    const { folder } = checkpoint;
    const texts = [
      ...(changed.length > 0
        ? [`options given now replace those saved in '${folder}': ${changed.join(', ')}`]
        : []),
      ...withoutEffect(learner, savedLearner, folder),
    ];
    if (texts.length > 0) process.emitWarning(`train: ${texts.join('; ')}`, 'CheckpointWarning');
  };
  const { learner: _, ...others } = saved;
  const base = own ? others : { ...others, learner: withoutRivals(learner, savedLearner) };
  return {
    options: merged(base, plain(given)) as unknown as AnyTrainOptions,
    products: saved.products ?? 'float32',
    warn,
  };
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
  (nested.includes(key) || optimizers.includes(key)) && typeof value === 'object' && value !== null;

/** Returns the saved options of a learner without those that a given option excludes. */
function withoutRivals(given: Options, saved: Options): Options {
  const left: Record<string, unknown> = { ...saved };
  if (given.algorithm === 'dqn' && given.targetEvery !== undefined) delete left.tau;
  if (given.algorithm === 'dqn' && given.tau !== undefined) delete left.targetEvery;
  const clips = (name: string) => (given[name] as Options | undefined)?.maxGradNorm !== undefined;
  if (optimizers.some(clips)) delete left.maxGradNorm;
  if (given.maxGradNorm !== undefined)
    for (const name of optimizers.filter((key) => isNested(key, left[key]))) {
      const { maxGradNorm: _, ...others } = left[name] as Options;
      left[name] = others;
    }
  return left;
}

/**
 * Returns a text for each option that is in both and differs. It leaves out `learner`, because the
 * learner names its own differences when it loads its state.
 */
function differences(given: Options, saved: Options, at = ''): string[] {
  return Object.entries(given).flatMap(([key, value]) => {
    const before = saved[key];
    if (key === 'learner' || value === undefined || before === undefined) return [];
    if (isNested(key, value) && isNested(key, before))
      return differences(value, before, `${at}${key}.`);
    return value === before
      ? []
      : [`${at}${key} ${describeValue(value)} (saved: ${describeValue(before)})`];
  });
}

const withoutEffect = (given: Options, saved: Options, folder: string | URL): string[] =>
  Object.entries(initial)
    .filter(([key, value]) => given[key] !== undefined && given[key] !== (saved[key] ?? value))
    .map(
      ([key]) =>
        `learner.${key} ${describeValue(given[key])} has no effect: it applies to the first gradient step of a training, and ` +
        `the training in '${folder}' has passed it`,
    );
