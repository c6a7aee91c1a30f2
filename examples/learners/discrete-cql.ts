/** Double DQN that lowers the values of actions outside of its data (Kumar et al., 2020). */
import { Mlp } from '../../src/entries/learner.ts';
import {
  type AdamDescription,
  adam,
  bootstrap,
  type DescribedLearner,
  huber,
  learner,
  polyak,
} from '../../src/entries/trace.ts';
import type { Device } from '../../src/index.ts';

export interface DiscreteCqlOptions {
  obsDim: number;
  actions: number;
  hidden: readonly number[];
  rows: number;
  gamma: number;
  tau: number;
  /** factor of the penalty */
  penalty: number;
  optimizer: AdamDescription;
}

export function discreteCql(device: Device, options: DiscreteCqlOptions): DescribedLearner {
  const { obsDim, actions: count, hidden, rows, gamma, tau, penalty, optimizer } = options;
  return learner(device, {
    name: 'discrete-cql',
    rows,
    batch: {
      obs: [obsDim],
      nextObs: [obsDim],
      actions: 'index',
      rewards: [],
      discounts: { gamma },
    },
    networks: { q: new Mlp({ sizes: [obsDim, ...hidden, count] }), target: polyak('q', tau) },
    optimizers: { q: adam(optimizer) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts }) {
      const best = q(nextObs).argmax();
      const goal = bootstrap(rewards, discounts, target(nextObs).pick(best)).detach();
      const values = q(obs);
      const chosen = values.pick(actions);
      const error = chosen.sub(goal);
      const gap = values.logSumExp({ axis: 1 }).sub(chosen).mean();
      const loss = huber(error).mean().add(gap.mul(penalty));
      return { minimize: { q: loss }, scalars: { loss, gap }, priorities: error.abs() };
    },
  });
}
