/**
 * Double DQN for states in which some actions are illegal: the next action is a legal one. A batch's
 * nextActionMask has the bits that a buffer stores, or one element for each action. DqnLearner has
 * the same as its option actionMask.
 */
import { Mlp } from '../../src/entries/learner.ts';
import {
  type AdamDescription,
  adam,
  bootstrap,
  type DescribedLearner,
  huber,
  learner,
  polyak,
  where,
} from '../../src/entries/trace.ts';
import type { Device } from '../../src/index.ts';

export interface MaskedOptions {
  obsDim: number;
  actions: number;
  hidden: readonly number[];
  rows: number;
  gamma: number;
  tau: number;
  optimizer: AdamDescription;
}

export function maskedDoubleDqn(device: Device, options: MaskedOptions): DescribedLearner {
  const { obsDim, actions: count, hidden, rows, gamma, tau, optimizer } = options;
  return learner(device, {
    name: 'masked-double-dqn',
    rows,
    batch: {
      obs: [obsDim],
      nextObs: [obsDim],
      actions: 'index',
      rewards: [],
      discounts: { gamma },
      nextActionMask: { mask: count },
    },
    networks: { q: new Mlp({ sizes: [obsDim, ...hidden, count] }), target: polyak('q', tau) },
    optimizers: { q: adam(optimizer) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts, nextActionMask }) {
      // Selects, and adds nothing: an illegal action may have any value. A final state may have no
      // legal action, since a discount of 0 selects the reward.
      const best = where(nextActionMask, q(nextObs), Number.NEGATIVE_INFINITY).argmax();
      const goal = bootstrap(rewards, discounts, target(nextObs).pick(best)).detach();
      const error = q(obs).pick(actions).sub(goal);
      const loss = huber(error).mean();
      return { minimize: { q: loss }, scalars: { loss }, priorities: error.abs() };
    },
  });
}
