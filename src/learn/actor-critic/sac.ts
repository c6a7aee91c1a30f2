/**
 * Soft actor-critic (Haarnoja et al., 2018) on a device, as a traced learner, with scalar or
 * distributional critics.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { withPresentNames } from '../../base/old-names.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction } from '../../device/owner.ts';
import type { Adam, AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import { ops } from '../ops/index.ts';
import { adamParts } from '../state.ts';
import { type Expression, where } from '../trace/expression.ts';
import { normal } from '../trace/functions.ts';
import { squashedGaussian } from '../trace/fused-functions.ts';
import type { Phase } from '../trace/learner/description.ts';
import { parameter } from '../trace/learner/networks.ts';
import {
  ActorCritic,
  type Algorithm,
  addParts,
  describedAdam,
  type Parts,
  programOf,
} from './actor-critic.ts';
import {
  type ActorCriticOptions,
  actorCriticKeys,
  actorNetwork,
  actorOf,
  optimizerOf,
} from './options.ts';
import { SacPolicy, type SacPolicyOptions, sacPolicyKeys } from './policies.ts';
import { type GaussianOptions, gaussianKeys, gaussianOptions } from './squashed-gaussian.ts';

type Floats = Tensor<'float32'>;

export interface SacOptions
  extends ActorCriticOptions,
    Omit<GaussianOptions, 'actionLow' | 'actionHigh'> {
  /** number of the actor's steps each time its update is due, 1 to 1,024, default 1 */
  policyRepeats?: number;
  /** 'auto' for a learned temperature, or a constant above 0. Default 'auto' */
  temperature?: 'auto' | number;
  /** initial value of a learned temperature, default 1 */
  initialTemperature?: number;
  /**
   * log-probabilities from which the temperature learns
   *
   * - 'actor': new ones after each step of the actor (CleanRL). This is the default for scalar
   *   critics.
   * - 'next': those in the critics' targets, after each step of the critics (FastSAC). This is the
   *   default for categorical critics
   */
  temperatureFrom?: 'actor' | 'next';
  /**
   * Adam's options for the temperature. Default: the critics' options without their weight decay
   */
  temperatureOptimizer?: AdamOptions;
  /** @deprecated Use `temperatureOptimizer`. This name is removed in 0.5. */
  temperatureOptimiser?: AdamOptions;
  /**
   * target of the policy's entropy in nats, default −actionDim. The temperature learns to reach it
   */
  targetEntropy?: number;
}

const keys = [
  ...actorCriticKeys,
  ...gaussianKeys,
  'policyRepeats',
  'temperature',
  'initialTemperature',
  'temperatureFrom',
  'temperatureOptimizer',
  'targetEntropy',
];

const scalars = [
  'criticLoss',
  'meanQ',
  'actorLoss',
  'entropy',
  'temperatureLoss',
  'alpha',
] as const;

/**
 * Trains a soft actor-critic (Haarnoja et al., 2018) by updates that a pipeline captures once.
 * @example
 * const learner = new SacLearner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 * await learner.ready;
 * pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
 *   scalars: learner.scalars,
 *   weights: learner.published,
 * });
 */
export class SacLearner extends ActorCritic {
  readonly scalars = scalars;
  /** float32 [1]: the temperature */
  readonly alpha: Floats;
  /** optimizer of the temperature, or undefined for a constant temperature */
  readonly temperatureOptimizer: Adam | undefined;
  readonly #options: SacOptions;

  /**
   * Returns `temperatureOptimizer`.
   *
   * @deprecated Use `temperatureOptimizer`. This name is removed in 0.5.
   */
  get temperatureOptimiser(): Adam | undefined {
    return this.temperatureOptimizer;
  }

