/**
 * Twin delayed deterministic policy gradient (Fujimoto et al., 2018) on a device, with scalar or
 * distributional critics.
 */

import { checkFlag, checkKeys } from '../../base/checks.ts';
import { withPresentNames } from '../../base/old-names.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { checkWithin } from '../checks.ts';
import type { StepContext } from '../learner.ts';
import { tanh } from '../network/layers.ts';
import { ops } from '../ops/index.ts';
import { networkParts } from '../state.ts';
import { ActorCritic, type CriticCore, criticCoreOf, installActorHooks } from './actor-critic.ts';
import {
  type ActorCriticOptions,
  actorCriticKeys,
  actorKeys,
  actorNetwork,
  actorOf,
} from './options.ts';
import { Td3Policy, type Td3PolicyOptions } from './policies.ts';
import { boxOf } from './squashed-gaussian.ts';

type Floats = Tensor<'float32'>;

export interface Td3Options extends ActorCriticOptions {
  /** standard deviation of the noise on next actions, in half widths of the box, default 0.2 */
  policyNoise?: number;
  /** largest absolute value of that noise, in half widths of the box, default 0.5 */
  noiseClip?: number;
  /**
   * whether a target actor, which follows the actor slowly, chooses the next actions. If false, the
   * actor chooses them (FastTD3). Default true
   */
  targetActor?: boolean;
  /**
   * options of TD3+BC (Fujimoto and Gu, 2021) for learning from a fixed data set, default: off
   *
   * The actor's loss is `mean((π(s) − a)²) − λ · mean(Q(s, π(s)))`. Here λ is
   * `alpha / mean(|Q(s, π(s))|)` of the minibatch, or 0 if all of these values are 0. No gradient
   * flows through λ. Actions have the units of the batch. `alpha` is 2.5 by default. With 0, the
   * actor only imitates the batch's actions
   */
  behaviorCloning?: { alpha?: number };
  /** @deprecated Use `behaviorCloning`. This name is removed in 0.5. */
  behaviourCloning?: { alpha?: number };
}

const keys = [...actorCriticKeys, 'policyNoise', 'noiseClip', 'targetActor', 'behaviorCloning'];

/** Device tensors that behavior cloning uses. */
interface Cloning {
  /** [rows, actionDim]: the actor's actions minus the batch's actions */
  readonly apart: Floats;
  /** [rows, actionDim]: the gradient at the actor's actions */
  readonly pull: Floats;
  /** [1] each: alpha, mean(|Q|), λ, and the mean square of `apart` */
  readonly alpha: Floats;
  readonly size: Floats;
  readonly factor: Floats;
  readonly error: Floats;
}

function cloningAlpha(options: Td3Options['behaviorCloning']): number | undefined {
  if (options === undefined) return undefined;
  checkKeys('behaviorCloning', options, ['alpha']);
  return checkWithin('behaviorCloning.alpha', options.alpha ?? 2.5, 0, 1e30);
}

/**
 * Trains a twin delayed DDPG (TD3, Fujimoto et al., 2018) by updates that a pipeline captures once.
 * @example
 * const learner = new Td3Learner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 * await learner.ready;
 * pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
 *   scalars: learner.scalars,
 *   weights: learner.published,
 * });
 */
export class Td3Learner extends ActorCritic {
  readonly scalars = ['criticLoss', 'meanQ', 'actorLoss'] as const;
  readonly #options: Td3Options;
  readonly #common: CriticCore;
  readonly #noise: { deviation: number; clip: number };
  readonly #target: { parameters: Floats; layers: readonly Floats[][] } | undefined;
  /** [4, actionDim]: half widths, middles, lower ends and upper ends of the box */
  readonly #box: readonly [scale: Floats, bias: Floats, low: Floats, high: Floats];
  readonly #smooth: Floats;
  readonly #cloning: Cloning | undefined;

