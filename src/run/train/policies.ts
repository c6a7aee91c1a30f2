/** Makes the policies of train() from plain data, in collectors and for evaluations. */
import { describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { networkOf } from '../../learn/network/plain-layers.ts';
import { MlpPolicy } from '../../learn/policy.ts';
import type { Policy } from '../environments/explore.ts';
import { policyOf } from './algorithms.ts';
import type { PolicyPlan } from './learner-plan.ts';
import type { TrainPolicyContext } from './own-learner.ts';

type Make = (context: TrainPolicyContext) => Policy | Promise<Policy>;

/** Makes a policy that load() gives weights. Only TD3 uses `noise`. */
export async function makePolicy(
  plan: PolicyPlan,
  context: Omit<TrainPolicyContext, 'options' | 'obsDim'> & { stack: number; noise: number },
): Promise<Required<Policy>> {
  if ('algorithm' in plan) return policyOf(plan, context);
  if ('layers' in plan) return new MlpPolicy(networkOf(plan.layers));
  const { module, options } = plan;
  const { default: make } = (await import(module)) as { default?: Make };
  if (typeof make !== 'function')
    throw typeError(
      `policy: ${module} must export a function that makes a policy as its default, but it exports ${describeValue(make)}`,
    );
  const { noise: _, stack, ...given } = context;
  const obsDim = stack * given.spaces.observation.size;
  const policy: unknown = await make({ ...given, options, obsDim });
  for (const name of ['act', 'load'] as const)
    if (typeof (policy as Policy | null | undefined)?.[name] !== 'function')
      throw typeError(
        `policy: the function of ${module} must return an object with act(obs, n) and load(weights), it returned ${describeValue(policy)}`,
      );
  return policy as Required<Policy>;
}
