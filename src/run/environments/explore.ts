/**
 * Chooses actions of a policy, or random actions while it explores or the policy has no weights
 * yet.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { ActOptions } from '../../learn/policy.ts';
import { legalCount, ShownMasks } from './masks.ts';
import type { Spaces } from './spaces.ts';

/**
 * Chooses actions for many environments at once: MlpPolicy, DqnPolicy, SacPolicy, Td3Policy, or
 * your own.
 */
export interface Policy {
  /**
   * Receives newer weights after the learner has published them. The array is reused, so copy
   * values that you keep. Actions are random before the first call.
   */
  load?(weights: Float32Array): unknown;
  /**
   * Returns an action for each observation.
   *
   * @param obs float32 [n × stack × size], one environment after the other
   * @param n number of environments
   * @param options only for environments that give action masks: `mask`, n × actions bytes, 1 for a
   *   legal action
   * @returns n indices, or n × size values of a box. The array is read before the next call. With a
   *   mask, each index must be legal. That of an environment without a legal action is ignored
   */
  act(obs: Float32Array, n: number, options?: ActOptions): ArrayLike<number>;
}

/**
 * Options of exploration. Random actions are uniform among the legal ones. The steps are those of
 * all workers together. Each worker estimates them as its own steps times the number of workers.
 */
export interface Explore {
  /**
   * number of environment steps at the beginning that have random actions, default 0, in train()
   * `warmUp`
   */
  randomSteps?: number;
  /**
   * number of steps for which a random action is repeated, default 1. A larger number explores
   * further in environments that react slowly. If the action becomes illegal, another one is drawn
   * for the rest of these steps.
   */
  hold?: number;
  /**
   * share of random actions, for Discrete actions only. It falls from `from` (default 1) to `to`
   * over `steps` environment steps. Default: none, in train() for dqn `{ to: 0.05, steps: 10_000 }`
   */
  epsilon?: { from?: number; to: number; steps: number };
}

export function checkExplore(explore: Explore, spaces: Spaces): void {
  checkKeys('explore', explore, ['randomSteps', 'hold', 'epsilon']);
  const { randomSteps = 0, epsilon } = explore;
  checkCount('explore.randomSteps', randomSteps, 0);
  checkCount('explore.hold', explore.hold ?? 1);
  if (epsilon === undefined) return;
  checkKeys('explore.epsilon', epsilon, ['from', 'to', 'steps']);
  const { from = 1, to, steps } = epsilon;
  for (const [name, share] of Object.entries({ from, to }))
    if (typeof share !== 'number' || !(share >= 0 && share <= 1))
      throw rangeError(
        `explore.epsilon.${name} must be a number from 0 to 1, got ${describeValue(share)}`,
      );
  checkCount('explore.epsilon.steps', steps, 0);
  if (spaces.action.kind !== 'discrete')
    throw typeError('explore.epsilon needs discrete actions; for a box the policy adds noise');
}

/** Chooses the actions of `count` environments. Random actions are always in the same array. */
export class Explorer {
  readonly #spaces: Spaces;
  readonly #policy: Policy | null;
  readonly #explore: Explore;
  readonly #random: Random;
  readonly #actions: Float32Array;
  readonly #workers: number;
  /**
   * the last random action of each environment, and the number of steps for which it is still
   * repeated
   */
  readonly #held: Float32Array;
  readonly #left: Int32Array;
  readonly #shown = new ShownMasks();
  /** environment steps of this worker */
  #steps: number;
  #acts: boolean;

  constructor(
    spaces: Spaces,
    count: number,
    made: {
      policy: Policy | null;
      explore: Explore;
      random: Random;
      workers: number;
      steps: number;
    },
  ) {
    const { policy, explore, random, workers, steps } = made;
    checkExplore(explore, spaces);
    this.#steps = steps;
    this.#spaces = spaces;
    this.#policy = policy;
    this.#explore = explore;
    this.#random = random;
    this.#workers = workers;
    this.#actions = new Float32Array(count * spaces.action.size);
    this.#held = new Float32Array(this.#actions.length);
    this.#left = new Int32Array(count);
    this.#acts = policy !== null && policy.load === undefined;
  }

  load(weights: Float32Array): void {
    this.#policy?.load?.(weights);
    this.#acts = this.#policy !== null;
  }

  /**
   * Returns the actions of `n` environments for their observations. `mask` has their legal actions,
   * null if all are legal.
   */
  act(obs: Float32Array, n: number, mask: Uint8Array | null = null): ArrayLike<number> {
    const { randomSteps = 0, epsilon } = this.#explore;
    const steps = this.#steps * this.#workers;
    this.#steps += n;
    if (!this.#acts || steps < randomSteps) {
      for (let i = 0; i < n; i++) this.#draw(i, mask);
      return this.#actions;
    }
    const policy = this.#policy as Policy;
    const chosen = mask === null ? policy.act(obs, n) : policy.act(obs, n, this.#shown.of(mask));
    if (epsilon === undefined || typeof chosen?.length !== 'number') return chosen;
    const { from = 1, to, steps: over } = epsilon;
    const share = steps >= over ? to : from + ((to - from) * steps) / over;
    if (share === 0) return chosen;
    if (chosen.length !== n) return chosen;
    const { hold = 1 } = this.#explore;
    for (let i = 0; i < n; i++) {
      // Each draw leads to `hold` random steps. So the draw's probability is less than `share`. It
      // is chosen so that random steps have the share `share` of all steps.
      if (this.#left[i] !== 0 || this.#random.next() < share / (share + hold * (1 - share)))
        this.#draw(i, mask);
      else this.#actions[i] = chosen[i] as number;
    }
    return this.#actions;
  }

  /**
   * Writes a random action of environment i. It repeats the last one for `hold` steps, and then
   * draws a new one uniformly from the space, or from the legal actions. It also draws a new one if
   * the last one is illegal now.
   */
  #draw(i: number, mask: Uint8Array | null): void {
    const { action } = this.#spaces;
    const { size } = action;
    if (mask !== null && action.kind === 'discrete') {
      this.#drawLegal(i, mask, action.n);
      return;
    }
    if (this.#left[i] === 0) {
      this.#left[i] = this.#explore.hold ?? 1;
      if (action.kind === 'discrete') this.#held[i] = this.#random.below(action.n);
      else
        for (let j = 0; j < size; j++)
          this.#held[i * size + j] = this.#random.between(
            action.low[j] as number,
            action.high[j] as number,
          );
    }
    this.#left[i]!--;
    for (let at = i * size; at < (i + 1) * size; at++) this.#actions[at] = this.#held[at] as number;
  }

  #drawLegal(i: number, mask: Uint8Array, n: number): void {
    const legal = legalCount(mask, i, n);
    if (legal === 0) {
      // The environment's episode is over, so it takes no action.
      this.#actions[i] = 0;
      return;
    }
    const isHeld = this.#left[i] !== 0 && mask[i * n + (this.#held[i] as number)] === 1;
    if (this.#left[i] === 0) this.#left[i] = this.#explore.hold ?? 1;
    if (!isHeld) {
      let action = -1;
      for (let skip = this.#random.below(legal); skip >= 0; )
        if (mask[i * n + ++action] === 1) skip--;
      this.#held[i] = action;
    }
    this.#left[i]!--;
    this.#actions[i] = this.#held[i] as number;
  }
}
