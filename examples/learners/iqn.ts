/** IQN: a DQN that learns the value of an action at any quantile (Dabney et al., 2018). */
import { linear, Network, relu } from '../../src/entries/learner.ts';
import {
  type AdamDescription,
  adam,
  bootstrap,
  constant,
  type DescribedLearner,
  type Expression,
  huber,
  learner,
  type NetworkFunction,
  polyak,
  uniform,
} from '../../src/entries/trace.ts';
import type { Device } from '../../src/index.ts';

export interface IqnOptions {
  obsDim: number;
  actions: number;
  /** sizes of the hidden layers. The last one is also the size of a quantile's embedding */
  hidden: readonly number[];
  rows: number;
  gamma: number;
  tau: number;
  /** number of quantiles of the values, of the targets, and for the choice of the next action */
  taus: number;
  targetTaus: number;
  actionTaus: number;
  /** number of cosines that represent a quantile */
  cosines: number;
  optimizer: AdamDescription;
}

export function iqn(device: Device, options: IqnOptions): DescribedLearner {
  const { obsDim, actions: count, hidden, rows, gamma, tau, cosines, optimizer } = options;
  const width = hidden.at(-1) as number;
  const body = hidden.flatMap((size, i) => [linear(hidden[i - 1] ?? obsDim, size), relu()]);
  return learner(device, {
    name: 'iqn',
    rows,
    batch: {
      obs: [obsDim],
      nextObs: [obsDim],
      actions: 'index',
      rewards: [],
      discounts: { gamma },
    },
    networks: {
      psi: new Network(body),
      phi: new Network([linear(cosines, width), relu()]),
      f: new Network([linear(width, count)]),
      psiTarget: polyak('psi', tau),
      phiTarget: polyak('phi', tau),
      fTarget: polyak('f', tau),
    },
    optimizers: { q: adam({ ...optimizer, of: ['psi', 'phi', 'f'] }) },
    update(networks, { obs, nextObs, actions, rewards, discounts }) {
      const { psi, phi, f, psiTarget, phiTarget, fTarget } = networks;
      const waves = constant(Array.from({ length: cosines }, (_, i) => Math.PI * (i + 1)));
      /** Values [rows, actions, n] at the quantiles `taus` [rows, n]. */
      const values = (
        state: NetworkFunction,
        quantile: NetworkFunction,
        head: NetworkFunction,
        x: Expression,
        taus: Expression,
      ) => {
        const n = taus.shape[1] as number;
        const embedded = quantile(taus.reshape([rows, n, 1]).mul(waves).cos());
        const mixed = state(x).reshape([rows, 1, width]).mul(embedded);
        return head(mixed).transpose([0, 2, 1]);
      };
      const taus = uniform([rows, options.taus]) as Expression;
      const actionTaus = uniform([rows, options.actionTaus]) as Expression;
      const targetTaus = uniform([rows, options.targetTaus]) as Expression;
      const online = values(psi, phi, f, obs, taus);
      const chosen = online.pick(actions) as Expression;
      const later = (at: Expression) => values(psiTarget, phiTarget, fTarget, nextObs, at);
      const best = later(actionTaus).mean({ axis: 2 }).argmax();
      const next = later(targetTaus).pick(best) as Expression;
      const column = (x: Expression) => x.reshape([rows, 1]);
      const goal = bootstrap(column(rewards), column(discounts), next).detach();
      const error = goal
        .reshape([rows, 1, options.targetTaus])
        .sub(chosen.reshape([rows, options.taus, 1]));
      const share = taus.reshape([rows, options.taus, 1]).sub(error.lt(0)).abs();
      const losses = share.mul(huber(error)).mean({ axis: 2 }).sum({ axis: 1 });
      const loss = losses.mean();
      return { minimize: { q: loss }, scalars: { loss }, priorities: losses };
    },
  });
}
