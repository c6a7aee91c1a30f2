/** Descriptions of a learner's networks, followers and loose parameters. */
import { describeValue } from '../../../base/checks.ts';
import { Network } from '../../network/network.ts';
import { type Expression, expressionOf, make, nodeOf, reshaped } from '../expression.ts';
import { checkedShape, countOf, type Shape, shown, sizeOf } from '../shapes.ts';
import {
  checkedNumber,
  checkOptions,
  type Node,
  refuseRange,
  refuseType,
  userLine,
} from '../tape.ts';

/** Networks with one description that are trained as one vector, as ensemble() describes them. */
export class Ensemble {
  readonly network: Network;
  readonly members: number;

  constructor(network: Network, members: number) {
    this.network = network;
    this.members = members;
    Object.freeze(this);
  }
}

/**
 * Several networks with one description, such as two critics. They have one optimizer and one
 * clipping norm. Each begins with other weights. Called on x, an ensemble gives [members, rows, …].
 *
 * @param network a Network of hotslot/learner
 * @param members number of networks, from 1 to 1,024
 * @throws {TypeError|RangeError} for anything else
 */
export function ensemble(network: Network, members: number): Ensemble {
  if (!(network instanceof Network))
    refuseType(`ensemble(network, members) takes a Network, got ${describeValue(network)}`);
  countOf('ensemble: members', members, 1, refuseRange);
  if (members > 1024) refuseRange(`ensemble: members must be at most 1024, got ${members}`);
  return new Ensemble(network, members);
}

/** A copy of other networks that changes after them, as polyak() and copied() describe it. */
export class Follower<K extends string = string> {
  readonly of: K;
  readonly kind: 'polyak' | 'copied';
  /** share of the followed parameters in the new ones */
  readonly tau: number;
  readonly every: number;
  readonly with: string | null;
  /** where the follower was described */
  readonly made: Error;

  constructor(of: unknown, how: Pick<Follower, 'kind' | 'tau' | 'every' | 'with' | 'made'>) {
    if (typeof of !== 'string')
      refuseType(
        `${how.kind}: name what it follows, as in ${how.kind}('q'), got ${describeValue(of)}`,
      );
    this.of = of as K;
    this.kind = how.kind;
    this.tau = how.tau;
    this.every = how.every;
    this.with = how.with;
    this.made = how.made;
    Object.freeze(this);
  }
}

/** Largest period, which kernels take as a whole number of 31 bits. */
export const MAX_EVERY = 2 ** 31 - 1;

function checkEvery(name: string, every: number): number {
  countOf(`${name}: every`, every, 1, refuseRange);
  if (every > MAX_EVERY) refuseRange(`${name}: every must be at most 2^31 − 1, got ${every}`);
  return every;
}

/**
 * A network that follows another one slowly: target ← tau · source + (1 − tau) · target, after all
 * phases of a minibatch. It begins as a copy of the source.
 *
 * @param of name of the network or ensemble that it follows
 * @param tau from 0 to 1
 * @param options `every`: number of minibatches from one change to the next, default 1. `with`: name
 *   of an optimizer that a phase uses. The target then changes only after this phase has run
 * @throws {TypeError|RangeError} for a wrong argument
 */
export function polyak<const K extends string>(
  of: K,
  tau: number,
  options: { readonly every?: number; readonly with?: string } = {},
): Follower<K> {
  checkOptions('polyak', options, ['every', 'with']);
  if (!(checkedNumber('polyak: tau', tau) >= 0 && tau <= 1))
    refuseRange(`polyak: tau must be from 0 to 1, got ${tau}`);
  const every = checkEvery('polyak', options.every ?? 1);
  if (options.with !== undefined && typeof options.with !== 'string')
    refuseType(
      `polyak: with is the name of a network that a phase minimizes, got ${describeValue(options.with)}`,
    );
  if (options.with !== undefined && every > 1)
    refuseRange('polyak: give every or with, because a phase has its own every');
  return new Follower<K>(of, {
    kind: 'polyak',
    tau,
    every,
    with: options.with ?? null,
    made: new Error(),
  });
}

