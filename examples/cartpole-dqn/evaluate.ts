/**
 * Greedy evaluation: full episodes of a fixed set of weights, apart from collecting and learning.
 */

import type { MlpPolicy } from '../../src/entries/learner.ts';
import { Random } from '../../src/index.ts';
import { CartPoles, EPISODE_LIMIT } from './cartpole.ts';

/** Gymnasium's reward threshold for CartPole-v1. */
export const SOLVED = 475;
export const EPISODES = 100;
/** Streams of one seed that only evaluations use: collectors count from 0. */
const FIRST_STREAM = 2 ** 20;
/** Milliseconds after which other work of the main thread has its turn. */
const SLICE_MS = 8;

export interface Evaluation {
  /** of all episodes; when given up, the most that it could still have become */
  meanReturn: number;
  /** false when it was given up because `least` had become out of reach */
  whole: boolean;
}

/**
 * Plays EPISODES episodes to their ends with greedy actions; every `set` of a seed begins
 * elsewhere. Gives up as soon as full scores in all other episodes could not bring the mean to
 * `least` any more.
 */
export async function evaluate(
  policy: MlpPolicy,
  seed: number,
  set: number,
  least = 0,
): Promise<Evaluation> {
  const poles = new CartPoles(EPISODES, new Random(seed, FIRST_STREAM + set));
  const { obs, steps } = poles;
  let going = EPISODES;
  let lost = 0;
  let turn = performance.now();
  while (going > 0) {
    const actions = policy.act(obs, EPISODES);
    for (let pole = 0; pole < EPISODES; pole++) {
      if (poles.over(pole)) continue;
      poles.step(pole, actions[pole] as number);
      if (!poles.over(pole)) continue;
      going--;
      lost += EPISODE_LIMIT - (steps[pole] as number);
    }
    const reachable = EPISODE_LIMIT - lost / EPISODES;
    if (reachable < least) return { meanReturn: reachable, whole: going === 0 };
    if (performance.now() - turn < SLICE_MS) continue;
    await new Promise(setImmediate);
    turn = performance.now();
  }
  return { meanReturn: EPISODE_LIMIT - lost / EPISODES, whole: true };
}
