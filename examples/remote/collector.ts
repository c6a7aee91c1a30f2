/**
 * The collector's module, on the machines that `hotslot collect` runs on. It is what a
 * CollectorPool beside the learner would load: nothing in it knows that the learner is elsewhere.
 */
import { vectorCollector } from '../../src/entries/collect.ts';
import { defineCollector } from '../../src/index.ts';
import { type CollectorOptions, ENVIRONMENTS, tasks } from './settings.ts';

export default defineCollector<CollectorOptions>()((context) => {
  const { environment, explore } = context.options;
  const task = tasks[environment];
  return vectorCollector<CollectorOptions>({
    make: () => task.environment(),
    environments: ENVIRONMENTS,
    policy: ({ seed }) => task.policy({ greedy: false, seed }),
    explore,
  })(context);
});
