/** The settings with which the example trains, and the share of battles that a policy wins. */
import { evaluate, type Policy, type TrainOptions } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';
import type Showdown from './battle.ts';
import { CHOICES } from './sight.ts';

const BATTLES = 500;

/** Options of train() that do not depend on the command line. */
export const settings = {
  learner: { algorithm: 'dqn', hidden: [64, 64], batchSize: 256, learningRate: 3e-4, gamma: 0.9 },
  environments: 4,
  workers: 1,
  warmUp: 2_000,
  minibatches: 4,
  explore: { epsilon: { to: 0.05, steps: 10_000 } },
} as const satisfies Partial<TrainOptions>;

/** Returns the share of 500 battles that the policy wins. */
export async function battlesWon(
  environments: readonly Pick<Showdown, 'observationSpace' | 'actionSpace' | 'reset' | 'step'>[],
  policy: Policy,
  seed: number,
): Promise<number> {
  const { returns } = await evaluate({ environments, policy, episodes: BATTLES, seed });
  return returns.filter((value) => value > 0).length / BATTLES;
}

/** Returns a policy that chooses at random among the legal choices. */
export function randomLegal(seed: number): Policy {
  const random = new Random(seed);
  const choose = (mask: Uint8Array) => {
    const legal = [...mask.keys()].filter((choice) => mask[choice] === 1);
    return legal[random.below(Math.max(legal.length, 1))] ?? 0;
  };
  return {
    act: (_, n, { mask } = {}) =>
      Float32Array.from({ length: n }, (_, i) =>
        choose(mask!.subarray(i * CHOICES, (i + 1) * CHOICES)),
      ),
  };
}
