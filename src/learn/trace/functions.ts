/** Functions that make expressions: ops of several operands, draws and constants. */
import { describeValue } from '../../base/checks.ts';
import {
  binary,
  concat as concatenate,
  constantIn,
  type Expression,
  type ExpressionLike,
  expressionOf,
  huber as huberLoss,
  make,
  nodeOf,
  operands,
  product,
  where as select,
  sliced,
  stack as stacked,
} from './expression.ts';
import type {
  Appended,
  Broadcast,
  Compatible,
  Multiplies,
  Product,
  Reduced,
  Resized,
  SameRank,
} from './shape-types.ts';
import { checkedShape, countOf, type Shape, shown, sizeOf } from './shapes.ts';
import {
  type BinaryName,
  checkedNumber,
  checkOptions,
  currentTape,
  type Node,
  refuseRange,
  refuseType,
} from './tape.ts';

type ShapeOf<T> = T extends Expression<infer S> ? S : readonly [];
type Both<A extends ExpressionLike, B extends ExpressionLike> = Expression<
  Broadcast<ShapeOf<A>, ShapeOf<B>>
>;
type Fits<A extends ExpressionLike, B extends ExpressionLike> = B &
  Compatible<ShapeOf<A>, ShapeOf<B>>;

/** A function of two operands. */
type OfTwo = <const A extends ExpressionLike, const B extends ExpressionLike>(
  a: A,
  b: Fits<A, B>,
) => Both<A, B>;

const ofTwo =
  (f: BinaryName): OfTwo =>
  (a: unknown, b: unknown, ...more: readonly unknown[]) => {
    if (more.length > 0) refuseType(`${f}(a, b) takes two operands, got ${2 + more.length}`);
    return binary(f, a, b) as never;
  };

/** a + b, with operands that broadcast as in numpy. A number may be either operand. */
export const add = ofTwo('add');
/** a − b */
export const sub = ofTwo('sub');
/** a · b */
export const mul = ofTwo('mul');
/** a / b */
export const div = ofTwo('div');
/** The smaller of a and b. Two equal elements get half of the gradient each. */
export const min = ofTwo('min');
/** The greater of a and b. Two equal elements get half of the gradient each. */
export const max = ofTwo('max');
/** 1 where a equals b, else 0. Comparisons have no gradient. */
export const eq = ofTwo('eq');
/** 1 where a differs from b, else 0 */
export const ne = ofTwo('ne');
/** 1 where a < b, else 0 */
export const lt = ofTwo('lt');
/** 1 where a ≤ b, else 0 */
export const le = ofTwo('le');
/** 1 where a > b, else 0 */
export const gt = ofTwo('gt');
/** 1 where a ≥ b, else 0 */
export const ge = ofTwo('ge');

/**
 * a where the condition is not 0, else b. The side that is not taken gets no gradient, so an
 * infinity or NaN there is harmless.
 */
export const where = <
  const C extends ExpressionLike,
  const A extends ExpressionLike,
  const B extends ExpressionLike,
>(
  condition: C,
  a: A,
  b: Fits<A, B>,
) =>
  select(condition, a, b) as unknown as Expression<
    Broadcast<ShapeOf<C>, Broadcast<ShapeOf<A>, ShapeOf<B>>>
  >;

/** The parts one after another along an axis. */
export const concat = <const P extends readonly Expression[]>(
  axis: number,
  ...parts: P & SameRank<ShapeOf<P[number]>>
): Expression<Resized<ShapeOf<P[number]>>> => concatenate(axis, ...parts) as never;
/** The parts, which have one shape, along a new axis. */
export const stack = <const S extends Shape>(axis: number, ...parts: readonly Expression<S>[]) =>
  stacked(axis, ...parts) as unknown as Expression<Resized<Appended<S, number>>>;
/** The matrix product, as Expression.matmul(). */
export const matmul = <const A extends Expression, const B extends Expression>(
  a: A,
  b: B & Multiplies<ShapeOf<A>, ShapeOf<B>>,
): Expression<Product<ShapeOf<A>, ShapeOf<B>>> => {
  nodeOf('matmul: the first operand', a);
  return product(a, b) as never;
};

/**
 * The Huber loss of an error, element by element: ½e² up to |e| = delta, and delta · (|e| − ½delta)
 * beyond. This is delta times torch's smooth_l1_loss.
 *
 * @param delta above 0, default 1
 */
export const huber = <S extends Shape>(error: Expression<S>, delta = 1): Expression<S> =>
  huberLoss(error as Expression, delta) as unknown as Expression<S>;
/** The square of an error, element by element. Take its mean() for the mean squared error. */
export const mse = <S extends Shape>(error: Expression<S>, ...more: never[]): Expression<S> => {
  nodeOf('mse: error', error);
  if (more.length > 0) refuseType('mse(error) takes one expression: mse(prediction.sub(target))');
  return error.square();
};

/**
 * The target of a temporal difference: r where d is 0, else r + d · v. The values v of a final state
 * get no gradient and change nothing, even if they are infinite or NaN.
 */
export const bootstrap = <
  const R extends ExpressionLike,
  const D extends ExpressionLike,
  const V extends ExpressionLike,
>(
  rewards: R,
  discounts: D,
  values: V,
): Expression<Broadcast<ShapeOf<R>, Broadcast<ShapeOf<D>, ShapeOf<V>>>> => {
  const [r, d, v] = operands('bootstrap', [rewards, discounts, values]);
  return binary('add', r, binary('mul', d, select(binary('ne', d, 0), v, 0))) as never;
};

