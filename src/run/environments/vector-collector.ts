/**
 * A collector of environments, in a thread of a CollectorPool. It makes the environments, chooses
 * actions for all of them at once, and resets finished episodes. It returns their steps as the
 * columns of the pool's buffer.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import type { Collector, CollectorContext, CollectorFactory } from '../collectors/collector.ts';
import {
  type Columns,
  lacksMasks,
  rowColumns,
  type Stepped,
  stepColumns,
  warnOfMasks,
} from './columns.ts';
import type { AnyEnvironment, EnvironmentContext } from './environment.ts';
import {
  type EnvironmentSet,
  type EnvironmentSets,
  isEnvironmentProvider,
} from './environment-set.ts';
import { type Explore, Explorer, type Policy } from './explore.ts';
import { FrameStack } from './frame-stack.ts';
import { LongEpisodes, longEpisode } from './long-episodes.ts';
import { observationArray, type Spaces } from './spaces.ts';
import { closeAll, EnvironmentList } from './vector-environment.ts';

/** The arguments of the function that makes a policy. */
export interface PolicyContext<O = unknown> {
  /** spaces of each environment */
  readonly spaces: Spaces;
  /** the pool's `options`, cloned */
  readonly options: O;
  /** seed of the policy's random numbers, different in each worker */
  readonly seed: number;
  /** number of this worker, from 0 */
  readonly worker: number;
}

/** Options of vectorCollector(). `O` is the type of the pool's options. */
export interface VectorCollectorOptions<O = unknown> {
  /** function that makes one environment, or an opener of all of a worker's, such as gymnasium() */
  make:
    | ((context: EnvironmentContext<O>) => AnyEnvironment | Promise<AnyEnvironment>)
    | EnvironmentSets;
  /**
   * number of environments of a worker, 1 to 65,536, default 1. With a TrajectoryBuffer, each of
   * the worker's lanes has one environment.
   */
  environments?: number;
  /**
   * number of observations of each environment that the policy receives at once, 1 to 65,536,
   * default 1. The array is [environments, stack, …], oldest first.
   */
  stack?: number;
  /** Makes the policy. Default: all actions are random. */
  policy?(context: PolicyContext<O>): Policy | Promise<Policy>;
  /** exploration, default: only actions of the policy */
  explore?: Explore;
}

/**
 * Random numbers that derive from one seed. Environments use the even streams of the seed, and
 * workers the odd streams, so no two of them draw the same numbers.
 */
const seedsOf = (seed: number, environment: number) => new Random(seed, 2 * environment);
const actionsOf = (seed: number, worker: number) => new Random(seed, 2 * worker + 1);
/** First of the streams from which recreated collectors get their seeds. */
const RESTARTS = 2 ** 21;
/** Seeds of episodes are whole numbers below this, which fit every environment. */
const SEEDS = 2 ** 31;

/**
 * Makes the default export of a collector's module, from a function that makes one environment. The
 * collector chooses actions for all environments of a worker at once, resets finished episodes, and
 * returns the columns of the pool's buffer. For a ReplayBuffer these are `obs nextObs actions
 * rewards dones truncated terminated`. For a TrajectoryBuffer they are steps of `obs` and
 * `actions`. Environments that give action masks also have `actionMask` and `nextActionMask`. The
 * results of environments are checked, and errors name the environment and the step.
 *
 * @param options `make`, `environments` (default 1), `stack` (default 1), `policy` (default: random
 *   actions) and `explore`, which is checked when the collector is made
 * @throws {TypeError|RangeError} for an invalid option. The text names it
 * @example
 * export default vectorCollector({
 *   make: () => new MyEnvironment(),
 *   environments: 16,
 *   policy: () => new DqnPolicy({ obsDim: 4, actions: 2 }),
 * });
 */
export function vectorCollector<O = unknown>(
  options: VectorCollectorOptions<O>,
): CollectorFactory<O, object> {
  checkKeys('vectorCollector', options, ['make', 'environments', 'stack', 'policy', 'explore']);
  const { make, environments, policy } = options;
  if (typeof make !== 'function' && !isEnvironmentProvider(make))
    throw typeError(
      `make must be a function that makes an environment, or of gymnasium(); got ${describeValue(make)}`,
    );
  if (policy !== undefined && typeof policy !== 'function')
    throw typeError(`policy must be a function that makes a policy, got ${describeValue(policy)}`);
  checkCount('stack', options.stack ?? 1, 1, 2 ** 16);
  if (environments !== undefined) checkCount('environments', environments, 1, 2 ** 16);
  return (context) => open(options, context);
}

