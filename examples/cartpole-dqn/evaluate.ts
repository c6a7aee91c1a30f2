/** Greedy evaluation: whole episodes with fixed weights, independent of collecting and learning. */

import type { MlpPolicy } from '../../src/entries/learner.ts';
import { Random } from '../../src/index.ts';
import { CartPoles, EPISODE_LIMIT } from './cartpole.ts';

/** Gymnasium's reward threshold for CartPole-v1. */
export const SOLVED = 475;
export const EPISODES = 100;
/** First random stream of a seed that evaluations use. Collectors use the streams from 0 on. */
const FIRST_STREAM = 2 ** 20;
/** Milliseconds after which an evaluation lets other work of the main thread run. */
const SLICE_MS = 8;

export interface Evaluation {
  /**
   * mean over all episodes. If the evaluation was stopped early, the largest mean that was still
   * possible
   */
  meanReturn: number;
  /** false if the evaluation was stopped early because `least` was out of reach */
  whole: boolean;
}

/**
 * Plays EPISODES episodes to their ends with greedy actions. Each `set` of a seed begins with other
 * states. Stops early if even full scores in all other episodes could not raise the mean to
 * `least`.
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
