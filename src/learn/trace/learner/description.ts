/** The types of a learner's description, and learner(), which makes a learner of it. */
import type { Device } from '../../../device/device.ts';
import type { Network } from '../../network/network.ts';
import { clamped, type Expression } from '../expression.ts';
import type { Shape } from '../shapes.ts';
import { checkedNumber, refuseRange, refuseType } from '../tape.ts';
import type { FieldDescription } from './fields.ts';
import { DescribedLearner } from './learner.ts';
import type { Ensemble, Follower, Parameter } from './networks.ts';
import type { OptimizerDescription } from './optimizers.ts';

type FieldShape<F> = F extends 'index' | { readonly gamma: unknown }
  ? readonly []
  : F extends { readonly mask: infer N extends number }
    ? readonly [N]
    : F extends { readonly shape: infer S extends Shape }
      ? S
      : F extends Shape
        ? F
        : Shape;

/** The expressions of a batch, which `update` takes. Each has `rows` as its first dimension. */
export type BatchExpressions<B, R extends number> = {
  readonly [K in keyof B]: Expression<readonly [R, ...FieldShape<B[K]>]>;
};

/** A shape whose last dimension is replaced by the outputs of a network. */
type Applied<S extends Shape> = number extends S['length']
  ? Shape
  : S extends readonly [...infer L extends Shape, number]
    ? readonly [...L, number]
    : Shape;

/**
 * A network that `update` applies to an expression. It takes rows along the last dimension, as
 * torch.nn.Linear, or images and other arrays as one row each.
 */
export type NetworkFunction = <const S extends Shape>(x: Expression<S>) => Expression<Applied<S>>;
/** An ensemble that `update` applies to an expression. The members are the first dimension. */
export type EnsembleFunction = <const S extends Shape>(
  x: Expression<S>,
) => Expression<readonly [number, ...Applied<S>]>;

type Followed<T, All> =
  T extends Follower<infer K>
    ? K extends keyof All
      ? Followed<All[K], never>
      : NetworkFunction
    : T extends Ensemble
      ? EnsembleFunction
      : NetworkFunction;

/** The networks that `update` takes, by name. */
export type NetworkFunctions<N> = { readonly [K in keyof N]: Followed<N[K], N> };
/** The loose parameters that `update` takes, by name. */
export type ParameterExpressions<P> = {
  readonly [K in keyof P]: P[K] extends Parameter<infer S> ? Expression<S> : Expression;
};

/** One of the phases that `update` returns. */
export interface Phase<O extends string = string> {
  /** the loss of each optimizer, of shape [] or [1]. Only parameters that the optimizer steps get gradients */
  readonly minimize?: { readonly [K in O]?: Expression | undefined };
  /** numbers of shape [] or [1] that update() writes to `out` */
  readonly scalars?: { readonly [name: string]: Expression | undefined };
  /** [rows]: priorities of the rows, such as absolute TD errors */
  readonly priorities?: Expression;
  /** the phase runs in each minibatch whose number is a multiple of this, default 1 */
  readonly every?: number;
}

/** Describes a learner. See docs/reference/traced-learner.md. */
export interface LearnerDescription<
  R extends number,
  B extends Readonly<Record<string, FieldDescription>>,
  N extends Readonly<Record<string, Network | Ensemble | Follower>>,
  P extends Readonly<Record<string, Parameter>>,
  O extends Readonly<Record<string, OptimizerDescription>>,
> {
  /** name of the algorithm, which a saved state has to share */
  readonly name: string;
  /** rows of one minibatch. A batch of K · rows makes K of them */
  readonly rows: R;
  readonly batch: B;
  /** default {} */
  readonly networks?: N;
  readonly optimizers: O;
  readonly parameters?: P;
  /** seed of the initial weights and of random numbers, default 0 */
  readonly seed?: number;
  /** number of the first minibatch, which phases with `every` count from. Default 0 */
  readonly firstUpdate?: number;
  /** runs once, when the learner is made. Returns one phase, or several that run in order */
  update(
    networks: NetworkFunctions<N>,
    batch: BatchExpressions<B, R>,
    parameters: ParameterExpressions<P>,
  ): Phase<keyof O & string> | readonly Phase<keyof O & string>[];
}

