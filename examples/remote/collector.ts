/**
 * Module of the collector, which `hotslot collect` loads on each host. The module does not depend
 * on where the learner is. A CollectorPool on the learner's machine could load it, too.
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
