/** Soft actor-critic (Haarnoja et al., 2018) on a device, with scalar or distributional critics. */

import { checkCount, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { withPresentNames } from '../../base/old-names.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import type { Adam, AdamOptions } from '../adam.ts';
import { checkWithin } from '../checks.ts';
import type { StepContext } from '../learner.ts';
import { ops } from '../ops/index.ts';
import { adamParts, type Part } from '../state.ts';
import { ActorCritic, type CriticCore, criticCoreOf, installActorHooks } from './actor-critic.ts';
import {
  type ActorCriticOptions,
  actorCriticKeys,
  actorNetwork,
  actorOf,
  optimizerOf,
} from './options.ts';
import { SacPolicy, type SacPolicyOptions, sacPolicyKeys } from './policies.ts';
import {
  type GaussianOptions,
  gaussianKeys,
  gaussianOptions,
  SquashedGaussian,
} from './squashed-gaussian.ts';
import { Temperature } from './temperature.ts';

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
  readonly scalars = [
    'criticLoss',
    'meanQ',
    'actorLoss',
    'entropy',
    'temperatureLoss',
    'alpha',
  ] as const;
  /** float32 [1]: the temperature */
  readonly alpha: Floats;
  /** optimizer of the temperature, or undefined for a constant temperature */
  readonly temperatureOptimizer: Adam | undefined;
  readonly #temperature: Temperature;
  readonly #common: CriticCore;
  readonly #options: SacOptions;
  readonly #gaussian: SquashedGaussian;
  readonly #repeats: number;
  readonly #from: 'actor' | 'next' | 'nobody';
  /**
   * mask with 1 where a log-probability is not NaN. Undefined unless the temperature learns from
   * 'next'
   */
  readonly #known: Floats | undefined;
  readonly #nextLogProb: Floats;
  readonly #logProb: Floats;

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
    const {
      actionDim,
      batchSize,
      policyRepeats = 1,
      temperature = 'auto',
      initialTemperature = 1,
    } = { ...options };
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
      options?.temperatureFrom ?? (options?.critic?.kind === 'categorical' ? 'next' : 'actor');
    if (from !== 'actor' && from !== 'next')
      throw typeError(`temperatureFrom must be 'actor' or 'next', got ${describeValue(from)}`);
    const learns = temperature === 'auto' ? from : 'nobody';
    const turns = Array.from({ length: policyRepeats }, (_, r) => r);
    const perRepeat = turns.flatMap((r) => [
      `actor.${r}` as const,
      ...(learns === 'actor' ? [`alpha.${r}` as const] : []),
    ]);
    const names = ['next', ...perRepeat];
    super('SacLearner', device, options, {
      keys,
      actor: (all) => actorNetwork(all, (n) => 2 * n),
      actorValue: (clipped) => (clipped ? 'min' : 'mean'),
      logFloor: -30,
      targetEvery: 1,
      actorEvery: 1,
      draws: names.map((name) => ({ name, shape: [batchSize, actionDim] as const })),
      numbers: 6,
      settings: {
        policyRepeats,
        temperature,
        temperatureFrom: from,
        targetEntropy: options?.targetEntropy ?? -actionDim,
        ...gaussianOptions(actorOf({ ...options }, gaussianKeys)),
      },
    });
    this.#common = criticCoreOf(this);
    this.#options = options;
    this.#repeats = policyRepeats;
    this.#from = learns;
    using construction = guardConstruction(this);
    const { targetEntropy = -actionDim } = options;
    checkWithin('targetEntropy', targetEntropy, -1e30, 1e30);
    this.#gaussian = own(
      this,
      new SquashedGaussian(device, { actionDim, rows: batchSize }, actorOf(options, gaussianKeys)),
    );
    const learner = optimizerOf(
      'temperatureOptimizer',
      options.temperatureOptimizer ?? options.criticOptimizer,
      undefined,
    );
    const adam = options.temperatureOptimizer ? learner : { ...learner, weightDecay: 0 };
    const [first, target] =
      temperature === 'auto' ? [initialTemperature, targetEntropy] : [temperature, undefined];
    const words = this.#common.numbers.view({ shape: [2], offset: 4 });
    this.#temperature = own(this, new Temperature(device, first, target, words, adam));
    this.alpha = this.#temperature.alpha;
    this.temperatureOptimizer = this.#temperature.optimizer;
    this.#nextLogProb = own(this, device.allocate({ shape: [batchSize] }));
    if (learns === 'next') this.#known = own(this, device.allocate({ shape: [batchSize] }));
    this.#logProb = own(this, device.allocate({ shape: [batchSize] }));
    installActorHooks(this, {
      events: [...(learns === 'next' ? (['alpha.0'] as const) : []), ...perRepeat],
      nextActions: (...args) => this.#nextActions(...args),
      criticsStepped: (stream, context) => {
        if (this.#from !== 'next') return;
        this.#temperature.skipNaN(stream, this.#nextLogProb, this.#known as Floats);
        this.#temper(stream, this.#nextLogProb, 'alpha.0', context);
      },
      actorStep: (...args) => this.#actorStep(...args),
      parts: () => this.#parts(),
      restored: (stream) => this.#temperature.derive(stream),
    });
    construction.done();
  }

  #nextActions(stream: Stream, nextObs: Floats, into: Floats, context: StepContext): Floats {
    const { online, nextPass, column } = this.#common;
    const out = this.actor.forward(stream, online, nextObs, nextPass);
    this.#gaussian.sample(stream, out, context.draw('next'), into, this.#nextLogProb);
    ops.mul(stream, column, this.#nextLogProb.view({ shape: [this.batchSize, 1] }), this.alpha);
    return column;
  }

  #temper(stream: Stream, logProb: Floats, event: string, { record }: StepContext): void {
    const temperature = this.#temperature;
    temperature.measure(stream, logProb);
    const { loss, optimizer } = temperature;
    if (optimizer) record(event, () => ({ loss, gradient: loss, optimizer }));
    temperature.step(stream);
  }

  /** Enqueues gradient steps of the actor that minimize mean(alpha · log-probability − value). */
  #actorStep(stream: Stream, obs: Floats, context: StepContext): void {
    const { actor, alpha, actorOptimizer: optimizer } = this;
    const { critics, numbers, online, gradient, slopes, pass, column, actions, pull } =
      this.#common;
    const [loss, entropy] = [2, 3].map((offset) => numbers.view({ shape: [1], offset })) as [
      Floats,
      Floats,
    ];
    const terms = column.view({ shape: [this.batchSize] });
    for (let r = 0; r < this.#repeats; r++) {
      const noise = context.draw(`actor.${r}`);
      const out = actor.forward(stream, online, obs, pass);
      this.#gaussian.sample(stream, out, noise, actions, this.#logProb);
      const dAction = pull(stream);
      ops.mul(stream, terms, this.#logProb, alpha);
      ops.sub(stream, terms, terms, critics.value.view({ shape: [this.batchSize] }));
      ops.mean(stream, loss, terms);
      ops.mean(stream, entropy, this.#logProb);
      ops.neg(stream, entropy, entropy);
      this.#gaussian.backward(
        stream,
        pass.outputGradient,
        out,
        noise,
        dAction,
        alpha,
        1 / this.batchSize,
      );
      actor.backward(stream, online, obs, pass, slopes);
      context.record(`actor.${r}`, () => ({ loss, gradient, optimizer }));
      optimizer.step(stream, gradient);
      if (this.#from !== 'actor') continue;
      const again = actor.forward(stream, online, obs, pass);
      this.#gaussian.sample(stream, again, context.draw(`alpha.${r}`), actions, this.#logProb);
      this.#temper(stream, this.#logProb, `alpha.${r}`, context);
    }
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

  #parts(): [string, Part][] {
    const { log, optimizer } = this.#temperature;
    return optimizer
      ? [['logAlpha', { tensor: log }], ...adamParts('temperatureOptimizer', optimizer)]
      : [];
  }
}