  /**
   * Allocates all memory on `device`. Initial values are written on device.currentStream, and
   * `ready` resolves after that.
   *
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(device: Device, given: SacOptions) {
    const options = withPresentNames('SacLearner', given);
    checkKeys('SacLearner', options, keys);
    checkCount('actionDim', options.actionDim);
    const {
      actionDim,
      batchSize,
      policyRepeats = 1,
      temperature = 'auto',
      initialTemperature = 1,
    } = options;
    checkCount('policyRepeats', policyRepeats, 1, 1024);
    if (temperature !== 'auto') {
      if (typeof temperature !== 'number')
        throw typeError(
          `temperature must be 'auto' or a number, got ${describeValue(temperature)}`,
        );
      checkWithin('temperature', temperature, 1e-30, 1e30);
    }
    checkWithin('initialTemperature', initialTemperature, 1e-30, 1e30);
    const from =
      options.temperatureFrom ?? (options.critic?.kind === 'categorical' ? 'next' : 'actor');
    if (from !== 'actor' && from !== 'next')
      throw typeError(`temperatureFrom must be 'actor' or 'next', got ${describeValue(from)}`);
    const learns = temperature === 'auto' ? from : 'nobody';
    const turns = Array.from({ length: policyRepeats }, (_, r) => r);
    const drawn = turns.flatMap((r) => [
      `actor.${r}`,
      ...(learns === 'actor' ? [`alpha.${r}`] : []),
    ]);
    const { targetEntropy = -actionDim } = options;
    checkWithin('targetEntropy', targetEntropy, -1e30, 1e30);
    const initialAlpha = temperature === 'auto' ? initialTemperature : temperature;
    const gaussian = actorOf({ ...options }, gaussianKeys);
    super('SacLearner', device, options, {
      keys,
      actor: (all) => actorNetwork(all, (n) => 2 * n),
      actorValue: (clipped) => (clipped ? 'min' : 'mean'),
      logFloor: -30,
      targetEvery: 1,
      actorEvery: 1,
      draws: ['next', ...drawn].map((name) => ({ name, shape: [batchSize, actionDim] as const })),
      scalars,
      reads: ['alpha'],
      settings: {
        policyRepeats,
        temperature,
        temperatureFrom: from,
        targetEntropy,
        ...gaussianOptions(gaussian),
      },
      ...(temperature === 'auto' && {
        parameters: { logAlpha: parameter({ initial: Math.log(initialAlpha) }) },
        optimizers: () => ({ logAlpha: describedAdam(temperatureAdam(options)) }),
      }),
      phases: (parts) =>
        phasesOf(parts, {
          sample: (out) => squashedGaussian(out, normal([batchSize, actionDim]), gaussian),
          ...{ learns, targetEntropy, repeats: policyRepeats },
        }),
    } satisfies Algorithm);
    using construction = guardConstruction(this);
    this.#options = options;
    const program = programOf(this);
    const log = learns === 'nobody' ? undefined : program.flat(program.holder('logAlpha'));
    this.alpha = program.numbers.view({ shape: [1], offset: scalars.indexOf('alpha') });
    const optimizer = program.steppers.find(({ name }) => name === 'logAlpha')?.optimizer;
    this.temperatureOptimizer = optimizer as Adam | undefined;
    const derive = (stream: Stream) => {
      if (log) ops.exp(stream, this.alpha, log);
      else stream.fill(this.alpha, initialAlpha);
    };
    derive(device.currentStream);
    addParts(this, {
      parts: () =>
        log && this.temperatureOptimizer
          ? [
              ['logAlpha', { tensor: log }],
              ...adamParts('temperatureOptimizer', this.temperatureOptimizer),
            ]
          : [],
      restored: derive,
    });
    construction.done();
  }

  /**
   * Returns a policy that loads `published` vectors. It runs on the calling thread and needs no
   * device.
   *
   * @param options `greedy` (default false) and `seed` (default 0)
   * @throws {TypeError|RangeError} for a wrong option
   * @example
   * const policy = learner.policy({ greedy: true }).load(await learner.published.toArray());
   */
  policy(options: SacPolicyOptions = {}): SacPolicy {
    return new SacPolicy(actorOf(this.#options, sacPolicyKeys), options);
  }
}

/** Returns Adam's options for the temperature. */
function temperatureAdam(options: SacOptions): AdamOptions {
  const { temperatureOptimizer: own, criticOptimizer } = options;
  const given = optimizerOf('temperatureOptimizer', own ?? criticOptimizer, undefined);
  return own ? given : { ...given, weightDecay: 0 };
}

interface SacHow {
  /** returns actions and their log-probabilities from an actor's output, with new noise */
  sample(out: Expression): { action: Expression; logProb: Expression };
  learns: 'actor' | 'next' | 'nobody';
  targetEntropy: number;
  repeats: number;
}

/** Describes an update: critics, actor and temperature. */
function phasesOf(parts: Parts, how: SacHow): readonly Phase[] {
  const { networks, obs, nextObs, actorEvery: every } = parts;
  const { learns, targetEntropy, repeats } = how;
  const actor = networks.actor as (x: Expression) => Expression;
  const alpha = parts.parameters.alpha as Expression;
  const temperaturePhases = (logProb: Expression): Phase[] => {
    const logAlpha = parts.parameters.logAlpha as Expression;
    const surplus = logProb.mean().add(targetEntropy).detach();
    const temperatureLoss: Expression = logAlpha.exp().mul(surplus).neg();
    return [
      { minimize: { logAlpha: temperatureLoss }, scalars: { temperatureLoss } },
      // Called again: the step has changed it.
      { scalars: { alpha: logAlpha.exp() as Expression } },
    ];
  };
  const next = how.sample(actor(nextObs));
  const cost = () => next.logProb.mul(alpha) as Expression;
  const phases: Phase[] = [parts.criticPhase(next.action, cost)];
  if (learns === 'next') {
    const { logProb } = next;
    // Rows without a next observation have NaN, which add 0 to the loss.
    const known = where(logProb.eq(logProb), logProb, -targetEntropy) as Expression;
    phases.push(...temperaturePhases(known));
  }
  for (let r = 0; r < repeats; r++) {
    const { action, logProb } = how.sample(actor(obs));
    const value = parts.value(action);
    const actorLoss = logProb.mul(alpha).sub(value).mean();
    // Both means have one factor, so that one launch computes them.
    const scalars = { actorLoss, entropy: logProb.neg().mean() };
    phases.push({
      minimize: { actor: actorLoss },
      ...(r === repeats - 1 && { scalars }),
      every,
    });
    if (learns !== 'actor') continue;
    const after = temperaturePhases(how.sample(actor(obs)).logProb);
    phases.push(...after.map((phase) => ({ ...phase, every })));
  }
  return phases;
}
