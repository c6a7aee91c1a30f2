/** A policy for train() with a learner of the caller, and policies that fail in several ways. */
import type { TrainPolicyContext } from '../../src/entries/collect.ts';
import { Mlp, MlpPolicy, Network, quantileMean } from '../../src/entries/learner.ts';

export interface OwnPolicyOptions {
  sizes: number[];
  /** number of quantiles of an action's value, which the network's outputs are then */
  quantiles?: number;
  /** function that throws: the maker, or act() */
  fails?: 'make' | 'act';
  /** Int32. 0: number of greedy policies made. 1: number of others */
  made?: Int32Array;
}

export default ({ options, greedy, obsDim }: TrainPolicyContext<OwnPolicyOptions>) => {
  const { sizes, quantiles, fails, made } = options;
  if (made) Atomics.add(made, greedy ? 0 : 1, 1);
  if (sizes[0] !== obsDim) throw new Error(`the policy has ${sizes} sizes`);
  // Policies of collectors fail, so that evaluations come that far.
  if (fails === 'make' && !greedy) throw new Error('no policy today');
  const ends = quantiles ? [quantileMean(quantiles, 2)] : [];
  const policy = new MlpPolicy(new Network([...new Mlp({ sizes }).layers, ...ends]));
  if (fails === 'act' && !greedy)
    policy.act = () => {
      throw new Error('no action today');
    };
  return policy;
};
