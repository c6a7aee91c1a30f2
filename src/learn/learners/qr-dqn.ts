/** QR-DQN: a DQN whose value of an action is a set of quantiles (Dabney et al., 2018). */
import { checkCount, checkKeys } from '../../base/checks.ts';
import type { Device } from '../../device/device.ts';
import { type AdamOptions, adamKeys, adamOptions } from '../adam.ts';
import { among } from '../dqn/heads.ts';
import { quantileMean } from '../network/heads.ts';
import { Network } from '../network/network.ts';
import { MlpPolicy } from '../policy.ts';
import { type Expression, huber } from '../trace/expression.ts';
import { bootstrap, constant } from '../trace/functions.ts';
import { describeLearner } from '../trace/learner/description.ts';
import { TracedLearner } from '../trace/learner/learner.ts';
import { polyak } from '../trace/learner/networks.ts';
import { adam } from '../trace/learner/optimizers.ts';
import { type Masks, maskOptions, type ValueOptions, valueKeys, valueNetwork } from './options.ts';

export interface QrDqnOptions extends ValueOptions, AdamOptions {
  /** number of quantiles of an action's value, default 51 */
  quantiles?: number;
}

/**
 * Trains a QR-DQN by updates that a pipeline captures once. The target network chooses the next
 * action and values it, as in Stable-Baselines3 Contrib. With the option actionMask, it is a legal
 * action.
 * @example
 * const learner = new QrDqnLearner(device, { obsDim: 4, actions: 2, hidden: [64], batchSize: 128 });
 */
export class QrDqnLearner extends TracedLearner {
  readonly #values: Network;

  /** @throws {TypeError|RangeError} for a wrong option */
  constructor(device: Device, options: QrDqnOptions) {
    checkKeys('QrDqnLearner', options, [...valueKeys, ...adamKeys, 'quantiles']);
    const { actions: count, batchSize: rows, gamma, tau = 0.005, quantiles: n = 51 } = options;
    checkCount('quantiles', n, 1, 1024);
    const q = valueNetwork(options, checkCount('actions', count) * n);
    const { actionMask = false } = options;
    const masks = maskOptions('QrDqnLearner', options, ['nextActionMask']);
    super(
      device,
      describeLearner({
        name: 'QrDqnLearner',
        rows,
        seed: options.seed ?? 0,
        batch: {
          obs: [q.inputs],
          nextObs: [q.inputs],
          actions: 'index',
          rewards: [],
          discounts: { gamma },
          weights: [],
          ...masks.fields,
        },
        networks: { q, target: polyak('q', tau) },
        optimizers: { q: adam(adamOptions(options)) },
        update({ q, target }, batch) {
          const { obs, nextObs, actions, rewards, discounts, weights } = batch;
          const legal = actionMask ? (batch as Masks).nextActionMask : undefined;
          /** The quantiles of each action's value, [rows, actions, n]. */
          const quantiles = (outputs: Expression) =>
            outputs.reshape([rows, n, count]).transpose([0, 2, 1]);
          const column = (x: Expression) => x.reshape([rows, 1]);
          const next = quantiles(target(nextObs));
          const best = among(legal, next.mean({ axis: 2 })).argmax();
          const goal = bootstrap(column(rewards), column(discounts), next.pick(best)).detach();
          const chosen = quantiles(q(obs)).pick(actions) as Expression;
          const error = goal.reshape([rows, 1, n]).sub(chosen.reshape([rows, n, 1]));
          const middles = constant(
            Array.from({ length: n }, (_, i) => (i + 0.5) / n),
            [n, 1],
          );
          const share = middles.sub(error.lt(0)).abs();
          const loss = share.mul(huber(error)).mean({ axis: 2 }).sum({ axis: 1 });
          const total = loss.mul(weights).mean();
          return {
            minimize: { q: total },
            scalars: { loss: total, meanQ: chosen.mean() },
            priorities: loss,
          };
        },
      }),
      masks.options,
    );
    this.#values = new Network([...q.layers, quantileMean(n, count)]);
  }

  /**
   * Returns a policy that takes the action with the largest mean of its quantiles. It runs on the
   * calling thread, needs no device, and has no weights until load().
   */
  policy(): MlpPolicy {
    return new MlpPolicy(this.#values);
  }
}
