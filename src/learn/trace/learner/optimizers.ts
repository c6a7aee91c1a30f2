/** Descriptions of optimizers and of learning rates that change from step to step. */

import { checkKeys } from '../../../base/checks.ts';
import type { Device, Tensor } from '../../../device/device.ts';
import { Adam, type AdamOptions, adamKeys } from '../../adam.ts';
import { checkWithin } from '../../checks.ts';
import type { Optimizer } from '../../optimizer.ts';
import { Sgd, type SgdOptions } from '../../sgd.ts';
import { binary, type Expression, full, make, nodeFrom, where } from '../expression.ts';
import { checkedNumber, checkOptions, refuseRange, refuseType } from '../tape.ts';

/**
 * A learning rate as an expression of the number of steps that the optimizer has done, [], which
 * begins at 0. The update computes it on the device before each step.
 */
export type Schedule = (step: Expression<readonly []>) => Expression;

interface Common {
  /** a number from 0 to 1e6, or a schedule. Default 1e-3 */
  readonly learningRate?: number | Schedule;
  /**
   * networks and parameters that the optimizer steps as one vector, with one clipping norm. Default:
   * the one that has the optimizer's name
   */
  readonly of?: readonly string[];
}
/** Options of adam(). Each has the meaning of the option of `Adam`. */
export interface AdamDescription extends Omit<AdamOptions, 'learningRate'>, Common {}
/** Options of sgd(). */
export interface SgdDescription extends Omit<SgdOptions, 'learningRate'>, Common {}

/** An optimizer of a learner, as adam(), adamW() and sgd() describe it. */
export class OptimizerDescription {
  readonly kind: 'adam' | 'sgd';
  readonly schedule: Schedule | null;
  readonly of: readonly string[] | null;
  /** makes the optimizer of a vector. `steps` is its counter if the caller owns it */
  readonly make: (
    device: Device,
    parameters: Tensor<'float32'>,
    steps?: Tensor<'int32'>,
  ) => Optimizer;

  /** `defaults` has the learning rate of an Adam whose options have none. */
  constructor(
    kind: 'adam' | 'sgd',
    { of, learningRate, ...options }: AdamDescription & SgdDescription & { decoupled?: boolean },
    defaults?: { learningRate: number },
  ) {
    this.kind = kind;
    const schedule = typeof learningRate === 'function' ? learningRate : null;
    this.schedule = schedule;
    const rate = schedule || learningRate === undefined ? {} : { learningRate };
    const all = { ...options, ...rate } as AdamOptions;
    this.make = (device, parameters, steps) =>
      kind === 'adam'
        ? new Adam(device, parameters, all, { learningRate: 1e-3, ...defaults, steps })
        : new Sgd(device, parameters, all, { steps });
    if (of !== undefined && (!Array.isArray(of) || of.length === 0))
      refuseType(`${kind}: of is an array of names of networks and parameters`);
    this.of = of === undefined ? null : [...of];
    Object.freeze(this);
  }
}

/**
 * Describes Adam by its own options: a schedule is refused, and the parameters that it steps are those
 * of `of`. `defaults` has the learning rate of options without one.
 */
export function plainAdam(
  options: AdamOptions,
  defaults?: { learningRate: number },
  of?: readonly string[],
): OptimizerDescription {
  checkKeys('Adam', options, adamKeys);
  if (options.learningRate !== undefined) checkWithin('learningRate', options.learningRate, 0, 1e6);
  return new OptimizerDescription('adam', { ...options, ...(of && { of }) }, defaults);
}

const known = [...adamKeys, 'of'];

/**
 * Adam (Kingma and Ba, 2015), as torch.optim.Adam. Without `decoupled`, a weight decay is added to
 * the gradient.
 *
 * @param options `learningRate` (default 1e-3), `beta1`, `beta2`, `epsilon`, `weightDecay`,
 *   `decoupled`, `maxGradNorm` and `of`
 * @throws {TypeError} for an unknown option
 */
