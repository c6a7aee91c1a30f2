/** TQC: soft actor-critic whose targets leave out the largest quantiles (Kuznetsov et al., 2020). */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { actorNetwork, actorOf } from '../actor-critic/options.ts';
import { SacPolicy, type SacPolicyOptions, sacPolicyKeys } from '../actor-critic/policies.ts';
import { gaussianKeys } from '../actor-critic/squashed-gaussian.ts';
import { type Expression, huber } from '../trace/expression.ts';
import { bootstrap, concat, constant, normal } from '../trace/functions.ts';
import { squashedGaussian } from '../trace/fused-functions.ts';
import { describeLearner } from '../trace/learner/description.ts';
import { TracedLearner } from '../trace/learner/learner.ts';
import { ensemble, parameter, polyak } from '../trace/learner/networks.ts';
import {
  adamOf,
  boxFields,
  criticOf,
  type EntropyOptions,
  entropyKeys,
  entropyOf,
} from './options.ts';

export interface TqcOptions extends EntropyOptions {
  /** number of critics, default 2 */
  critics?: number;
  /** number of quantiles of each critic, default 25 */
  quantiles?: number;
  /** number of the largest quantiles that the targets leave out for each critic, default 2 */
  drop?: number;
}

/**
 * Trains TQC by updates that a pipeline captures once, as Stable-Baselines3 Contrib does.
 * @example
 * const learner = new TqcLearner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 */
export class TqcLearner extends TracedLearner {
  readonly #options: TqcOptions;

  /** @throws {TypeError|RangeError} for a wrong option */
  constructor(device: Device, options: TqcOptions) {
    checkKeys('TqcLearner', options, [...entropyKeys, 'critics', 'quantiles', 'drop']);
    const { actionDim, batchSize: rows, gamma, tau = 0.005, seed = 0 } = options;
    const { critics: members = 2, quantiles: n = 25, drop = 2 } = options;
    checkCount('critics', members, 1, 1024);
    checkCount('quantiles', n, 1, 1024);
    checkCount('drop', drop, 0);
    if (drop >= n) throw rangeError(`drop must be below quantiles (${n}), got ${drop}`);
    if (members * n > 1024)
      throw rangeError(`critics · quantiles must be at most 1024, got ${members * n}`);
    const { targetEntropy, initialTemperature } = entropyOf(options);
    const gaussian = {
      logStd: { form: 'clamp', min: -20, max: 2 } as const,
      correction: 'unscaled' as const,
      ...actorOf(options, gaussianKeys),
    };
    super(
      device,
      describeLearner({
        name: 'TqcLearner',
        rows,
        seed,
        batch: { ...boxFields(options), discounts: { gamma } },
        networks: {
          actor: actorNetwork(options, (size) => 2 * size),
          critics: ensemble(criticOf(options, n), members),
          targets: polyak('critics', tau),
        },
        parameters: { logAlpha: parameter({ initial: Math.log(initialTemperature) }) },
        optimizers: {
          logAlpha: adamOf('temperatureOptimizer', options.temperatureOptimizer),
          critics: adamOf('criticOptimizer', options.criticOptimizer),
          actor: adamOf('actorOptimizer', options.actorOptimizer),
        },
        update({ actor, critics, targets }, batch, { logAlpha }) {
          const { obs, nextObs, actions, rewards, discounts, weights } = batch;
          const noise = () => normal([rows, actionDim]);
          const column = (x: Expression) => x.reshape([rows, 1]);
          const alpha = logAlpha.exp().detach();
          const now = squashedGaussian(actor(obs), noise(), gaussian);
          const surplus = now.logProb.detach().add(targetEntropy);
          const temperatureLoss = logAlpha.mul(surplus.mean()).neg();

          const next = squashedGaussian(actor(nextObs), noise(), gaussian);
          const later = targets(concat(1, nextObs, next.action)).transpose([1, 0, 2]);
          const kept = later
            .reshape([rows, members * n])
            .sort()
            .slice(1, 0, (n - drop) * members);
          const value = kept.sub(column(next.logProb.mul(alpha)));
          const goal = bootstrap(column(rewards), column(discounts), value).detach();
          const quantiles = critics(concat(1, obs, actions)).transpose([1, 0, 2]);
          const error = goal
            .reshape([rows, 1, 1, (n - drop) * members])
            .sub(quantiles.reshape([rows, members, n, 1]));
          const middles = constant(
            Array.from({ length: n }, (_, i) => (i + 0.5) / n),
            [n, 1],
          );
          const share = middles.sub(error.lt(0)).abs();
          const loss = share.mul(huber(error)).mean({ axis: [1, 2, 3] });
          const criticLoss = loss.mul(weights).mean();

          // Called again: the actor learns from the critics after their step.
          const chosen = critics(concat(1, obs, now.action)).mean({ axis: [0, 2] });
          const actorLoss = now.logProb.mul(alpha).sub(chosen).mean();
          return [
            {
              minimize: { logAlpha: temperatureLoss, critics: criticLoss },
              scalars: { temperatureLoss, alpha, criticLoss, meanQ: quantiles.mean() },
              priorities: loss,
            },
            {
              minimize: { actor: actorLoss },
              scalars: { actorLoss, entropy: now.logProb.mean().neg() },
            },
          ];
        },
      }),
    );
    this.#options = options;
  }

  /**
   * Returns a policy that loads `weights('actor')`. It runs on the calling thread and needs no
   * device.
   *
   * @param options `greedy` (default false) and `seed` (default 0)
   */
  policy(options: SacPolicyOptions = {}): SacPolicy {
    const actor = actorOf(this.#options, sacPolicyKeys);
    return new SacPolicy({ logStd: { form: 'clamp', min: -20, max: 2 }, ...actor }, options);
  }
}
