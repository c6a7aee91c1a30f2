/**
 * Steps a set of poles with an epsilon-greedy policy and the newest weights. The collectors decide
 * how the steps are stored.
 */

import { MlpPolicy } from '../../src/entries/learner.ts';
import { type CollectorContext, Random } from '../../src/index.ts';
import { ACTIONS, CartPoles, OBS_DIM, type SavedPoles } from './cartpole.ts';
import { networkSizes, type Settings } from './settings.ts';

interface ActorState {
  poles: SavedPoles;
  random: number[];
  weights: Float32Array | null;
  steps: number;
}

export class Actor {
  readonly poles: CartPoles;
  /** observation of each pole before its last step. `actions` contains the action of that step */
  readonly before: Float32Array;
  readonly actions: Float32Array;
  readonly #random: Random;
  readonly #policy: MlpPolicy;
  readonly #report: CollectorContext['report'];
  readonly #settings: Settings;
  /**
   * number of workers in the pool. A worker assumes that each of them has stepped as often as
   * itself
   */
  readonly #workers: number;
  #steps = 0;
  /** weights by which it acts, or null before it has any */
  #weights: Float32Array | null = null;

  constructor({
    worker,
    workers,
    seed,
    state,
    options: settings,
    report,
  }: CollectorContext<Settings>) {
    const count = settings.environments;
    this.#settings = settings;
    this.#workers = workers;
    this.#report = report;
    this.#random = new Random(seed, 2 * worker + 1);
    this.#policy = new MlpPolicy({ sizes: networkSizes(settings) });
    this.poles = new CartPoles(count, new Random(seed, 2 * worker));
    this.before = new Float32Array(count * OBS_DIM);
    this.actions = new Float32Array(count);
    if (state !== undefined) this.loadState(state as ActorState);
  }

  load(weights: Float32Array): void {
    this.#policy.load(weights);
    this.#weights = weights.slice();
  }

  /** Returns all state that loadState() needs to resume. */
  state(): ActorState {
    const { poles } = this;
    return {
      poles: poles.saved(),
      random: this.#random.state(),
      weights: this.#weights,
      steps: this.#steps,
    };
  }
  loadState({ poles, random, weights, steps }: ActorState): void {
    this.poles.restore(poles);
    this.#random.loadState(random);
    if (weights) this.load(weights);
    this.#steps = steps;
  }

  /**
   * Steps every pole once. A pole whose episode is over keeps its last observation until renew().
   */
  step(): void {
    const { count, obs } = this.poles;
    const greedy = this.#weights ? this.#policy.act(obs, count) : null;
    const epsilon = this.#epsilon();
    this.before.set(obs);
    for (let pole = 0; pole < count; pole++) {
      const explores = greedy === null || this.#random.next() < epsilon;
      const action = explores ? this.#random.below(ACTIONS) : (greedy[pole] as number);
      this.actions[pole] = action;
      this.poles.step(pole, action);
    }
  }

  /** Reports the episodes that are over, and begins new ones. */
  renew(): void {
    const { count, steps } = this.poles;
    for (let pole = 0; pole < count; pole++) {
      if (!this.poles.over(pole)) continue;
      this.#report.episode(steps[pole] as number);
      this.poles.reset(pole);
    }
    this.#steps += count;
    this.#report.steps(count);
  }

  /**
   * Returns the exploration rate. It falls linearly from 1 to leastEpsilon within exploreSteps
   * environment steps of all workers.
   */
  #epsilon(): number {
    const { exploreSteps, leastEpsilon } = this.#settings;
    return Math.max(
      leastEpsilon,
      1 - ((1 - leastEpsilon) * this.#steps * this.#workers) / exploreSteps,
    );
  }
}