async function open<O>(
  { make, environments, stack = 1, policy: makePolicy, explore = {} }: VectorCollectorOptions<O>,
  context: CollectorContext<O>,
): Promise<Collector> {
  const { worker, workers, restarts, stepsBefore, options, writer, fields, report } = context;
  // A recreated collector has another seed, so that it does not repeat episodes.
  const seed =
    restarts === 0 ? context.seed : new Random(context.seed, RESTARTS + restarts).below(SEEDS);
  if (writer !== null && environments !== undefined && environments !== writer.lanes)
    throw rangeError(
      `this worker has ${writer.lanes} lanes of the buffer, an environment each; environments: ${environments} is for a ReplayBuffer`,
    );
  const count = writer?.lanes ?? environments ?? 1;
  const first = writer?.firstLane ?? worker * count;
  const set = await setOf(make, { first, count, options });
  try {
    const seeds = Array.from({ length: count }, (_, i) => seedsOf(seed, first + i));
    const name = (i: number) => `environment ${first + i}`;
    const long = new LongEpisodes(count, (i) =>
      process.emitWarning(longEpisode(name(i)), 'CollectorWarning'),
    );
    const vector = set.play({
      nextSeed(i) {
        long.begins(i);
        return (seeds[i] as Random).below(SEEDS);
      },
      ended: (_, episodeReturn, length) => report.episode(episodeReturn, length),
      name,
    });
    const { spaces } = vector;
    const random = actionsOf(seed, worker);
    const policy =
      (await makePolicy?.({ spaces, options, worker, seed: random.below(SEEDS) })) ?? null;
    if (policy !== null && typeof policy.act !== 'function')
      throw typeError(
        `policy must return an object with act(obs, n), it returned ${describeValue(policy)}`,
      );
    const explorer = new Explorer(spaces, count, {
      policy,
      explore,
      random,
      workers,
      steps: stepsBefore,
    });
    const obs = observationArray(spaces, count);
    const actions = new Float32Array(count * spaces.action.size);
    const isMasked = spaces.action.kind === 'discrete' && 'actionMask' in fields;
    const actionMask = isMasked ? new Uint8Array(count * spaces.action.n) : null;
    const stepped = { vector, obs, actions, actionMask };
    const columns = writer ? stepColumns(fields, stepped) : rowColumns(fields, stepped);
    const frames = new FrameStack(vector, stack);
    await vector.begin();
    // The workers of a pool have the same buffer, so only the first one warns.
    if (lacksMasks(fields, vector) && worker === 0) warnOfMasks(writer !== null);
    frames.begin();
    // Only the first worker warns of long episodes, so that the workers do not repeat the warning.
    const stepping = worker === 0 ? () => long.step() : () => {};
    return collectorOf(stepped, columns, frames, explorer, report, {
      stepping,
      close: () => set.close(),
    });
  } catch (error) {
    await Promise.resolve(set.close()).catch(() => {});
    throw error;
  }
}

/** Returns a worker's environments. They are made one by one, unless `make` opens all at once. */
async function setOf<O>(
  make: VectorCollectorOptions<O>['make'],
  { first, count, options }: { first: number; count: number; options: O },
): Promise<EnvironmentSet> {
  if (isEnvironmentProvider(make)) return make.open({ count, options });
  const environments: AnyEnvironment[] = [];
  try {
    for (let i = 0; i < count; i++) environments.push(await make({ index: first + i, options }));
    return new EnvironmentList(environments, (i) => `environment ${first + i}`);
  } catch (error) {
    await closeAll(environments).catch(() => {});
    throw error;
  }
}

function collectorOf(
  { vector, obs, actions, actionMask }: Stepped,
  columns: Columns,
  frames: FrameStack,
  explorer: Explorer,
  report: CollectorContext['report'],
  { stepping, close }: { stepping: () => void; close: () => void | Promise<void> },
): Collector {
  const { count } = vector;
  const filled = Object.entries(columns);
  const rows: Record<string, unknown> = {};
  const brought = () => {
    frames.push();
    stepping();
    const steps = count - (vector.skipped?.reduce((sum, one) => sum + one, 0) ?? 0);
    if (steps === 0) return null;
    for (const [name, fill] of filled) rows[name] = fill();
    report.steps(steps);
    return rows;
  };
  return {
    load: (weights) => explorer.load(weights),
    collect() {
      obs.set(vector.obs as never);
      if (vector.actionMask !== null) actionMask?.set(vector.actionMask);
      const chosen = explorer.act(frames.obs, count, vector.actionMask);
      const promised = vector.step(chosen);
      actions.set(chosen);
      return promised ? promised.then(brought) : brought();
    },
    close,
  };
}
