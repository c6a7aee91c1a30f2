/** IQL: learns from recorded data, and values only actions that the data has (Kostrikov et al., 2021). */
import { checkKeys, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { actorKeys, actorNetwork, actorOf } from '../actor-critic/options.ts';
import { Td3Policy, type Td3PolicyOptions } from '../actor-critic/policies.ts';
import { boxOf } from '../actor-critic/squashed-gaussian.ts';
import type { AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import { tanh } from '../network/layers.ts';
import type { Expression } from '../trace/expression.ts';
import { bootstrap, concat, constant, mse } from '../trace/functions.ts';
import { describeLearner } from '../trace/learner/description.ts';
import { TracedLearner } from '../trace/learner/learner.ts';
import { ensemble, parameter, polyak } from '../trace/learner/networks.ts';
import { adamOf, type BoxOptions, boxFields, boxKeys, criticOf, layered } from './options.ts';

export interface IqlOptions extends BoxOptions {
  /** number of neurons of each hidden layer of the state's value, default that of the critics */
  valueHidden?: readonly number[];
  /** expectile that the state's value learns, above 0 and below 1, default 0.7 */
  expectile?: number;
  /** factor of the advantage in an action's weight exp(beta · advantage), default 3 */
  beta?: number;
  /** largest weight of an action, default 100 */
  maxWeight?: number;
  /**
   * 'gaussian' learns a deviation for each element of an action, and the actor maximizes the weighted
   * log-probability. 'deterministic' minimizes the weighted square. Default 'gaussian'
   */
  actorKind?: 'gaussian' | 'deterministic';
  /** Adam's options for the state's value, default learningRate 3e-4 */
  valueOptimizer?: AdamOptions;
}

const keys = [
  ...boxKeys,
  'valueHidden',
  'expectile',
  'beta',
  'maxWeight',
  'actorKind',
  'valueOptimizer',
];

/**
 * Trains IQL by updates that a pipeline captures once, as CORL does.
 * @example
 * const learner = new IqlLearner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 */
export class IqlLearner extends TracedLearner {
  readonly #options: IqlOptions;

  /** @throws {TypeError|RangeError} for a wrong option */
  constructor(device: Device, options: IqlOptions) {
    checkKeys('IqlLearner', options, keys);
    const { obsDim, actionDim, batchSize: rows, gamma, tau = 0.005, seed = 0 } = options;
    const { expectile = 0.7, beta = 3, maxWeight = 100, actorKind = 'gaussian' } = options;
    checkWithin('expectile', expectile, Number.MIN_VALUE, 1 - Number.EPSILON);
    checkWithin('beta', beta, 0, 1e6);
    checkWithin('maxWeight', maxWeight, Number.MIN_VALUE, 1e30);
    if (actorKind !== 'gaussian' && actorKind !== 'deterministic')
      throw typeError(
        `actorKind must be 'gaussian' or 'deterministic', got ${describeValue(actorKind)}`,
      );
    const { criticHidden = [256, 256], valueHidden = criticHidden } = options;
    const gaussian = actorKind === 'gaussian';
    const fields = boxFields(options);
    const { scale, bias } = boxOf(actionDim, options);
    super(
      device,
      describeLearner({
        name: 'IqlLearner',
        rows,
        seed,
        batch: { ...fields, discounts: { gamma } },
        networks: {
          actor: actorNetwork(options, (size) => size, [tanh()]),
          critics: ensemble(criticOf(options, 1), 2),
          value: layered('valueHidden', obsDim, valueHidden, 1),
          targets: polyak('critics', tau),
        },
        parameters: gaussian ? { logStd: parameter({ shape: [actionDim] }) } : {},
        optimizers: {
          value: adamOf('valueOptimizer', options.valueOptimizer),
          critics: adamOf('criticOptimizer', options.criticOptimizer),
          actor: adamOf(
            'actorOptimizer',
            options.actorOptimizer,
            gaussian ? ['logStd', 'actor'] : ['actor'],
          ),
        },
        update({ actor, critics, targets, value }, batch, parameters) {
          const { obs, nextObs, actions, rewards, discounts, weights } = batch;
          const both = concat(1, obs, actions);
          const least = targets(both).min({ axis: 0 }).reshape([rows]);
          const advantage = least.detach().sub(value(obs).reshape([rows]));
          const share = advantage.lt(0).sub(expectile).abs();
          const valueLoss = share.mul(advantage.square()).mul(weights).mean();

          const later = value(nextObs).reshape([rows]);
          const goal = bootstrap(rewards, discounts, later).detach();
          const error = critics(both).reshape([2, rows]).sub(goal);
          const criticLoss = mse(error).mul(weights).mean();

          const weight = advantage.mul(beta).exp().min(maxWeight).detach();
          const inBox = actions.sub(constant(bias)).div(constant(scale));
          const miss = inBox.sub(actor(obs));
          const cost = gaussian
            ? negLogProb(miss, (parameters as { logStd: Expression }).logStd)
            : miss.square();
          const actorLoss = weight
            .mul(cost.sum({ axis: 1 }))
            .mul(weights)
            .mean();
          return {
            minimize: { value: valueLoss, critics: criticLoss, actor: actorLoss },
            scalars: {
              valueLoss,
              criticLoss,
              actorLoss,
              meanAdvantage: advantage.mean(),
            },
            priorities: error.abs().mean({ axis: 0 }),
          };
        },
      }),
    );
    this.#options = options;
  }

  /**
   * Returns a policy that loads `weights('actor')` and acts with the mean. It runs on the calling
   * thread and needs no device.
   *
   * @param options `noise` (default 0) and `seed` (default 0)
   */
  policy(options: Td3PolicyOptions = {}): Td3Policy {
    return new Td3Policy(actorOf(this.#options, actorKeys), options);
  }
}

/** The negative log-probability of each element, for a Gaussian with a limited log deviation. */
function negLogProb(miss: Expression, logStd: Expression): Expression {
  const limited = logStd.clamp(-20, 2);
  const squares = miss.div(limited.exp()).square();
  return squares
    .mul(0.5)
    .add(limited)
    .add(0.5 * Math.log(2 * Math.PI));
}
