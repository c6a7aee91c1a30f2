/** Evaluates a fixed policy in whole episodes, independently of collecting and learning. */
import { setImmediate as turn } from 'node:timers/promises';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import { checkSignal, orAborted } from '../../shm/wait.ts';
import type { AnyEnvironment } from '../environments/environment.ts';
import type { EnvironmentSet, SteppedSet } from '../environments/environment-set.ts';
import type { Policy } from '../environments/explore.ts';
import { FrameStack } from '../environments/frame-stack.ts';
import { LongEpisodes, longEpisode } from '../environments/long-episodes.ts';
import { ShownMasks } from '../environments/masks.ts';
import { EnvironmentList } from '../environments/vector-environment.ts';

/** Most episodes of an evaluation. Its result has a return and a length for each of them. */
const MAX_EPISODES = 2 ** 24;

/** Options of evaluate(). */
export interface EvaluateOptions {
  /**
   * environments that are stepped together and stay open, or a set that an opener such as
   * gymnasium() has opened
   */
  environments: readonly AnyEnvironment[] | EnvironmentSet;
  /**
   * policy that acts for all environments at once. It gets their legal actions if they give action
   * masks
   */
  policy: Policy;
  /**
   * number of observations of each environment that the policy receives at once, oldest first,
   * default 1
   */
  stack?: number;
  /** number of episodes, each with its own seed, at most 2²⁴, default 10 */
  episodes?: number;
  /** seed from which the episodes' seeds are drawn, a whole number of at least 0, default 0 */
  seed?: number;
  /** signal that ends the evaluation: evaluate() rejects with its reason, default: none */
  signal?: AbortSignal;
}

/** The result of evaluate(). */
export interface Evaluation {
  /** mean of the returns */
  readonly meanReturn: number;
  /** standard deviation of the returns */
  readonly deviation: number;
  /** return of each episode, in the order of their seeds */
  readonly returns: Float64Array;
  /** environment steps of each episode, in the same order */
  readonly lengths: Float64Array;
}

/**
 * Stream of `seed` from which the episodes get their seeds. Collectors use other streams, whose
 * numbers count from 0.
 */
const STREAM = 2 ** 20;
const SEEDS = 2 ** 31;
/** Milliseconds after which an evaluation lets other work of the thread run. */
const SLICE_MS = 8;
/**
 * Environments for which a warning was emitted. A training evaluates the same environments
 * repeatedly, and warns only once.
 */
const warned = new WeakSet<object>();

/**
 * Plays episodes to their ends with a fixed policy. The seed of episode k does not depend on the
 * number of environments. Every 8 ms, other work of the thread can run. Emits one process warning,
 * EvaluationWarning, if an episode has not ended after 100,000 steps.
 *
 * @param options `environments`, `policy`, `stack` (default 1), `episodes` (default 10), `seed`
 *   (default 0) and `signal`
 * @returns mean and standard deviation of the returns, and return and length of each episode
 * @throws {TypeError|RangeError} for an invalid option, and for results that do not fit the spaces
 * @throws the signal's reason, and the errors of an environment or of the policy
 * @example
 * const environments = [new MyEnvironment(), new MyEnvironment()];
 * const { meanReturn, deviation } = await evaluate({ environments, policy, episodes: 100 });
 */
export async function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  checkKeys('evaluate', options, ['environments', 'policy', 'stack', 'episodes', 'seed', 'signal']);
  const { environments, policy, stack = 1, episodes = 10, seed = 0, signal } = options;
  checkCount('episodes', episodes, 1, MAX_EPISODES);
  checkSignal(signal);
  checkCount('seed', seed, 0);
  checkCount('stack', stack, 1, 2 ** 16);
  if (typeof policy?.act !== 'function')
    throw typeError(`policy must be something with act(obs, n), got ${describeValue(policy)}`);
  const name = (i: number) => `environment ${i} of those that evaluate`;
  const set = setOf(environments, episodes, name);
  const random = new Random(seed, STREAM);
  const returns = new Float64Array(episodes);
  const lengths = new Float64Array(episodes);
  const playing = new Int32Array(set.count);
  let next = 0;
  const long = new LongEpisodes(set.count, (i) => {
    if (warned.has(environments)) return;
    warned.add(environments);
    process.emitWarning(longEpisode(name(i)), 'EvaluationWarning');
  });
  signal?.throwIfAborted();
  const vector = set.play({
    name,
    nextSeed(i) {
      if (next === episodes) {
        long.rests(i);
        return null;
      }
      long.begins(i);
      playing[i] = next++;
      return random.below(SEEDS);
    },
    ended(i, value, length) {
      returns[playing[i] as number] = value;
      lengths[playing[i] as number] = length;
    },
  });
  await orAborted(Promise.resolve(vector.begin()), signal);
  await play(vector, new FrameStack(vector, stack), policy, long, signal);
  const meanReturn = returns.reduce((sum, value) => sum + value, 0) / episodes;
  const spread = returns.reduce((sum, value) => sum + (value - meanReturn) ** 2, 0) / episodes;
  return { meanReturn, deviation: Math.sqrt(spread), returns, lengths };
}

/**
 * Returns the environments as a set. Uses at most one environment of an array for each episode.
 */
function setOf(
  environments: EvaluateOptions['environments'],
  episodes: number,
  name: (environment: number) => string,
): EnvironmentSet {
  if (typeof (environments as EnvironmentSet | null)?.play === 'function')
    return environments as EnvironmentSet;
  if (!Array.isArray(environments) || environments.length === 0)
    throw typeError(
      `environments must be an array with an environment at least, got ${describeValue(environments)}`,
    );
  return new EnvironmentList(environments.slice(0, episodes), name);
}

async function play(
  vector: SteppedSet,
  frames: FrameStack,
  policy: Policy,
  long: LongEpisodes,
  signal: AbortSignal | undefined,
): Promise<void> {
  frames.begin();
  const shown = new ShownMasks();
  let since = performance.now();
  while (vector.going > 0) {
    const { count, actionMask } = vector;
    const actions =
      actionMask === null
        ? policy.act(frames.obs, count)
        : policy.act(frames.obs, count, shown.of(actionMask));
    const promised = vector.step(actions);
    // The signal also ends the wait for a step that never resolves.
    if (promised) await orAborted(Promise.resolve(promised), signal);
    frames.push();
    long.step();
    if (performance.now() - since < SLICE_MS) continue;
    await orAborted(turn(), signal);
    since = performance.now();
  }
}
