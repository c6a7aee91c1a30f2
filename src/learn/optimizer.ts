/**
 * Base class of optimizers of one flat vector: step count, learning rate, and the clipping of the
 * gradient. All state is in device memory, so a captured graph can advance it.
 */
import { checkStream } from '../device/checks.ts';
import type { Device, Stream, Tensor } from '../device/device.ts';
import { guardConstruction, Owner, own } from '../device/owner.ts';
import { checkVector, checkWithin } from './checks.ts';

type Floats = Tensor<'float32'>;

/**
 * Offsets of the clip factor and of the gradient's norm in the factors. Steps that clip write them,
 * and so does the kernel clip_scale.
 */
const clipFactor = 2;
const normPlace = 3;
const normLanes = 256;

/** How stepLaunch() does a step. */
export interface StepOptions {
  /** number of the step after the counter, default 1. Steps that are not counted yet add to it */
  readonly ahead?: number;
  /** moves a target toward the new parameters in the launch of the step, default: none */
  readonly follow?: Follow;
}
/**
 * Moves `target` as the kernel follow_every does: toward the parameters from `first` on, in steps
 * whose number is a multiple of `every`.
 */
export interface Follow {
  readonly target: Floats;
  readonly first: number;
  readonly tau: number;
  readonly every: number;
}

/** The tensors and the limit of the launches of a step. */
export interface Clipping {
  readonly factors: Floats;
  readonly partial: Floats;
  /** largest norm, or 0 if steps do not clip */
  readonly maxNorm: number;
}

/**
 * Enqueues one step without counting it: `grad_norm` if the optimizer clips, then one launch of the
 * optimizer's kernel. The caller checks the arguments and advances `steps` in a later launch.
 */
export let stepLaunch: (
  optimizer: Optimizer,
  stream: Stream,
  gradient: Floats,
  options?: StepOptions,
) => void;

/** Enqueues the one launch of a step, which does not write the counter. */
type Launch = (stream: Stream, gradient: Floats, how: Clipping & StepOptions) => void;
/** Installs the launch of an optimizer's steps at the end of its constructor. */
export let installLaunch: (optimizer: Optimizer, launch: Launch) => void;

/** Returns the whole numbers and reals by which a kernel of a step moves a target. */
export const followArguments = ({ target, first, tau, every }: Follow) =>
  ({ wholes: [first, target.size, every], reals: [tau, 1 - tau] }) as const;

/** Steps one flat vector against its gradient. Adam and Sgd extend it. */
export abstract class Optimizer extends Owner {
  /** the vector that step() updates. close() does not close it */
  readonly parameters: Floats;
  /** int32 [1]: number of steps done, including the steps before a resume */
  readonly steps: Tensor<'int32'>;
  /**
   * float32 [1]: learning rate of later steps. setLearningRate() may change it between launches of
   * a captured step
   */
  readonly learningRate: Floats;
  readonly #device: Device;
  readonly #factors: Floats;
  readonly #partial: Floats;
  /** scratch memory of norm(), in the form of the factors. Steps do not read it */
  readonly #watchedNorm: Floats;
  readonly #maxGradNorm: number | undefined;

  #launch!: Launch;

  static {
    installLaunch = (optimizer, launch) => {
      optimizer.#launch = launch;
    };
    stepLaunch = (optimizer, stream, gradient, options = {}) => {
      const [factors, partial] = [optimizer.#factors, optimizer.#partial];
      const maxNorm = optimizer.#maxGradNorm ?? 0;
      if (maxNorm > 0) optimizer.#sumSquares(stream, gradient);
      optimizer.#launch(stream, gradient, { factors, partial, maxNorm, ...options });
    };
  }

  /** `steps` is the counter if the caller owns it. */
  protected constructor(
    device: Device,
    parameters: Floats,
    options: {
      learningRate: number;
      maxGradNorm: number | undefined;
      steps: Tensor<'int32'> | undefined;
    },
  ) {
    super('this optimizer');
    const { learningRate, maxGradNorm, steps } = options;
    this.parameters = checkVector('parameters', parameters, parameters?.size);
    checkWithin('learningRate', learningRate, 0, 1e6);
    this.#maxGradNorm =
      maxGradNorm === undefined ? undefined : checkWithin('maxGradNorm', maxGradNorm, 1e-30, 1e30);
    const allocate = (size: number) => own(this, device.allocate({ shape: [size] }));
    this.#device = device;
    using construction = guardConstruction(this);
    this.steps = steps ?? own(this, device.allocate({ shape: [1], dtype: 'int32' }));
    this.learningRate = allocate(1).write(Float32Array.of(learningRate));
    this.#partial = allocate(normLanes);
    this.#watchedNorm = allocate(4);
    this.#factors = allocate(4).write(new Float32Array([0, 0, 1, 0]));
    construction.done();
  }

  /**
   * Returns a view, float32 [1], of the gradient's global norm before clipping. Only steps with the
   * option `maxGradNorm` write it.
   */
  get gradientNorm(): Floats {
    return this.#factors.view({ shape: [1], offset: normPlace });
  }
  /**
   * Returns a view, float32 [1], of the factor by which the last step scaled the gradient. It is 1
   * without clipping.
   */
  get clip(): Floats {
    return this.#factors.view({ shape: [1], offset: clipFactor });
  }

  /**
   * Enqueues the computation of the gradient's global norm into `out`. The option `maxGradNorm` is
   * not needed.
   *
   * @param gradient contiguous float32, as long as the parameters
   * @param out contiguous float32 of one element
   * @throws {TypeError|RangeError} for other tensors
   */
  norm(stream: Stream, gradient: Floats, out: Floats): void {
    checkStream('norm', stream);
    checkVector('gradient', gradient, this.parameters.size);
    checkVector('out', out, 1);
    this.#sumSquares(stream, gradient);
    stream.launch('clip_scale', { tensors: [this.#watchedNorm, this.#partial], reals: [1] });
    stream.copy(
      out.view({ shape: [1] }),
      this.#watchedNorm.view({ shape: [1], offset: normPlace }),
    );
  }

  #sumSquares(stream: Stream, gradient: Floats): void {
    stream.launch('grad_norm', { tensors: [this.#partial, gradient], wholes: [gradient.size] });
  }

  /**
   * Enqueues one step on the parameters. It only launches kernels, so a graph can capture it.
   *
   * @param gradient contiguous float32, as long as the parameters
   * @throws {TypeError|RangeError} for another tensor
   */
  step(stream: Stream, gradient: Floats): void {
    checkStream('step', stream);
    checkVector('gradient', gradient, this.parameters.size);
    stepLaunch(this, stream, gradient);
    stream.launch('count_up', { tensors: [this.steps] });
  }

  /**
   * Sets the learning rate of steps enqueued on `stream` after this call, and of later launches of
   * a captured step.
   *
   * @param rate 0 to 1e6
   * @param stream default: the device's current stream
   * @throws {TypeError|RangeError} for another rate
   */
  setLearningRate(rate: number, stream: Stream = this.#device.currentStream): void {
    checkStream('setLearningRate', stream);
    this.learningRate.write(Float32Array.of(checkWithin('learningRate', rate, 0, 1e6)), stream);
  }
}
