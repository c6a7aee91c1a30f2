/**
 * Adam and AdamW for one flat vector. All state is in device memory, so a captured graph can
 * advance the step count.
 */

import { checkFlag, checkKeys } from '../base/checks.ts';
import { checkDevice } from '../device/checks.ts';
import type { Device, Stream, Tensor } from '../device/device.ts';
import { guardConstruction, own } from '../device/owner.ts';
import { checkWithin } from './checks.ts';
import {
  type Clipping,
  followArguments,
  installLaunch,
  Optimizer,
  type StepOptions,
} from './optimizer.ts';

export interface AdamOptions {
  /** learning rate, 0 to 1e6, default 1e-3, for actor-critic learners 3e-4 */
  learningRate?: number;
  /** decay of the mean of the gradient, from 0 to below 1, default 0.9 */
  beta1?: number;
  /** decay of the mean of the gradient's square, from 0 to below 1, default 0.999 */
  beta2?: number;
  /** number added to the denominator, 0 to 1, default 1e-8 */
  epsilon?: number;
  /** weight decay, a factor of the parameters, default 0. `decoupled` says how a step uses it */
  weightDecay?: number;
  /**
   * whether each step subtracts rate · weightDecay · parameters from the parameters, as AdamW does.
   * Default false: each step adds weightDecay · parameters to the gradient
   */
  decoupled?: boolean;
  /**
   * largest global norm of the gradient, default: no clipping. A step scales a larger gradient down
   * to this norm
   */
  maxGradNorm?: number;
}

export const adamKeys = [
  'learningRate',
  'beta1',
  'beta2',
  'epsilon',
  'weightDecay',
  'decoupled',
  'maxGradNorm',
] as readonly (keyof AdamOptions)[];

/** Default learning rate of the optimizers of an actor, of critics and of a temperature. */
export const ACTOR_CRITIC_RATE = { learningRate: 3e-4 } as const;

/** Returns a learner's options that are Adam's options. */
export const adamOptions = (options: AdamOptions): AdamOptions =>
  Object.fromEntries(
    adamKeys.filter((key) => options[key] !== undefined).map((key) => [key, options[key]]),
  );

/** Adam's options with defaults filled in. `maxGradNorm` is Infinity if the option is omitted. */
type Resolved = Required<AdamOptions>;

/** Names of the options in the order in which a saved state stores their values. */
const resolvedKeys = adamKeys as readonly (keyof Resolved)[];

/**
 * Returns the values of the options as float64, in the order of `adamKeys`. A learner's state
 * contains these values.
 */
export let optionsOf: (adam: Adam) => Float64Array<ArrayBuffer>;
/**
 * Applies saved options in a learner's loadState(), after the saved tensors were written.
 *
 * - `saved` is the result of optionsOf() in the saved run, or undefined if an older version saved
 *   it.
 * - `rate` is the learning rate in the saved state.
 *
 * The constructor's learning rate replaces the saved one if the saved run was given another rate.
 * If both runs were given the same rate, the saved one remains, because setLearningRate() may have
 * changed it. A constructor without a rate never replaces the saved one. All other options stay as
 * the constructor set them, because captured steps contain them. Returns a text for each saved
 * value that the constructor's value replaces.
 */
export let resumeOptions: (
  adam: Adam,
  saved: Float64Array | undefined,
  rate: number,
  stream: Stream,
) => string[];

/**
 * Updates one flat vector by Adam or AdamW. All of its state is in device memory. A captured step
 * advances the step count at each launch.
 * @example
 * const adam = new Adam(device, parameters, { learningRate: 1e-3, maxGradNorm: 10 });
 * adam.step(device.currentStream, gradient);
 * adam.setLearningRate(5e-4);
 */
export class Adam extends Optimizer {
  /**
   * float32: running mean of the gradient, before bias correction. `spread` is that of the
   * gradient's square
   */
  readonly mean: Tensor<'float32'>;
  readonly spread: Tensor<'float32'>;
  /**
   * 1 − beta1 and 1 − beta2. If a beta is close to 1, float32 stores 1 − beta more exactly than
   * beta, so the kernels take these
   */
  readonly #rests: readonly [number, number];
  readonly #reals: readonly [epsilon: number, decay: number, pull: number];
  /**
   * options with defaults. After a resume without the option `learningRate`, the rate is the one
   * that the saved run began with
   */
  #options: Resolved;
  /** whether the constructor was given a learning rate */
  readonly #rated: boolean;