/**
 * A network that becomes a copy of another one from time to time.
 *
 * @param of name of the network or ensemble that it follows
 * @param options `every`: number of steps of the source's optimizer from one copy to the next
 * @throws {TypeError|RangeError} for a wrong argument
 */
export function copied<const K extends string>(
  of: K,
  options: { readonly every: number },
): Follower<K> {
  checkOptions('copied', options, ['every'], "name the period, as in copied('q', { every: 500 })");
  const every = checkEvery('copied', options.every);
  return new Follower<K>(of, { kind: 'copied', tau: 1, every, with: null, made: new Error() });
}

/** A learned number or array outside of networks, as parameter() describes it. */
export class Parameter<S extends Shape = Shape> {
  readonly shape: S;
  readonly initial: Float32Array;

  constructor(shape: S, initial: Float32Array) {
    this.shape = shape;
    this.initial = initial;
    Object.freeze(this);
  }
}

interface InitialOption {
  readonly initial?: number | ArrayLike<number>;
}

/**
 * A learned number or array outside of networks, such as the logarithm of a temperature.
 *
 * @param options `shape` (default []), and `initial`: one number for all elements, or all numbers in
 *   row-major order, default 0
 * @throws {TypeError|RangeError} for anything else
 */
export function parameter<const S extends Shape>(
  options: { readonly shape: S } & InitialOption,
): Parameter<S>;
export function parameter(
  options?: { readonly shape?: undefined } & InitialOption,
): Parameter<readonly []>;
export function parameter(
  options: { readonly shape?: Shape | undefined } & InitialOption = {},
): Parameter {
  checkOptions('parameter', options, ['shape', 'initial']);
  const shape = checkedShape('parameter: shape', options.shape ?? [], refuseRange);
  const { initial = 0 } = options;
  const size = sizeOf(shape);
  const all = new Float32Array(size);
  if (typeof initial === 'number') all.fill(checkedNumber('parameter: initial', initial));
  else if (typeof (initial as ArrayLike<number> | null)?.length !== 'number')
    refuseType(
      `parameter: initial must be a number or an array of numbers, got ${describeValue(initial)}`,
    );
  else if (initial.length !== size)
    refuseRange(`parameter: ${shown(shape)} has ${size} numbers, got ${initial.length}`);
  else
    for (let i = 0; i < size; i++) all[i] = checkedNumber(`parameter: initial[${i}]`, initial[i]);
  return new Parameter(shape, all);
}

/** Returns the function that applies a network, or all networks of an ensemble, to an expression. */
export function applied(
  name: string,
  network: Network,
  members: number | null,
  vector: Node,
): (x: Expression) => Expression {
  const count = members ?? 1;
  return (...given: readonly unknown[]) => {
    if (given.length !== 1)
      refuseType(`${name}(x) takes one expression, got ${given.length} arguments`);
    const { shape, tape } = nodeOf(`${name}(x)`, given[0]);
    if (tape !== vector.tape)
      refuseType(
        `${name}(x): an expression of another learner or trace; its networks are made at ${userLine(vector.made)}`,
      );
    const { inputs, outputs } = network;
    // As torch.nn.Linear, over the last dimension, or over images as one row each.
    const leading =
      shape.at(-1) === inputs
        ? shape.slice(0, -1)
        : shape.length > 1 && sizeOf(shape.slice(1)) === inputs
          ? shape.slice(0, 1)
          : null;
    if (leading === null)
      return refuseRange(
        `${name}(x): ${shown(shape)} does not fit: the network takes rows of ${inputs} numbers`,
      );
    const result = [...(members === null ? [] : [count]), ...leading, outputs];
    if (result.length > 4)
      refuseRange(
        `${name}(x): ${shown(shape)} makes ${shown(result)}, but expressions have at most 4 dimensions: reshape x first`,
      );
    const rows = sizeOf(leading);
    const x = reshaped(given[0] as Expression, [rows, inputs]);
    const attributes = { network, members: count, name };
    const y = make('network', attributes, [x, expressionOf(vector)], [count, rows, outputs]);
    return reshaped(y, result);
  };
}
