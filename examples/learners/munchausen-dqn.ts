/** Munchausen DQN: the reward gains the scaled log-probability of the action (Vieillard et al., 2020). */
import { Mlp } from '../../src/entries/learner.ts';
import {
  type AdamDescription,
  adam,
  bootstrap,
  type DescribedLearner,
  type Expression,
  expect,
  learner,
  mse,
  polyak,
} from '../../src/entries/trace.ts';
import type { Device } from '../../src/index.ts';

export interface MunchausenOptions {
  obsDim: number;
  actions: number;
  hidden: readonly number[];
  rows: number;
  gamma: number;
  tau: number;
  /** entropy temperature */
  temperature: number;
  /** factor of the log-probability in the reward */
  munchausen: number;
  /** least value of temperature · log-probability in the reward */
  clipLow: number;
  optimizer: AdamDescription;
}

export function munchausenDqn(device: Device, options: MunchausenOptions): DescribedLearner {
  const { obsDim, actions: count, hidden, rows, gamma, tau, optimizer } = options;
  const { temperature, munchausen, clipLow } = options;
  return learner(device, {
    name: 'munchausen-dqn',
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
      const scaledLog = (values: Expression) =>
        values.div(temperature).logSoftmax().mul(temperature);
      const taken = scaledLog(target(obs)).pick(actions).clamp(clipLow, 0);
      const next = target(nextObs);
      const soft = expect(next.div(temperature).softmax(), next.sub(scaledLog(next)));
      const goal = bootstrap(rewards.add(taken.mul(munchausen)), discounts, soft).detach();
      const error = q(obs).pick(actions).sub(goal);
      const loss = mse(error).mean();
      return { minimize: { q: loss }, scalars: { loss }, priorities: error.abs() };
    },
  });
}