  static {
    optionsOf = (adam) => Float64Array.from(resolvedKeys, (key) => Number(adam.#options[key]));
    resumeOptions = (adam, saved, rate, stream) => adam.#resume(saved, rate, stream);
  }

  /**
   * Allocates the state. The initial values are written on device.currentStream. Wait for them
   * before you capture a step.
   *
   * @param parameters contiguous float32 tensor
   * @param defaults learning rate that applies if `options` have none, default 1e-3, and the
   *   counter if the caller owns it
   * @throws {TypeError|RangeError} for a wrong option or tensor
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(
    device: Device,
    parameters: Tensor<'float32'>,
    options: AdamOptions = {},
    defaults: { learningRate: number; steps?: Tensor<'int32'> | undefined } = {
      learningRate: 1e-3,
    },
  ) {
    checkDevice('Adam', device);
    checkKeys('Adam', options, adamKeys);
    const {
      learningRate = defaults.learningRate,
      beta1 = 0.9,
      beta2 = 0.999,
      epsilon = 1e-8,
      maxGradNorm,
    } = options;
    const { weightDecay = 0, decoupled = false } = options;
    super(device, parameters, { learningRate, maxGradNorm, steps: defaults.steps });
    using construction = guardConstruction(this);
    checkFlag('decoupled', decoupled);
    checkWithin('weightDecay', weightDecay, 0, 1e6);
    this.#rests = [
      1 - checkWithin('beta1', beta1, 0, 0.999999999),
      1 - checkWithin('beta2', beta2, 0, 0.999999999),
    ];
    checkWithin('epsilon', epsilon, 0, 1);
    this.#reals = [epsilon, decoupled ? weightDecay : 0, decoupled ? 0 : weightDecay];
    const most = maxGradNorm ?? Number.POSITIVE_INFINITY;
    this.#options = {
      learningRate,
      beta1,
      beta2,
      epsilon,
      weightDecay,
      decoupled,
      maxGradNorm: most,
    };
    this.#rated = options.learningRate !== undefined;
    this.mean = own(this, device.allocate({ shape: [parameters.size] }));
    this.spread = own(this, device.allocate({ shape: [parameters.size] }));
    installLaunch(this, (...args) => this.#launchStep(...args));
    construction.done();
  }

  #launchStep(stream: Stream, gradient: Tensor<'float32'>, how: Clipping & StepOptions): void {
    const { factors, partial, maxNorm, ahead = 1, follow } = how;
    const { parameters, mean, spread, steps, learningRate } = this;
    const read = [factors, gradient, partial, steps, learningRate] as const;
    const reals = [...this.#rests, ...this.#reals, maxNorm] as const;
    if (!follow) {
      const tensors = [parameters, mean, spread, ...read] as const;
      stream.launch('adam', { tensors, wholes: [parameters.size, ahead], reals });
      return;
    }
    const moved = followArguments(follow);
    stream.launch('adam_follow', {
      tensors: [parameters, mean, spread, follow.target, ...read],
      wholes: [parameters.size, ahead, ...moved.wholes],
      reals: [...reals, ...moved.reals],
    });
  }

  #resume(saved: Float64Array | undefined, rate: number, stream: Stream): string[] {
    const own = optionsOf(this);
    const given = own[0] as number;
    const begun = saved?.[0];
    const shownRate =
      begun !== undefined && Math.fround(begun) === rate ? begun : Number(rate.toPrecision(7));
    const replaces =
      this.#rated && (begun === undefined ? Math.fround(given) !== rate : given !== begun);
    this.#options = { ...this.#options, learningRate: this.#rated ? given : (begun ?? shownRate) };
    if (replaces) this.setLearningRate(given, stream);
    const changed = replaces ? [`learningRate ${given} (state: ${shownRate})`] : [];
    const others = saved ? resolvedKeys.slice(1) : [];
    for (const [i, key] of others.entries()) {
      const [mine, its] = [own[i + 1] as number, saved?.[i + 1] as number];
      if (mine !== its)
        changed.push(`${key} ${optionText(key, mine)} (state: ${optionText(key, its)})`);
    }
    return changed;
  }
}

function optionText(key: keyof Resolved, value: number): string {
  if (key === 'decoupled') return String(value !== 0);
  return value === Number.POSITIVE_INFINITY ? 'none' : String(value);
}
