/**
 * Distribution of a stochastic actor's actions: a Gaussian that tanh squashes into a box. It
 * computes log-probabilities and the gradients of actions and log-probabilities.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { highEnd, lowEnd } from '../../base/float32.ts';
import { checkDevice, checkStream } from '../../device/checks.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { checkColumn, checkMatrix, checkVector, checkWithin, rowStride } from '../checks.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

/**
 * Forms of the log deviation and corrections, with their numbers in
 * native/kernels/squashed_gaussian.gk.
 */
export const logStdForms = { clamp: 0, tanh: 1 } as const;
export const corrections = { scaled: 0, unscaled: 1, split: 2, exact: 3 } as const;

export interface GaussianOptions {
  /** lower end of the box, one number or one for each element of an action, default −1 */
  actionLow?: number | readonly number[];
  /** upper end of the box, in the same form as actionLow, default 1 */
  actionHigh?: number | readonly number[];
  /**
   * limits of the log deviation, default { form: 'tanh', min: -5, max: 2 }
   *
   * - 'clamp' cuts it off at the limits (Haarnoja et al., Stable-Baselines3).
   * - 'tanh' maps it smoothly into the limits (CleanRL)
   */
  logStd?: { form?: 'tanh' | 'clamp'; min?: number; max?: number };
  /** largest absolute value of a mean before squashing, default: no limit */
  meanClamp?: number;
  /**
   * term that is subtracted from the log-probability to account for squashing. Here s is half the
   * box's width, and y the tanh. Default 'scaled'
   *
   * - 'scaled': ln(s (1 − y²) + 1e-6) (CleanRL).
   * - 'unscaled': ln(1 − y² + 1e-6) (Stable-Baselines3).
   * - 'split': ln(1 − y² + 1e-6) + ln(s + 1e-6) (UniLab).
   * - 'exact': ln(1 − y²) + ln s
   */
  correction?: 'scaled' | 'unscaled' | 'split' | 'exact';
}

export const gaussianKeys = [
  'actionLow',
  'actionHigh',
  'logStd',
  'meanClamp',
  'correction',
] as const;

/** Largest number of elements of an action. */
const MAX_ACTIONS = 2 ** 20;

/**
 * Largest number of elements of an action that `squashed_gaussian_rows` samples, which is the
 * number of a device's threads for a row. Longer actions are sampled by `squashed_gaussian`, with a
 * thread for each element, and another launch sums the terms.
 */
export const MAX_ROW_ACTIONS = 32;

/**
 * Returns the ends of a box as `low` and `high`, its half widths as `scale` and its middles as
 * `bias`.
 */
export function boxOf(
  actionDim: number,
  options: Pick<GaussianOptions, 'actionLow' | 'actionHigh'>,
) {
  // The bounds are JavaScript arrays with one entry per element. Without this limit, V8 would end
  // the process if it cannot allocate them.
  checkCount('actionDim', actionDim, 1, MAX_ACTIONS);
  const ends = (['actionLow', 'actionHigh'] as const).map((name, i) => {
    const given = options[name] ?? 2 * i - 1;
    const list = typeof given === 'number' ? new Array<number>(actionDim).fill(given) : given;
    if (!Array.isArray(list))
      throw typeError(`${name} must be a number or an array of them, got ${describeValue(given)}`);
    if (list.length !== actionDim)
      throw rangeError(`${name} must be ${actionDim} numbers, got ${list.length}`);
    // Rounds each end to float32 towards the inside of the box, so that clamped actions lie inside
    // the given ends.
    const inwards = i === 0 ? lowEnd : highEnd;
    return list.map((end: number, j) => inwards(checkWithin(`${name}[${j}]`, end, -1e30, 1e30)));
  }) as [number[], number[]];
  const [low, high] = ends;
  low.forEach((end, j) => {
    if (!(end < (high[j] as number)))
      throw rangeError(`actionLow[${j}] must be below actionHigh[${j}], got ${end} and ${high[j]}`);
  });
  const scale = low.map((end, j) => ((high[j] as number) - end) / 2);
  const bias = low.map((end, j) => ((high[j] as number) + end) / 2);
  return { low, high, scale, bias };
}

/** Returns the options with defaults filled in. Throws for invalid options. */
export function gaussianOptions(options: GaussianOptions) {
  const { logStd = {}, correction = 'scaled', meanClamp = 1e30 } = options;
  checkKeys('logStd', logStd, ['form', 'min', 'max']);
  const { form = 'tanh', min = -5, max = 2 } = logStd;
  checkOneOf('logStd.form', form, logStdForms);
  checkOneOf('correction', correction, corrections);
  checkWithin('logStd.max', max, checkWithin('logStd.min', min, -80, 80), 80);
  checkWithin('meanClamp', meanClamp, Number.MIN_VALUE, 1e30);
  return { form, min, max, correction, meanClamp };
}

function checkOneOf(name: string, value: unknown, known: object): void {
  if (typeof value === 'string' && Object.hasOwn(known, value)) return;
  throw typeError(
    `${name} must be one of ${Object.keys(known).join(', ')}, got ${describeValue(value)}`,
  );
}

