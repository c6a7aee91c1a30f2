/** CQL: soft actor-critic that lowers the values of actions outside of its data (Kumar et al., 2020). */
import { checkCount, checkFlag, checkKeys } from '../../base/checks.ts';
import type { Device } from '../../device/device.ts';
import { actorNetwork, actorOf } from '../actor-critic/options.ts';
import { SacPolicy, sacPolicyKeys } from '../actor-critic/policies.ts';
import { boxOf, gaussianKeys } from '../actor-critic/squashed-gaussian.ts';
import { checkWithin } from '../checks.ts';
import type { Expression } from '../trace/expression.ts';
import { bootstrap, concat, constant, mse, normal, uniform } from '../trace/functions.ts';
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

export interface CqlOptions extends EntropyOptions {
  /** actions that the penalty samples for each row and each of three sources, default 10 */
  sampledActions?: number;
  /** factor of the penalty, default 5 */
  penalty?: number;
  /** temperature of the penalty's soft maximum, default 1 */
  penaltyTemperature?: number;
  /** whether the soft maximum weighs actions by the inverse of their probability, default true */
  importanceSampling?: boolean;
  /** whether the targets subtract alpha · log-probability, as in SAC. Default false */
  backupEntropy?: boolean;
}

const keys = [
  ...entropyKeys,
  'sampledActions',
  'penalty',
  'penaltyTemperature',
  'importanceSampling',
  'backupEntropy',
];

/**
 * Trains CQL by updates that a pipeline captures once, as CORL does. The actor scales and shifts its
 * log deviations by two learned numbers. All gradients are taken before the first step.
 * @example
 * const learner = new CqlLearner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 */
export class CqlLearner extends TracedLearner {
  readonly #options: CqlOptions;

  /** @throws {TypeError|RangeError} for a wrong option */
  constructor(device: Device, options: CqlOptions) {
    checkKeys('CqlLearner', options, keys);
    const { actionDim, batchSize: rows, gamma, tau = 0.005, seed = 0 } = options;
    const { sampledActions: n = 10, penalty = 5, penaltyTemperature: soft = 1 } = options;
    const { importanceSampling = true, backupEntropy = false } = options;
    checkCount('sampledActions', n, 1, 1024);
    checkWithin('penalty', penalty, 0, 1e6);
    checkWithin('penaltyTemperature', soft, 1e-6, 1e6);
    checkFlag('importanceSampling', importanceSampling);
    checkFlag('backupEntropy', backupEntropy);
    const { targetEntropy, initialTemperature } = entropyOf(options);
    const fields = boxFields(options);
    const { scale, bias } = boxOf(actionDim, options);
    const gaussian = { ...gaussianDefaults, ...actorOf(options, gaussianKeys) };
    super(
      device,
      describeLearner({
        name: 'CqlLearner',
        rows,
        seed,
        batch: { ...fields, discounts: { gamma } },
        networks: {
          actor: actorNetwork(options, (size) => 2 * size),
          critics: ensemble(criticOf(options, 1), 2),
          targets: polyak('critics', tau),
        },
        parameters: {
          logAlpha: parameter({ initial: Math.log(initialTemperature) }),
          logStdScale: parameter({ initial: 1 }),
          logStdShift: parameter({ initial: -1 }),
        },
        optimizers: {
          logAlpha: adamOf('temperatureOptimizer', options.temperatureOptimizer),
          actor: adamOf('actorOptimizer', options.actorOptimizer, [
            'actor',
            'logStdScale',
            'logStdShift',
          ]),
          critics: adamOf('criticOptimizer', options.criticOptimizer),
        },
        update({ actor, critics, targets }, batch, { logAlpha, logStdScale, logStdShift }) {
          const { obs, nextObs, actions, rewards, discounts, weights } = batch;
          /** The actor's outputs, with log deviations that the two numbers scale and shift. */
          const outputs = (x: Expression): Expression => {
            const out = actor(x);
            const raw = out.slice(1, actionDim);
            return concat(1, out.slice(1, 0, actionDim), raw.mul(logStdScale).add(logStdShift));
          };
          const draw = (out: Expression, count: number) =>
            squashedGaussian(out, normal([count, actionDim]) as Expression, gaussian);
          /** Each row n times, as [rows · n, width]. */
          const repeated = (x: Expression, times: number): Expression => {
            const width = x.shape[1] as number;
            const rowsOf = x.reshape([rows, 1, width]).broadcast([rows, times, width]);
            return rowsOf.reshape([rows * times, width]);
          };
          const alpha = logAlpha.exp().detach();
          const [outNow, outNext] = [outputs(obs), outputs(nextObs)];
          const now = draw(outNow, rows);
          const temperatureLoss = logAlpha
            .mul(now.logProb.detach().add(targetEntropy).mean())
            .neg();
          const chosen = critics(concat(1, obs, now.action))
            .min({ axis: 0 })
            .reshape([rows]);
          const actorLoss = now.logProb.mul(alpha).sub(chosen).mean();

          const next = draw(outNext, rows);
          const least = targets(concat(1, nextObs, next.action))
            .min({ axis: 0 })
            .reshape([rows]);
          const later = backupEntropy ? least.sub(next.logProb.mul(alpha)) : least;
          const goal = bootstrap(rewards, discounts, later).detach();
          const values = critics(concat(1, obs, actions)).reshape([2, rows]);
          const error = values.sub(goal);
          const criticLoss = mse(error).mul(weights).mean({ axis: 1 }).sum();

          // The penalty: a soft maximum over sampled actions, minus the value of the data's action.
          const random = uniform([rows, n, actionDim], { low: -1, high: 1 });
          const scaled = random.mul(constant(scale)).add(constant(bias));
          const [current, following] = [outNow, outNext].map((out) =>
            draw(repeated(out, n), rows * n),
          ) as [ReturnType<typeof draw>, ReturnType<typeof draw>];
          const sampled = concat(
            1,
            scaled as Expression,
            following.action.detach().reshape([rows, n, actionDim]),
            current.action.detach().reshape([rows, n, actionDim]),
          );
          const flat = sampled.reshape([rows * 3 * n, actionDim]);
          const inputs = concat(1, repeated(obs, 3 * n), flat as Expression);
          let candidates: Expression = critics(inputs).reshape([2, rows, 3 * n]);
          if (importanceSampling) {
            const density = -scale.reduce((sum, half) => sum + Math.log(2 * half), 0);
            const even = constant([density], [1, 1]).broadcast([rows, n]);
            const logProbs = [following, current].map(({ logProb }) =>
              logProb.detach().reshape([rows, n]),
            );
            candidates = candidates.sub(concat(1, even as Expression, ...logProbs));
          } else candidates = concat(2, candidates, values.reshape([2, rows, 1]));
          const top = candidates.div(soft).logSumExp({ axis: 2 }).mul(soft);
          const gap = top.sub(values).mul(weights).mean({ axis: 1 }).sum();
          return {
            minimize: {
              logAlpha: temperatureLoss,
              actor: actorLoss,
              critics: criticLoss.add(gap.mul(penalty)),
            },
            scalars: {
              temperatureLoss,
              alpha,
              actorLoss,
              criticLoss,
              gap,
              meanQ: values.mean(),
              entropy: now.logProb.mean().neg(),
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
   */
  policy(): SacPolicy {
    const actor = actorOf(this.#options, sacPolicyKeys);
    return new SacPolicy({ ...gaussianDefaults, ...actor }, { greedy: true });
  }
}

const gaussianDefaults = {
  logStd: { form: 'clamp', min: -20, max: 2 },
  correction: 'exact',
} as const;
