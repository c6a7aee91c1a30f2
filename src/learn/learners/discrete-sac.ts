/** Soft actor-critic for a number of actions (Christodoulou, 2019). */
import { checkCount, checkKeys } from '../../base/checks.ts';
import type { Device } from '../../device/device.ts';
import type { AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import { among } from '../dqn/heads.ts';
import type { Network } from '../network/network.ts';
import type { Expression } from '../trace/expression.ts';
import { bootstrap, expect, mse } from '../trace/functions.ts';
import { describeLearner } from '../trace/learner/description.ts';
import { TracedLearner } from '../trace/learner/learner.ts';
import { ensemble, parameter, polyak } from '../trace/learner/networks.ts';
import {
  adamOf,
  layered,
  type Masks,
  maskOptions,
  type ValueOptions,
  valueKeys,
} from './options.ts';
import { CategoricalPolicy, type CategoricalPolicyOptions } from './policies.ts';

export interface DiscreteSacOptions extends ValueOptions {
  /** number of critics, default 2 */
  critics?: number;
  /** gradient steps from one update of the targets to the next, default 1 */
  targetEvery?: number;
  /** number of the first gradient step, from which targetEvery counts. Default 0 */
  firstUpdate?: number;
  /** initial value of the learned temperature, default 1 */
  initialTemperature?: number;
  /**
   * entropy in nats that the temperature aims at, default 0.89 · ln(actions), as in CleanRL. With
   * actionMask the default is 0.89 · ln(legal actions) of each row
   */
  targetEntropy?: number;
  /** Adam's options, each with a default learningRate of 3e-4 */
  actorOptimizer?: AdamOptions;
  criticOptimizer?: AdamOptions;
  temperatureOptimizer?: AdamOptions;
}

const keys = [
  ...valueKeys,
  'critics',
  'targetEvery',
  'firstUpdate',
  'initialTemperature',
  'targetEntropy',
  'actorOptimizer',
  'criticOptimizer',
  'temperatureOptimizer',
];

/**
 * Trains a soft actor-critic for a number of actions, as CleanRL does: the losses of actor and
 * temperature are means over rows and actions. With the option actionMask, only legal actions have a
 * probability above 0. Means are then still over all actions.
 * @example
 * const learner = new DiscreteSacLearner(device, {
 *   obsDim: 4, actions: 2, hidden: [64, 64], batchSize: 256,
 * });
 */
export class DiscreteSacLearner extends TracedLearner {
  readonly #actor: Network;

  /** @throws {TypeError|RangeError} for a wrong option */
  constructor(device: Device, options: DiscreteSacOptions) {
    checkKeys('DiscreteSacLearner', options, keys);
    const { obsDim, hidden, activation, batchSize: rows, gamma, tau = 0.005 } = options;
    const { critics: members = 2, targetEvery = 1, firstUpdate = 0, seed = 0 } = options;
    const count = checkCount('actions', options.actions);
    const { initialTemperature = 1, targetEntropy = 0.89 * Math.log(count) } = options;
    checkWithin('initialTemperature', initialTemperature, 1e-30, 1e30);
    checkWithin('targetEntropy', targetEntropy, -1e30, 1e30);
    const { actionMask = false } = options;
    const masks = maskOptions('DiscreteSacLearner', options, ['actionMask', 'nextActionMask']);
    const network = layered('hidden', checkCount('obsDim', obsDim), hidden, count, activation);
    super(
      device,
      describeLearner({
        name: 'DiscreteSacLearner',
        rows,
        seed,
        firstUpdate,
        batch: {
          obs: [obsDim],
          nextObs: [obsDim],
          actions: 'index',
          rewards: [],
          discounts: { gamma },
          weights: [],
          ...masks.fields,
        },
        networks: {
          actor: network,
          critics: ensemble(network, members),
          targets: polyak('critics', tau, { every: targetEvery }),
        },
        parameters: { logAlpha: parameter({ initial: Math.log(initialTemperature) }) },
        optimizers: {
          critics: adamOf('criticOptimizer', options.criticOptimizer),
          actor: adamOf('actorOptimizer', options.actorOptimizer),
          logAlpha: adamOf('temperatureOptimizer', options.temperatureOptimizer),
        },
        update({ actor, critics, targets }, batch, { logAlpha }) {
          const { obs, nextObs, rewards, discounts, weights } = batch;
          const legal = (name: keyof Masks) => (actionMask ? (batch as Masks)[name] : undefined);
          const [now, later] = [legal('actionMask'), legal('nextActionMask')];
          const alpha = logAlpha.exp().detach();
          // Returns the soft value of states: the sum of π · (least value − alpha · ln π).
          const gain = (logits: Expression, values: Expression) =>
            expect(logits.softmax(), values.sub(logits.logSoftmax().mul(alpha)));
          const next = gain(among(later, actor(nextObs)), targets(nextObs).min({ axis: 0 }));
          const goal = bootstrap(rewards, discounts, next).detach();
          const taken = batch.actions.broadcast([members, rows]).reshape([members * rows]);
          const values = critics(obs)
            .reshape([members * rows, count])
            .pick(taken);
          const error = values.reshape([members, rows]).sub(goal);
          const criticLoss = mse(error).mul(weights).mean({ axis: 1 }).sum();

          // The critics are called again: the actor learns from their values after the step.
          const logits = among(now, actor(obs));
          const least = critics(obs).min({ axis: 0 }).detach();
          const actorLoss = gain(logits, least).neg().mean().div(count);

          const [pi, logPi] = [logits.softmax().detach(), logits.logSoftmax().detach()];
          // A state without a legal action counts as one with one, of which the entropy is 0.
          const aim =
            now && options.targetEntropy === undefined
              ? (now.ne(0).sum({ axis: 1, keep: true }).max(1).log().mul(0.89) as Expression)
              : targetEntropy;
          const excess = expect(pi, logPi.add(aim) as Expression);
          const temperatureLoss = logAlpha.exp().mul(excess).neg().mean().div(count);
          const entropy = expect(pi, logPi).neg().mean();
          return [
            {
              minimize: { critics: criticLoss },
              scalars: { criticLoss, meanQ: values.mean() },
              priorities: error.abs().mean({ axis: 0 }),
            },
            { minimize: { actor: actorLoss }, scalars: { actorLoss, entropy } },
            { minimize: { logAlpha: temperatureLoss }, scalars: { temperatureLoss, alpha } },
          ];
        },
      }),
      masks.options,
    );
    this.#actor = network;
  }

  /**
   * Returns a policy that samples actions, or takes the most likely one with the option `greedy`. It
   * runs on the calling thread, needs no device, and has no weights until load().
   */
  policy(options: CategoricalPolicyOptions = {}): CategoricalPolicy {
    return new CategoricalPolicy(this.#actor, options);
  }
}
