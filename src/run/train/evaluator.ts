/**
 * Evaluates a training: plays greedy episodes with the newest published weights, in other
 * environments than those of the collectors.
 */

import { Random } from '../../base/random.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { AnyEnvironment } from '../environments/environment.ts';
import { type EnvironmentSet, isEnvironmentProvider } from '../environments/environment-set.ts';
import type { EnvironmentMaker } from '../environments/load-environment.ts';
import { closeAll, EnvironmentList } from '../environments/vector-environment.ts';
import type { TrainedPolicy } from './algorithms.ts';
import { type Evaluation, evaluate } from './evaluate.ts';
import { evaluateBy } from './evaluate-function.ts';
import { type AnyTrainOptions, evaluationOf } from './options.ts';
import type { TrainPlan } from './plan.ts';
import { makePolicy } from './policies.ts';

/**
 * Stream of `seed` from which each evaluation gets its seed. Collectors and evaluate() use other
 * streams.
 */
const STREAM = 2 ** 20 + 1;
const SEEDS = 2 ** 31;

export class Evaluator {
  readonly weights: Float32Array;
  readonly policy: TrainedPolicy;
  readonly #mailbox: WeightMailbox;
  readonly #environments: EnvironmentSet;
  readonly #stack: number;
  readonly #by: TrainPlan['evaluation']['evaluate'];
  /** draws another seed for each evaluation */
  readonly #random: Random;
  /** returns a new policy that acts greedily */
  readonly #make: () => Promise<TrainedPolicy>;
  #version = 0;
  /** version of the weights that were evaluated last */
  #evaluated = 0;

  static async open(
    plan: TrainPlan,
    mailbox: WeightMailbox,
    environments: EnvironmentSet,
  ): Promise<Evaluator> {
    const { learner, seed, noise, spaces, stack } = plan;
    const make = () =>
      makePolicy(learner.policy, {
        spaces,
        stack,
        seed,
        worker: 0,
        greedy: true,
        noise,
      }) as Promise<TrainedPolicy>;
    return new Evaluator(plan, mailbox, environments, make, await make());
  }

  private constructor(
    { seed, stack, evaluation }: TrainPlan,
    mailbox: WeightMailbox,
    environments: EnvironmentSet,
    make: () => Promise<TrainedPolicy>,
    policy: TrainedPolicy,
  ) {
    this.weights = new Float32Array(mailbox.length);
    this.#make = make;
    this.policy = policy;
    this.#mailbox = mailbox;
    this.#environments = environments;
    this.#stack = stack;
    this.#by = evaluation.evaluate;
    this.#random = new Random(seed, STREAM);
  }

  /**
   * Loads `weights` into the policy. Without `weights`, loads the newest published weights if they
   * are new.
   */
  take(weights?: Float32Array): void {
    if (weights) this.weights.set(weights);
    else if (this.#mailbox.published === this.#version) return;
    else {
      const version = this.#mailbox.read(this.weights, this.#version);
      if (version > 0) this.#version = version;
    }
    this.policy.load(this.weights);
  }

  /** Returns a new policy that acts greedily by these weights. */
  async policyOf(weights: Float32Array): Promise<TrainedPolicy> {
    const policy = await this.#make();
    policy.load(weights);
    return policy;
  }

  /**
   * Evaluates the newest weights. If `newest` is false, evaluates the weights of the previous call
   * again. `steps` is the number of environment steps so far. The result's `again` is true if these
   * weights were evaluated before. Resolves with null if no weights were published, or if the signal
   * ended the evaluation.
   */
  async evaluate(
    episodes: number,
    { newest, steps }: { newest: boolean; steps: number },
    signal: AbortSignal,
  ): Promise<(Pick<Evaluation, 'meanReturn' | 'deviation'> & { again: boolean }) | null> {
    if (newest) this.take();
    if (this.#version === 0) return null;
    const seed = this.#random.below(SEEDS);
    const { policy } = this;
    const common = { policy, episodes, seed, signal };
    const environments = this.#environments;
    try {
      const { meanReturn, deviation } = this.#by
        ? await evaluateBy(this.#by, { ...common, weights: this.weights.slice(), steps })
        : await evaluate({ ...common, environments, stack: this.#stack });
      const again = this.#evaluated === this.#version;
      this.#evaluated = this.#version;
      return { meanReturn, deviation, again };
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }
}

/**
 * Most environments that an evaluation steps together. With more episodes than environments, an
 * environment plays several episodes in turn.
 */
const MAX_ENVIRONMENTS = 10;

/** Opens the environments that an evaluator steps. */
export async function openEvaluated(
  make: EnvironmentMaker,
  given: AnyTrainOptions,
): Promise<EnvironmentSet> {
  const { environmentOptions: options, workers = 1, environments = 1, signal } = given;
  const { episodes = 10, confirm = 100, evaluate: by } = evaluationOf(given);
  // A function of the caller has its own environments. Only the spaces of this one are needed then.
  const count = by ? 1 : Math.min(MAX_ENVIRONMENTS, Math.max(episodes, confirm));
  if (isEnvironmentProvider(make)) return make.open({ count, options });
  const made: AnyEnvironment[] = [];
  try {
    // The environments of collectors have the indices from 0 to before workers × environments.
    // These environments have the indices after them. At least one is made, because its spaces are
    // needed.
    while (made.length === 0 || (made.length < count && !signal?.aborted))
      made.push(await make({ index: workers * environments + made.length, options }));
    return new EnvironmentList(made, (i) => `environment ${i} of those that evaluate`);
  } catch (error) {
    await closeAll(made).catch(() => {});
    throw error;
  }
}