export function adam(options: AdamDescription = {}): OptimizerDescription {
  checkOptions('adam', options, known);
  return new OptimizerDescription('adam', options);
}

/**
 * AdamW (Loshchilov and Hutter, 2019): Adam whose weight decay does not pass through the moments.
 *
 * @param options as those of adam(). `weightDecay` is 0.01 by default, as in torch.optim.AdamW
 * @throws {TypeError} for an unknown option
 */
export function adamW(options: AdamDescription = {}): OptimizerDescription {
  checkOptions('adamW', options, known);
  return new OptimizerDescription('adam', { weightDecay: 0.01, decoupled: true, ...options });
}

/**
 * Stochastic gradient descent with momentum, as torch.optim.SGD.
 *
 * @param options `learningRate` (default 1e-3), `momentum` (default 0), `nesterov` (default false),
 *   `weightDecay`, `maxGradNorm` and `of`
 * @throws {TypeError} for an unknown option
 */
export function sgd(options: SgdDescription = {}): OptimizerDescription {
  const known = ['learningRate', 'momentum', 'nesterov', 'weightDecay', 'maxGradNorm', 'of'];
  checkOptions('sgd', options, known);
  return new OptimizerDescription('sgd', options);
}

/** Ends of a schedule that changes over `steps` steps, after which it stays at `to`. */
export interface Ramp {
  readonly from: number;
  /** default 0 */
  readonly to?: number;
  readonly steps: number;
}

function checkRamp(name: string, ramp: Ramp): Required<Ramp> {
  checkOptions(name, ramp, ['from', 'to', 'steps']);
  const { from, to = 0, steps } = ramp;
  for (const [key, value] of Object.entries({ from, to }))
    if (!(checkedNumber(`${name}: ${key}`, value) >= 0 && value <= 1e6))
      refuseRange(`${name}: ${key} must be a learning rate from 0 to 1e6, got ${value}`);
  checkSteps(name, steps);
  return { from, to, steps };
}

function checkSteps(name: string, steps: number): void {
  if (!(Number.isSafeInteger(steps) && steps >= 1 && steps <= 2 ** 24))
    refuseRange(`${name}: steps must be a whole number from 1 to 2^24, got ${steps}`);
}

/** Returns the share of a ramp that is over, from 0 to 1. */
const share = (step: Expression, steps: number): Expression =>
  binary('min', binary('mul', step, 1 / steps), 1);

/** A learning rate that falls or rises in a straight line from `from` to `to`. */
export function linearSchedule(ramp: Ramp): Schedule {
  const { from, to, steps } = checkRamp('linearSchedule', ramp);
  return (step) => binary('add', binary('mul', share(step, steps), to - from), from);
}

/** A learning rate that follows half a period of a cosine from `from` to `to`. */
export function cosineSchedule(ramp: Ramp): Schedule {
  const { from, to, steps } = checkRamp('cosineSchedule', ramp);
  return (step) => {
    const angle = binary('mul', share(step, steps), Math.PI);
    const cosine = make('unary', { f: 'cos' }, [angle], angle.shape);
    return binary('add', binary('mul', cosine, (from - to) / 2), (from + to) / 2);
  };
}

/**
 * A learning rate that rises in a straight line over the first steps to that of `then`. Step t of
 * them has the share (t + 1) / steps of the first rate of `then`, whose steps are counted after them.
 *
 * @param steps number of steps, from 1 to 2²⁴
 */
export function warmUp(steps: number, then: number | Schedule): Schedule {
  checkSteps('warmUp', steps);
  if (typeof then !== 'number' && typeof then !== 'function')
    refuseType('warmUp(steps, then): then is a learning rate or a schedule');
  return (step) => {
    const { tape } = nodeFrom(step as Expression);
    const rate = (at: Expression): Expression =>
      typeof then === 'number' ? full(tape, then, []) : then(at as Expression<readonly []>);
    const after = rate(binary('max', binary('sub', step, steps), 0));
    const rising = binary('mul', binary('add', step, 1), 1 / steps);
    return where(binary('lt', step, steps), binary('mul', rising, after), after);
  };
}