/**
 * Samples actions from Gaussians that tanh squashes into a box. It also computes log-probabilities
 * and gradients.
 * @example
 * const gaussian = new SquashedGaussian(device, { actionDim: 6, rows: 256 });
 * gaussian.sample(stream, out, noise, action, logProb);
 * gaussian.backward(stream, dOut, out, noise, dAction, dLogProb);
 */
export class SquashedGaussian extends Owner {
  /** number of floats of an action */
  readonly actionDim: number;
  /** largest number of rows of a call */
  readonly rows: number;
  readonly #box: Floats;
  readonly #terms?: Floats;
  readonly #numbers: readonly [form: number, correction: number];
  readonly #reals: readonly [low: number, high: number, meanLimit: number];

  /**
   * Allocates memory for the box, and for the terms of log-probabilities if an action has more than
   * 32 elements.
   *
   * @param how `actionDim`: number of floats of an action. `rows`: largest number of rows of a call
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(
    device: Device,
    how: { actionDim: number; rows: number },
    options: GaussianOptions = {},
  ) {
    super('this distribution');
    checkDevice('SquashedGaussian', device);
    checkKeys('SquashedGaussian', how, ['actionDim', 'rows']);
    checkKeys('SquashedGaussian', options, gaussianKeys);
    this.actionDim = checkCount('actionDim', how.actionDim);
    this.rows = checkCount('rows', how.rows);
    const { scale, bias } = boxOf(this.actionDim, options);
    const { form, min, max, correction, meanClamp } = gaussianOptions(options);
    this.#numbers = [logStdForms[form], corrections[correction]];
    this.#reals = [min, max, meanClamp];
    using construction = guardConstruction(this);
    this.#box = own(this, device.allocate({ shape: [2, this.actionDim] })).write(
      Float32Array.from([...scale, ...bias]),
    );
    if (this.actionDim > MAX_ROW_ACTIONS)
      this.#terms = own(this, device.allocate({ shape: [this.rows, this.actionDim] }));
    construction.done();
  }

  /**
   * Enqueues the sampling of actions and their log-probabilities. It only launches kernels, so a
   * graph can capture it.
   *
   * @param out float32 [rows, 2 · actionDim], an actor's output: means, followed by log deviations
   *   before they are limited
   * @param noise contiguous float32 [rows, actionDim], standard normal
   * @param action output, float32 [rows, actionDim]
   * @param logProb output, contiguous float32 [rows], in nats
   * @throws {TypeError|RangeError} for other tensors, or more rows than the constructor was given
   */
  sample(stream: Stream, out: Floats, noise: Floats, action: Floats, logProb: Floats): void {
    checkStream('sample', stream);
    const { actionDim: n } = this;
    const rows = this.#rowsOf(out);
    checkMatrix('action', action, rows, n);
    checkVector('noise', noise, rows * n);
    checkVector('logProb', logProb, rows);
    const terms = this.#terms?.view({ shape: [rows, n] });
    stream.launch(terms ? 'squashed_gaussian' : 'squashed_gaussian_rows', {
      tensors: [action, terms ?? logProb, out, noise, this.#box],
      wholes: [rows, n, rowStride(action), rowStride(out), ...this.#numbers],
      reals: this.#reals,
    });
    if (terms) ops.sum(stream, logProb.view({ shape: [rows] }), terms);
  }

  /**
   * Enqueues the gradient at `out`, computed from the gradients at the actions and at their
   * log-probabilities.
   *
   * @param dOut output, float32 [rows, 2 · actionDim]
   * @param out `out` of the sample() call
   * @param noise `noise` of the sample() call
   * @param dAction float32 [rows, actionDim]: the gradient at the actions
   * @param dLogProb the gradient at the log-probabilities, float32 [rows], or [1] if it is equal
   *   for all rows
   * @param scale factor of `dLogProb`, default 1
   * @throws {TypeError|RangeError} for other tensors or numbers
   */
  backward(
    stream: Stream,
    dOut: Floats,
    out: Floats,
    noise: Floats,
    dAction: Floats,
    dLogProb: Floats,
    scale = 1,
  ): void {
    checkStream('backward', stream);
    const { actionDim: n } = this;
    const rows = this.#rowsOf(out);
    checkMatrix('dOut', dOut, rows, 2 * n);
    checkMatrix('dAction', dAction, rows, n);
    checkVector('noise', noise, rows * n);
    checkWithin('scale', scale, -1e30, 1e30);
    const one = dLogProb?.size === 1;
    const above = checkColumn('dLogProb', dLogProb, one ? 1 : rows);
    stream.launch('squashed_gaussian_backward', {
      tensors: [dOut, out, noise, this.#box, dAction, above],
      wholes: [
        rows,
        n,
        rowStride(dOut),
        rowStride(out),
        rowStride(dAction),
        one ? 0 : rowStride(above),
        ...this.#numbers,
      ],
      reals: [...this.#reals, scale],
    });
  }

  #rowsOf(out: Floats): number {
    checkMatrix('out', out, undefined, 2 * this.actionDim);
    const rows = out.shape[0] as number;
    if (rows < 1 || rows > this.rows)
      throw rangeError(`this distribution takes 1 to ${this.rows} rows, got ${rows}`);
    return rows;
  }
}
