/** Steps a set of poles, epsilon-greedily by the newest weights. Runs in a pool's thread, or inline in lock-step. */
import { type Collector, type CollectorContext, defineCollector, type OffPolicyRows, Random } from '../../src/index.ts';
import { MlpPolicy } from '../../src/learner/index.ts';
import { ACTIONS, CartPoles, OBS_DIM } from './cartpole.ts';
import { networkSizes, type Settings } from './settings.ts';

export class CartPoleCollector implements Collector<OffPolicyRows> {
  readonly #poles: CartPoles;
  readonly #random: Random;
  readonly #policy: MlpPolicy;
  readonly #report: CollectorContext['report'];
  readonly #settings: Settings;
  /** collectors of the pool: a worker takes the others to have stepped as often as itself */
  readonly #workers: number;
  readonly #rows: Required<Pick<OffPolicyRows, 'obs' | 'nextObs' | 'actions' | 'rewards' | 'dones' | 'truncated'>>;
  #steps = 0;
  #acts = false;

  constructor({ worker, workers, seed, options: settings, report }: CollectorContext<Settings>) {
    const count = settings.environments;
    this.#settings = settings;
    this.#workers = workers;
    this.#report = report;
    this.#random = new Random(seed, 2 * worker + 1);
    this.#poles = new CartPoles(count, new Random(seed, 2 * worker));
    this.#policy = new MlpPolicy({ sizes: networkSizes(settings) });
    this.#rows = {
      obs: new Float32Array(count * OBS_DIM),
      nextObs: new Float32Array(count * OBS_DIM),
      actions: new Float32Array(count),
      rewards: new Float32Array(count).fill(1),
      dones: new Float32Array(count),
      truncated: new Float32Array(count),
    };
  }

  load(weights: Float32Array): void {
    this.#policy.load(weights);
    this.#acts = true;
  }

  /** One step of every pole. next_obs is the episode's real last observation; the reset comes after it was copied. */
  collect(): OffPolicyRows {
    const { count, obs, terminated, truncated, steps } = this.#poles;
    const rows = this.#rows;
    const greedy = this.#acts ? this.#policy.act(obs, count) : null;
    const epsilon = this.#epsilon();
    rows.obs.set(obs);
    for (let pole = 0; pole < count; pole++) {
      const explores = greedy === null || this.#random.next() < epsilon;
      const action = explores ? this.#random.below(ACTIONS) : (greedy[pole] as number);
      rows.actions[pole] = action;
      this.#poles.step(pole, action);
      // UniLab's convention: dones = terminated or truncated; where truncated is 1 the learner still bootstraps.
      const fell = terminated[pole] as number;
      const timeUp = fell === 1 ? 0 : (truncated[pole] as number);
      rows.dones[pole] = fell | timeUp;
      rows.truncated[pole] = timeUp;
    }
    rows.nextObs.set(obs);
    for (let pole = 0; pole < count; pole++) {
      if (!this.#poles.over(pole)) continue;
      this.#report.episode(steps[pole] as number);
      this.#poles.reset(pole);
    }
    this.#steps += count;
    this.#report.steps(count);
    return rows;
  }

  /** Falls from 1 to the last value over exploreSteps environment steps of all workers. */
  #epsilon(): number {
    const { exploreSteps, leastEpsilon } = this.#settings;
    return Math.max(leastEpsilon, 1 - ((1 - leastEpsilon) * this.#steps * this.#workers) / exploreSteps);
  }
}

export default defineCollector<Settings>()((context) => new CartPoleCollector(context));
