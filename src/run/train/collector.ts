/**
 * Makes the collectors of train(), with environments of the user's module and the learner's policy.
 */
import type { CollectorContext } from '../collectors/collector.ts';
import { isEnvironmentProvider } from '../environments/environment-set.ts';
import type { Explore } from '../environments/explore.ts';
import { environmentMaker } from '../environments/load-environment.ts';
import { vectorCollector } from '../environments/vector-collector.ts';
import type { PolicyPlan } from './learner-plan.ts';
import { makePolicy } from './policies.ts';

export interface TrainCollectorOptions {
  environment: string;
  environmentOptions: unknown;
  /** number of environments with a ReplayBuffer. With a TrajectoryBuffer, each lane has one */
  environments: number;
  stack: number;
  policy: PolicyPlan;
  noise: number;
  explore: Explore;
}

export default async function trainCollector(context: CollectorContext<TrainCollectorOptions>) {
  const { environment, environmentOptions, environments, stack, policy, noise, explore } =
    context.options;
  const make = await environmentMaker(environment);
  const factory = vectorCollector<TrainCollectorOptions>({
    make: isEnvironmentProvider(make)
      ? { open: ({ count }) => make.open({ count, options: environmentOptions }) }
      : ({ index }) => make({ index, options: environmentOptions }),
    ...(context.writer === null ? { environments } : {}),
    stack,
    policy: ({ spaces, seed, worker }) =>
      makePolicy(policy, { spaces, stack, seed, worker, greedy: false, noise }),
    explore,
  });
  return factory(context);
}