/**
 * The expectation Σ p·x over the last axis, where x counts only at p > 0. An action with
 * probability 0 may have the logarithm −∞.
 */
export const expect = <const P extends Expression, const X extends Expression>(
  p: P,
  x: X & Compatible<ShapeOf<P>, ShapeOf<X>>,
): Expression<Reduced<Broadcast<ShapeOf<P>, ShapeOf<X>>, { axis: -1 }>> => {
  nodeOf('expect: p', p);
  return binary('mul', p, select(binary('gt', p, 0), x, 0)).sum({ axis: -1 }) as never;
};

/**
 * Values that the program gives, such as quantiles or atoms. They stay the same in every run.
 *
 * @param values numbers in row-major order
 * @param shape default: one dimension
 */
export function constant<const S extends Shape = readonly [number]>(
  values: ArrayLike<number> | number,
  shape?: S,
): Expression<S> {
  const tape = currentTape('constant');
  const list = typeof values === 'number' ? [values] : values;
  if (typeof list !== 'object' || list === null || typeof list.length !== 'number')
    refuseType(`constant takes an array of numbers, got ${describeValue(values)}`);
  const to = checkedShape(
    'constant',
    shape ?? (typeof values === 'number' ? [] : [list.length]),
    refuseRange,
  );
  if (sizeOf(to) !== list.length)
    refuseRange(`constant: ${shown(to)} has ${sizeOf(to)} elements, got ${list.length}`);
  return constantIn(tape, list, to) as unknown as Expression<S>;
}

function draw(kind: 'normal' | 'uniform', shape: Shape, first: number, second: number): Expression {
  const tape = currentTape(kind);
  const to = checkedShape(kind, shape, refuseRange);
  const names = kind === 'normal' ? ['mean', 'deviation'] : ['low', 'high'];
  const [a, b] = [first, second].map((value, i) => {
    const number = checkedNumber(`${kind}: ${names[i]}`, value);
    if (!Number.isFinite(number)) refuseRange(`${kind}: ${names[i]} must be finite, got ${number}`);
    return number;
  }) as [number, number];
  if (kind === 'normal' && !(b >= 0 && b <= 1e30))
    refuseRange(`normal: deviation must be from 0 to 1e30, got ${b}`);
  const span = Math.fround(Math.fround(b) - Math.fround(a));
  if (kind === 'uniform' && !(span > 0 && span < Number.POSITIVE_INFINITY))
    refuseRange(
      `uniform: low must be below high by a number that float32 holds, got ${a} and ${b}`,
    );
  return expressionOf(tape.add('draw', { kind, first: a, second: b }, [], to) as Node);
}

/**
 * Normally distributed random numbers. Each run draws new ones, in the order of the program.
 *
 * @param options `mean` (default 0) and `deviation` (default 1)
 */
export const normal = <const S extends Shape>(
  shape: S,
  options: { readonly mean?: number; readonly deviation?: number } = {},
): Expression<S> => {
  checkOptions('normal', options, ['mean', 'deviation']);
  const { mean = 0, deviation = 1 } = options;
  return draw('normal', shape, mean, deviation) as unknown as Expression<S>;
};

/**
 * Random numbers that are uniform in [low, high). Each run draws new ones, in the order of the
 * program.
 *
 * @param options `low` (default 0) and `high` (default 1)
 */
export const uniform = <const S extends Shape>(
  shape: S,
  options: { readonly low?: number; readonly high?: number } = {},
): Expression<S> => {
  checkOptions('uniform', options, ['low', 'high']);
  const { low = 0, high = 1 } = options;
  return draw('uniform', shape, low, high) as unknown as Expression<S>;
};

/**
 * An index drawn from the softmax of each row of logits. An element of −∞ is never drawn, except
 * that a row that is −∞ throughout gives 0. It has no gradient.
 *
 * @param logits […, n]
 */
export function categorical<S extends Shape>(
  logits: Expression<S>,
): Expression<Reduced<S, { axis: -1 }>> {
  const { shape } = nodeOf('categorical: logits', logits);
  if (shape.length === 0)
    refuseRange('categorical: logits must have a last axis, got a single number');
  const places = shape.slice(0, -1);
  return make(
    'categorical',
    {},
    [logits as Expression, uniform(places) as Expression],
    places,
  ) as never;
}

/**
 * k different whole numbers from 0 to n − 1 in random order, such as the members of an ensemble that
 * a target reads. It has no gradient.
 *
 * @param n from 1 to 1,024
 * @param k from 1 to n
 * @returns [k]
 */
export function randomSubset<const K extends number>(n: number, k: K): Expression<readonly [K]> {
  countOf('randomSubset: n', n, 1, refuseRange);
  countOf('randomSubset: k', k, 1, refuseRange);
  if (n > 1024 || k > n)
    refuseRange(`randomSubset(n, k): n must be at most 1024 and k at most n, got ${n} and ${k}`);
  const draws = uniform([n]) as Expression;
  const { tape } = nodeOf('randomSubset', draws);
  const ranks = make('ranks', {}, [draws], [n]);
  const numbers = constantIn(
    tape,
    Array.from({ length: n }, (_, i) => i),
    [n],
  );
  return sliced(make('scatterAlong', {}, [numbers, ranks], [n]), 0, 0, k).detach() as never;
}
