/** Adam over one flat vector, all of its state in device memory: a captured graph advances the step count itself. */

import { checkKeys } from '../checks.ts';
import { checkDevice, checkStream } from '../device/checks.ts';
import type { Device, Stream, Tensor } from '../device/device.ts';
import { makingOf, Owner, own } from '../device/owner.ts';
import { checkVector, checkWithin } from './checks.ts';

export interface AdamOptions {
  /** default 1e-3 */
  learningRate?: number;
  /** default 0.9 */
  beta1?: number;
  /** default 0.999 */
  beta2?: number;
  /** default 1e-8 */
  epsilon?: number;
  /** scales the gradient so that its global norm is at most this; default: no clipping */
  maxGradNorm?: number;
}

const keys = ['learningRate', 'beta1', 'beta2', 'epsilon', 'maxGradNorm'] as const satisfies (keyof AdamOptions)[];

/** Those of a learner's options that are its optimiser's. */
export const adamOptions = (options: AdamOptions): AdamOptions =>
  Object.fromEntries(keys.filter((key) => options[key] !== undefined).map((key) => [key, options[key]]));

/** Places in the factors: what adam_advance and clip_scale write and adam reads. */
const clipFactor = 2;
const normPlace = 3;
const normLanes = 256;

export class Adam extends Owner {
  readonly parameters: Tensor<'float32'>;
  /** int32 [1]: updates done so far */
  readonly steps: Tensor<'int32'>;
  readonly #mean: Tensor<'float32'>;
  readonly #spread: Tensor<'float32'>;
  readonly #factors: Tensor<'float32'>;
  readonly #partial: Tensor<'float32'>;
  readonly #learningRate: number;
  /** 1 − beta1, 1 − beta2: what the kernels take, as a float holds them exactly enough where beta is close to 1 */
  readonly #rests: readonly [number, number];
  readonly #epsilon: number;
  readonly #maxGradNorm: number | undefined;

  /** State for `parameters`, a contiguous float32 vector; its first values are written in order of device.currentStream. */
  constructor(device: Device, parameters: Tensor<'float32'>, options: AdamOptions = {}) {
    super('this optimiser');
    checkDevice('Adam', device);
    checkKeys('Adam', options, keys);
    const { learningRate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, maxGradNorm } = options;
    this.parameters = checkVector('parameters', parameters, parameters?.size);
    this.#learningRate = checkWithin('learningRate', learningRate, 0, 1e6);
    this.#rests = [1 - checkWithin('beta1', beta1, 0, 0.999999999), 1 - checkWithin('beta2', beta2, 0, 0.999999999)];
    this.#epsilon = checkWithin('epsilon', epsilon, 0, 1);
    this.#maxGradNorm = maxGradNorm === undefined ? undefined : checkWithin('maxGradNorm', maxGradNorm, 1e-30, 1e30);
    const allocate = (size: number) => own(this, device.allocate({ shape: [size] }));
    const { size } = parameters;
    using making = makingOf(this);
    this.steps = own(this, device.allocate({ shape: [1], dtype: 'int32' }));
    this.#mean = allocate(size);
    this.#spread = allocate(size);
    this.#partial = allocate(normLanes);
    this.#factors = allocate(4).write(new Float32Array([0, 0, 1, 0]));
    making.done();
  }

  /** float32 [1]: the gradient's global norm before clipping; written only when maxGradNorm is set. */
  get gradientNorm(): Tensor<'float32'> {
    return this.#factors.view({ shape: [1], offset: normPlace });
  }
  /** float32 [1]: what the gradient was multiplied with (1 without clipping). */
  get clip(): Tensor<'float32'> {
    return this.#factors.view({ shape: [1], offset: clipFactor });
  }

  /** Enqueues one step with `gradient`, a contiguous float32 vector as long as the parameters. */
  step(stream: Stream, gradient: Tensor<'float32'>): void {
    const n = this.parameters.size;
    checkStream('step', stream);
    checkVector('gradient', gradient, n);
    const factors = this.#factors;
    if (this.#maxGradNorm !== undefined) {
      stream.launch('grad_norm', { tensors: [this.#partial, gradient], wholes: [n] });
      stream.launch('clip_scale', { tensors: [factors, this.#partial], reals: [this.#maxGradNorm] });
    }
    stream.launch('adam_advance', { tensors: [this.steps, factors], reals: [this.#learningRate, ...this.#rests] });
    const tensors = [this.parameters, this.#mean, this.#spread, gradient, factors] as const;
    stream.launch('adam', { tensors, wholes: [n], reals: [...this.#rests, this.#epsilon] });
  }
}
