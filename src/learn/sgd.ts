/** Stochastic gradient descent with momentum for one flat vector. */
import { checkFlag, checkKeys } from '../base/checks.ts';
import { rangeError } from '../base/errors.ts';
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

type Floats = Tensor<'float32'>;

export interface SgdOptions {
  /** learning rate, 0 to 1e6, default 1e-3 */
  learningRate?: number;
  /** share of the last direction in the next one, from 0 to below 1, default 0 */
  momentum?: number;
  /** whether a step adds `momentum` times the new direction to the gradient. Default false */
  nesterov?: boolean;
  /** factor of the parameters that each step adds to the gradient, default 0 */
  weightDecay?: number;
  /** largest global norm of the gradient, default: no clipping */
  maxGradNorm?: number;
}

export const sgdKeys = [
  'learningRate',
  'momentum',
  'nesterov',
  'weightDecay',
  'maxGradNorm',
] as const;

/**
 * Steps one flat vector as torch.optim.SGD: direction ← momentum · direction + gradient, and
 * parameters ← parameters − learningRate · direction.
 */
export class Sgd extends Optimizer {
  /** float32: the direction of the last step, zeros before the first one */
  readonly direction: Floats;
  readonly #options: Required<Pick<SgdOptions, 'momentum' | 'nesterov' | 'weightDecay'>>;

  /**
   * Allocates the state. The initial values are written on device.currentStream.
   *
   * @param parameters contiguous float32 tensor
   * @param given the counter if the caller owns it
   * @throws {TypeError|RangeError} for a wrong option or tensor
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(
    device: Device,
    parameters: Floats,
    options: SgdOptions = {},
    given: { steps?: Tensor<'int32'> | undefined } = {},
  ) {
    checkDevice('Sgd', device);
    checkKeys('Sgd', options, sgdKeys);
    const { learningRate = 1e-3, momentum = 0, nesterov = false, weightDecay = 0 } = options;
    super(device, parameters, {
      learningRate,
      maxGradNorm: options.maxGradNorm,
      steps: given.steps,
    });
    using construction = guardConstruction(this);
    checkWithin('momentum', momentum, 0, 0.999999999);
    checkWithin('weightDecay', weightDecay, 0, 1e6);
    checkFlag('nesterov', nesterov);
    if (nesterov && momentum === 0) throw rangeError('nesterov needs a momentum above 0');
    this.#options = { momentum, nesterov, weightDecay };
    this.direction = own(this, device.allocate({ shape: [parameters.size] }));
    installLaunch(this, (...args) => this.#launchStep(...args));
    construction.done();
  }

  #launchStep(stream: Stream, gradient: Floats, how: Clipping & StepOptions): void {
    const { factors, partial, maxNorm, ahead = 1, follow } = how;
    const { parameters, direction, steps, learningRate } = this;
    const { momentum, nesterov, weightDecay } = this.#options;
    const reals = [momentum, weightDecay, maxNorm] as const;
    const read = [factors, gradient, partial] as const;
    if (!follow) {
      const tensors = [parameters, direction, ...read, learningRate] as const;
      stream.launch('sgd', { tensors, wholes: [parameters.size, Number(nesterov)], reals });
      return;
    }
    const moved = followArguments(follow);
    stream.launch('sgd_follow', {
      tensors: [parameters, direction, follow.target, ...read, steps, learningRate],
      wholes: [parameters.size, ahead, ...moved.wholes, Number(nesterov)],
      reals: [...reals, ...moved.reals],
    });
  }
}