  /**
   * Allocates all memory on `device`. Initial values are written on device.currentStream, and
   * `ready` resolves after that.
   *
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(device: Device, given: Td3Options) {
    const options = withPresentNames('Td3Learner', given);
    const {
      actionDim,
      batchSize,
      policyNoise = 0.2,
      noiseClip = 0.5,
      targetActor = true,
    } = { ...options };
    checkWithin('policyNoise', policyNoise, 0, 1e30);
    checkWithin('noiseClip', noiseClip, 0, 1e30);
    checkFlag('targetActor', targetActor);
    const alpha = cloningAlpha(options?.behaviorCloning);
    const scalar = (options?.critic?.kind ?? 'scalar') === 'scalar';
    const actorEvery = options?.actorEvery ?? 2;
    super('Td3Learner', device, options, {
      keys,
      actor: (all) => actorNetwork(all, (n) => n, [tanh()]),
      actorValue: (clipped) => (scalar ? 'first' : clipped ? 'min' : 'mean'),
      logFloor: Number.NEGATIVE_INFINITY,
      targetEvery: targetActor ? actorEvery : 1,
      actorEvery: 2,
      draws: [{ name: 'next', shape: [batchSize, actionDim] }],
      numbers: 3,
      settings: {
        policyNoise,
        noiseClip,
        targetActor,
        behaviorCloning: alpha === undefined ? null : { alpha },
      },
    });
    this.#options = options;
    this.#noise = { deviation: policyNoise, clip: noiseClip };
    const size = this.actor.parameterCount;
    using construction = guardConstruction(this);
    if (targetActor) {
      const parameters = own(this, device.allocate({ shape: [size] }));
      parameters.write(this.actor.initialize(options.seed ?? 0));
      this.#target = { parameters, layers: this.actor.over(parameters) };
    }
    const { scale, bias, low, high } = boxOf(actionDim, options);
    const rows = own(this, device.allocate({ shape: [4, actionDim] }));
    rows.write(Float32Array.from([...scale, ...bias, ...low, ...high]));
    this.#box = [0, 1, 2, 3].map((i) =>
      rows.view({ shape: [1, actionDim], offset: i * actionDim }),
    ) as never;
    this.#smooth = own(this, device.allocate({ shape: [batchSize, actionDim] }));
    if (alpha !== undefined) {
      const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
      const [apart, pull] = [allocate(batchSize, actionDim), allocate(batchSize, actionDim)];
      const given = allocate(1).write(Float32Array.of(alpha));
      this.#cloning = {
        apart,
        pull,
        alpha: given,
        size: allocate(1),
        factor: allocate(1),
        error: allocate(1),
      };
    }
    this.#common = criticCoreOf(this);
    installActorHooks(this, {
      events: ['actor.0'],
      nextActions: (...args) => this.#nextActions(...args),
      actorStep: (...args) => this.#actorStep(...args),
      follow: (...args) => this.#follow(...args),
      parts: () =>
        this.#target ? networkParts('targetActor', this.actor, this.#target.parameters) : [],
    });
    construction.done();
  }

  #nextActions(stream: Stream, nextObs: Floats, into: Floats, context: StepContext): undefined {
    const [scale, bias, low, high] = this.#box;
    const { deviation, clip } = this.#noise;
    const smooth = this.#smooth;
    const { online, nextPass } = this.#common;
    const y = this.actor.forward(stream, this.#target?.layers ?? online, nextObs, nextPass);
    ops.convert(stream, smooth, context.draw('next'), { scale: deviation });
    ops.clamp(stream, smooth, smooth, -clip, clip);
    ops.add(stream, smooth, smooth, y);
    ops.mul(stream, smooth, smooth, scale);
    ops.add(stream, smooth, smooth, bias);
    ops.max(stream, smooth, smooth, low);
    ops.min(stream, into, smooth, high);
  }

  /**
   * Enqueues one gradient step of the actor, which increases the mean value of its actions. With
   * behavior cloning, the step also moves them towards the batch's actions.
   */
  #actorStep(stream: Stream, obs: Floats, { record }: StepContext): void {
    const { actor, actorOptimizer: optimizer } = this;
    const { critics, numbers, online, gradient, slopes, pass, actions, pull } = this.#common;
    const [scale, bias] = this.#box;
    const cloning = this.#cloning;
    const loss = numbers.view({ shape: [1], offset: 2 });
    const y = actor.forward(stream, online, obs, pass);
    // `actions` contains the batch's actions here, and the next ops overwrite them with the
    // actor's.
    if (cloning) ops.convert(stream, cloning.apart, actions);
    ops.mul(stream, actions, y, scale);
    ops.add(stream, actions, actions, bias);
    if (cloning) ops.sub(stream, cloning.apart, actions, cloning.apart);
    const pulled = pull(stream);
    ops.mean(stream, loss, critics.value.view({ shape: [this.batchSize] }));
    ops.neg(stream, loss, loss);
    ops.mul(
      stream,
      pass.outputGradient,
      cloning ? this.#clone(stream, cloning, pulled, loss) : pulled,
      scale,
    );
    actor.backward(stream, online, obs, pass, slopes);
    record('actor.0', () => ({ loss, gradient, optimizer }));
    optimizer.step(stream, gradient);
  }

  /**
   * Adds the gradients of both terms of TD3+BC's loss, and returns the gradient at the actor's
   * actions. `pulled` is the gradient of the value without λ. Replaces `loss` by the loss of
   * TD3+BC.
   */
  #clone(
    stream: Stream,
    { apart, pull, alpha, size, factor, error }: Cloning,
    pulled: Floats,
    loss: Floats,
  ): Floats {
    const { critics, column } = this.#common;
    ops.abs(stream, column, critics.value);
    ops.mean(stream, size, column.view({ shape: [this.batchSize] }));
    ops.div(stream, factor, alpha, size);
    // If all values are 0, alpha / size is infinite, so this op sets λ to `size`, which is 0.
    ops.where(stream, factor, size, factor, size);
    ops.mul(stream, loss, loss, factor);
    ops.square(stream, pull, apart);
    ops.mean(stream, error, pull.view({ shape: [pull.size] }));
    ops.add(stream, loss, loss, error);
    ops.convert(stream, apart, apart, { scale: 2 / apart.size });
    ops.mul(stream, pull, pulled, factor);
    ops.add(stream, pull, pull, apart);
    return pull;
  }

  #follow(stream: Stream, tau: number): void {
    if (!this.#target) return;
    const { parameters } = this.#target;
    stream.launch('axpby', {
      tensors: [parameters, this.parameters],
      wholes: [parameters.size],
      reals: [tau, 1 - tau],
    });
  }

  /**
   * Returns a policy that loads `published` vectors. It runs on the calling thread and needs no
   * device.
   *
   * @param options `noise` (default 0) and `seed` (default 0)
   * @throws {TypeError|RangeError} for a wrong option
   * @example
   * const policy = learner.policy({ noise: 0.1 }).load(await learner.published.toArray());
   */
  policy(options: Td3PolicyOptions = {}): Td3Policy {
    return new Td3Policy(actorOf(this.#options, actorKeys), options);
  }
}