/**
 * Makes a learner from a description. `update` describes losses as expressions. Their gradients are
 * derived once, here, and an update only launches kernels.
 *
 * @returns a learner whose `ready` resolves after its initial values were written. The caller must
 *   close it
 * @throws {TypeError|RangeError} for a wrong description. The error names a line of your program
 * @throws {ERR_HOTSLOT_STATE_CAPTURE} inside a capture
 * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
 * @example
 * const dqn = learner(device, {
 *   name: 'dqn',
 *   rows: 128,
 *   batch: { obs: [4], nextObs: [4], actions: 'index', rewards: [], discounts: [] },
 *   networks: { q, target: polyak('q', 0.005) },
 *   optimizers: { q: adam({ learningRate: 1e-3 }) },
 *   update({ q, target }, { obs, nextObs, actions, rewards, discounts }) {
 *     const goal = bootstrap(rewards, discounts, target(nextObs).max({ axis: 1 }));
 *     const error = q(obs).pick(actions).sub(goal);
 *     return { minimize: { q: huber(error).mean() }, priorities: error.abs() };
 *   },
 * });
 */
export function learner<
  const R extends number,
  const B extends Readonly<Record<string, FieldDescription>>,
  const O extends Readonly<Record<string, OptimizerDescription>>,
  const N extends Readonly<Record<string, Network | Ensemble | Follower>> = Record<never, never>,
  const P extends Readonly<Record<string, Parameter>> = Record<never, never>,
>(device: Device, description: LearnerDescription<R, B, N, P, O>): DescribedLearner {
  return new DescribedLearner(device, description);
}

/**
 * Returns a description unchanged. A class that extends TracedLearner passes it to super(), so that
 * the compiler checks it as learner() does.
 */
export const describeLearner = <
  const R extends number,
  const B extends Readonly<Record<string, FieldDescription>>,
  const O extends Readonly<Record<string, OptimizerDescription>>,
  const N extends Readonly<Record<string, Network | Ensemble | Follower>> = Record<never, never>,
  const P extends Readonly<Record<string, Parameter>> = Record<never, never>,
>(
  description: LearnerDescription<R, B, N, P, O>,
): LearnerDescription<R, B, N, P, O> => description;

/** The fields of a batch from which discounts() computes the factors of the bootstrap. */
export type Ends<R extends number> = {
  readonly [K in 'discounts' | 'terminated' | 'dones' | 'truncated']?: Expression<readonly [R]>;
};

/**
 * The factor of each row's bootstrap: the field `discounts` if the batch declares it. Otherwise it is
 * gamma where the episode did not terminate, and 0 elsewhere, from `terminated` or from `dones` and
 * `truncated`. An episode that a time limit cut short did not terminate.
 *
 * @param batch the expressions of a batch
 * @param gamma discount of one step, from 0 to 1
 * @throws {TypeError} for a batch without these fields
 */
export function discounts<R extends number>(
  batch: Ends<R>,
  gamma: number,
): Expression<readonly [R]> {
  if (!(checkedNumber('discounts: gamma', gamma) >= 0 && gamma <= 1))
    refuseRange(`discounts: gamma must be from 0 to 1, got ${gamma}`);
  if ('discounts' in batch) return batch.discounts as Expression<readonly [R]>;
  if ('terminated' in batch)
    return (batch.terminated as Expression).mul(-gamma).add(gamma) as never;
  if (!('dones' in batch && 'truncated' in batch))
    return refuseType(
      'discounts(batch, gamma): the batch declares none of discounts, terminated, and dones with truncated',
    );
  // In dones, an episode that was cut counts too, so the time limit is taken out.
  const alive = clamped((batch.truncated as Expression).sub(batch.dones as Expression), -1, 0);
  return alive.mul(gamma).add(gamma) as never;
}
