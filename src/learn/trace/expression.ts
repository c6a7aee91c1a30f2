/** Expressions: arrays that are described once, and computed when a plan is emitted. */
import { describeValue } from '../../base/checks.ts';
import { arrayOf } from '../../base/dtype.ts';
import { unaries } from '../ops/elementwise.ts';
import type {
  Appended,
  Broadcast,
  Compatible,
  Multiplies,
  Picked,
  Product,
  Reduced,
  ReduceOptions,
  Resized,
  Taken,
  Transposed,
} from './shape-types.ts';
import {
  axesOf,
  axisOf,
  broadcastShapes,
  checkedShape,
  countOf,
  equalShapes,
  type Shape,
  shown,
  sizeOf,
} from './shapes.ts';
import {
  type BinaryName,
  checkedNumber,
  checkOptions,
  memoryOf,
  type Node,
  type ReductionName,
  refuseRange,
  refuseType,
  type Tape,
  type UnaryName,
} from './tape.ts';

/** An expression or a number, as an operand of an op. A number broadcasts to any shape. */
export type ExpressionLike<S extends Shape = Shape> = Expression<S> | number;
type ShapeOf<T> = T extends Expression<infer S> ? S : readonly [];
type Axis = { readonly axis?: number };

let nodeIn: (expression: Expression) => Node;
let wrap: (node: Node) => Expression;

/**
 * A float32 array of fixed shape that a plan computes on the device. An expression is immutable.
 * The functions and methods that make expressions run inside of the function of trace().
 *
 * Operands broadcast as in numpy, and a number may replace an operand. An op throws RangeError for
 * shapes that do not fit and TypeError for other operands. Both errors name the line of the call.
 * @example
 * trace(device, { x: [128, 4], w: [4, 2] }, ({ x, w }) => x.matmul(w).tanh().mean());
 */
export class Expression<S extends Shape = Shape> {
  /** lengths of the dimensions. The shape of a single number is [] */
  readonly shape: S;
  readonly #node: Node;

  /** Only ops make expressions. */
  private constructor(node: Node) {
    this.#node = node;
    this.shape = node.shape as S;
    Object.freeze(this);
  }

  static {
    nodeIn = (expression) => expression.#node;
    wrap = (node) => new Expression(node);
  }

  /** An expression has no value while a trace is made, so it is neither a number nor a condition. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return `[an expression ${shown(this.shape)}]`;
    return refuseType(
      'an expression has no value while the trace is made; use methods such as add() and gt(), and where() in place of if',
    );
  }

  /** |x|. The slope at 0 is 0. */
  abs(): Expression<S> {
    return unary('abs', this);
  }
  neg(): Expression<S> {
    return unary('neg', this);
  }
  /** −1, 0 or 1. The slope is 0. */
  sign(): Expression<S> {
    return unary('sign', this);
  }
  square(): Expression<S> {
    return unary('square', this);
  }
  sqrt(): Expression<S> {
    return unary('sqrt', this);
  }
  /** 1 / √x */
  rsqrt(): Expression<S> {
    return unary('rsqrt', this);
  }
  /** 1 / x */
  reciprocal(): Expression<S> {
    return unary('reciprocal', this);
  }
  exp(): Expression<S> {
    return unary('exp', this);
  }
  log(): Expression<S> {
    return unary('log', this);
  }
  /** ln(1 + x), accurate for small x */
  log1p(): Expression<S> {
    return unary('log1p', this);
  }
  sin(): Expression<S> {
    return unary('sin', this);
  }
  cos(): Expression<S> {
    return unary('cos', this);
  }
  /** the largest whole number that is at most x. The slope is 0. */
  floor(): Expression<S> {
    return unary('floor', this);
  }
  tanh(): Expression<S> {
    return unary('tanh', this);
  }
  sigmoid(): Expression<S> {
    return unary('sigmoid', this);
  }
  /** ln(1 + eˣ) */
  softplus(): Expression<S> {
    return unary('softplus', this);
  }
  /** max(x, 0). The slope at 0 is 0. */
  relu(): Expression<S> {
    return unary('relu', this);
  }
  /** x · sigmoid(x) */
  silu(): Expression<S> {
    return unary('silu', this);
  }
  /** x · Φ(x), with the cumulative normal distribution Φ */
  gelu(): Expression<S> {
    return unary('gelu', this);
  }
  /** gelu with a tanh instead of Φ */
  geluTanh(): Expression<S> {
    return unary('geluTanh', this);
  }
  /** x if x > 0, else eˣ − 1 */
  elu(): Expression<S> {
    return unary('elu', this);
  }

  add<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('add', this, b) as never;
  }
  sub<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('sub', this, b) as never;
  }
  mul<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('mul', this, b) as never;
  }
  div<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('div', this, b) as never;
  }
  /** 1 where x equals b, else 0. The slopes of comparisons are 0. */
  eq<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('eq', this, b) as never;
  }
  /** 1 where x differs from b, else 0 */
  ne<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('ne', this, b) as never;
  }
  /** 1 where x < b, else 0 */
  lt<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('lt', this, b) as never;
  }
  /** 1 where x ≤ b, else 0 */
  le<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('le', this, b) as never;
  }
  /** 1 where x > b, else 0 */
  gt<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('gt', this, b) as never;
  }
  /** 1 where x ≥ b, else 0 */
  ge<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>> {
    return binary('ge', this, b) as never;
  }

  /**
   * The smaller of x and an operand, element by element. Two equal elements get half of the
   * gradient each. Without an operand it is the least element over `axis`. The first of equal elements
   * in row-major order then gets the whole gradient.
   */
  min(): Expression<readonly []>;
  min<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  min<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>>;
  min(b?: ExpressionLike | ReduceOptions): Expression<never> {
    return extreme('min', this, b) as never;
  }
  /** The greater of x and an operand, or the greatest element over `axis`. Gradients as in min(). */
  max(): Expression<readonly []>;
  max<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  max<const B extends ExpressionLike>(
    b: B & Compatible<S, ShapeOf<B>>,
  ): Expression<Broadcast<S, ShapeOf<B>>>;
  max(b?: ExpressionLike | ReduceOptions): Expression<never> {
    return extreme('max', this, b) as never;
  }

  /** x to the power of a number */
  pow(exponent: number): Expression<S> {
    return power(this, exponent) as Expression<S>;
  }
  /**
   * x limited to the range from `low` to `high`. The slope is 1 inside of the range and at its ends.
   *
   * @param low default −Infinity
   * @param high default Infinity
   */
  clamp(low?: number, high?: number): Expression<S> {
    return clamped(this, low, high) as Expression<S>;
  }

  /** The sum over `axis`. */
  sum(): Expression<readonly []>;
  sum<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  sum(options: ReduceOptions = {}): Expression<never> {
    return reduced('sum', 'sum', this, options) as never;
  }
  /** The mean over `axis`. */
  mean(): Expression<readonly []>;
  mean<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  mean(options: ReduceOptions = {}): Expression<never> {
    return reduced('mean', 'sum', this, options, true) as never;
  }
  /** ln Σ eˣ over `axis` */
  logSumExp(): Expression<readonly []>;
  logSumExp<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  logSumExp(options: ReduceOptions = {}): Expression<never> {
    return reduced('logSumExp', 'logSumExp', this, options) as never;
  }
  /** √Σx² over `axis`. The slope at 0 is 0. */
  norm(): Expression<readonly []>;
  norm<const O extends ReduceOptions>(options: O): Expression<Reduced<S, O>>;
  norm(options: ReduceOptions = {}): Expression<never> {
    return normOf(this, options) as never;
  }
  /**
   * The index of the greatest element along an axis, or the first of several. It has no gradient. A
   * row that is −∞ throughout gives 0. pick() and take() accept the result.
   *
   * @param options `axis`: default the last
   */
  argmax(): Expression<Reduced<S, { axis: -1 }>>;
  argmax<const O extends Axis>(options: O): Expression<Reduced<S, O>>;
  argmax(options: Axis = {}): Expression<never> {
    checkAxis('argmax', options, ['axis']);
    return reduced('argmax', 'argmax', this, {
      axis: options.axis === undefined ? -1 : options.axis,
    }) as never;
  }
  /**
   * The softmax along an axis, by default the last. A row that is −∞ throughout gives 0 throughout,
   * with slope 0.
   */
  softmax(options: Axis = {}): Expression<S> {
    return soft('softmax', 0, this, options) as Expression<S>;
  }
  /**
   * The logarithm of the softmax along an axis, by default the last. A row that is −∞ throughout
   * gives −∞ throughout.
   */
  logSoftmax(options: Axis = {}): Expression<S> {
    return soft('logSoftmax', 1, this, options) as Expression<S>;
  }
  /** Running sums along an axis, by default the last. */
  cumsum(options: Axis = {}): Expression<S> {
    checkAxis('cumsum', options, ['axis']);
    const axis = axisOf(
      'cumsum',
      options.axis === undefined ? -1 : options.axis,
      this.shape.length,
      refuseRange,
    );
    return make('cumsum', { axis, reverse: 0 }, [this], this.shape) as Expression<S>;
  }
  /**
   * The elements in ascending order along the last axis, which has at most 1,024 elements. Equal
   * elements keep their order, and NaN comes last. The gradient goes to the sorted elements.
   */
  sort(): Expression<S> {
    return sorted(this) as Expression<S>;
  }

  /** The elements in row-major order with another shape. One length may be −1: the rest. */
  reshape<const T extends Shape>(shape: T): Expression<T> {
    return reshaped(this, shape) as Expression<T>;
  }
  /** All elements in one dimension. */
  flatten(): Expression<readonly [number]> {
    return reshaped(this, [sizeOf(this.shape)]) as never;
  }
  /** The dimensions in another order, by default reversed. Dimension i of the result is axes[i]. */
  transpose(): Expression;
  transpose<const A extends Shape>(axes: A): Expression<Transposed<S, A>>;
  transpose(axes?: readonly number[]): Expression<never> {
    return transposed(this, axes) as never;
  }
  /** The elements with index `from` to `to` − 1 along an axis. Negative indices count from the end. */
  slice(axis: number, from: number, to?: number): Expression<Resized<S>> {
    return sliced(this, axis, from, to) as never;
  }
  /** x repeated to a shape, as in numpy. Its gradient is the sum. */
  broadcast<const T extends Shape>(shape: T): Expression<T> {
    return broadcasted(this, shape) as Expression<T>;
  }
  /** The elements in reverse order along an axis. */
  flip(axis: number): Expression<S> {
    const at = axisOf('flip', axis, this.shape.length, refuseRange);
    return make('flip', { axis: at }, [this], this.shape) as Expression<S>;
  }
  /** The matrix product [m, k] · [k, n], [b, m, k] · [b, k, n] or [b, m, k] · [k, n]. */
  matmul<const B extends Expression>(
    b: B & Multiplies<S, ShapeOf<B>>,
  ): Expression<Product<S, ShapeOf<B>>> {
    return product(this, b) as never;
  }

  /**
   * x[i, index[i], …] for x of shape [rows, n, …].
   *
   * @param index [rows], whole numbers from 0 to n − 1. Another number gives NaN
   */
  pick(index: Expression<readonly [number]> | Expression): Expression<Picked<S>> {
    return picked(this, index) as never;
  }
  /**
   * The rows of a table [n, d] at an index of any shape. Rows with the same index add up their
   * gradients in ascending position.
   *
   * @param index whole numbers from 0 to n − 1, which are exact up to 2²⁴. Another number gives NaN
   */
  take<I extends Shape>(index: Expression<I>): Expression<Taken<S, I>> {
    return taken(this, index) as never;
  }
  /** 1 at each index and 0 elsewhere, in a new last dimension of length n. It has no gradient. */
  oneHot<const N extends number>(n: N): Expression<Appended<S, N>> {
    return hot(this, n) as never;
  }

  /** The same values without a gradient. */
  detach(): Expression<S> {
    return make('detach', {}, [this], this.shape) as Expression<S>;
  }
}

/** Methods without arguments. An argument that was meant for another library is refused. */
const bare = [...Object.keys(unaries), 'sort', 'flatten', 'detach'];
for (const name of bare) {
  const { value: method } = Object.getOwnPropertyDescriptor(Expression.prototype, name)!;
  const checked = function (this: Expression, ...given: readonly unknown[]) {
    if (given.length > 0)
      refuseType(`${name}() takes no arguments, got ${given.map(describeValue).join(', ')}`);
    return method.call(this);
  };
  Object.defineProperty(Expression.prototype, name, {
    value: checked,
    writable: true,
    configurable: true,
  });
}

/** Returns the op of an expression. Throws TypeError for anything else. */
export function nodeOf(what: string, expression: unknown): Node {
  if (!(expression instanceof Expression))
    refuseType(`${what} must be an expression, got ${describeValue(expression)}`);
  return nodeIn(expression as Expression);
}

/** Returns the op of an expression that the library made. */
export const nodeFrom = (expression: Expression): Node => nodeIn(expression);
export const expressionOf = (node: Node): Expression => wrap(node);

/** Adds an op to the trace of its inputs. */
export function make<K extends Node['op']>(
  op: K,
  attributes: Parameters<typeof Tape.prototype.add<K>>[1],
  inputs: readonly Expression[],
  shape: Shape,
): Expression {
  const nodes = inputs.map(nodeIn);
  return wrap(nodes[0]!.tape.add(op, attributes, nodes, shape) as Node);
}

/** Returns an expression that has one number in every element. */
export const full = (tape: Tape, value: number, shape: Shape): Expression =>
  wrap(tape.add('full', { value }, [], shape) as Node);

/** Checks the options of an op along an axis. */
const checkAxis = (name: string, options: unknown, known: readonly string[]): void =>
  checkOptions(name, options, known, `name the axis, as in ${name}({ axis: 0 })`);

const fullValue = (node: Node): number | null =>
  node.op === 'full' ? node.attributes.value : null;

/** Returns operands as expressions. At least one of them must be one. */
export function operands(op: string, given: readonly unknown[]): Expression[] {
  const first = given.find((each) => each instanceof Expression) as Expression | undefined;
  if (first === undefined) refuseType(`${op}: at least one operand must be an expression`);
  const { tape } = nodeIn(first as Expression);
  return given.map((each, i) =>
    each instanceof Expression
      ? each
      : full(tape, checkedNumber(`${op}: operand ${i}`, each, 'an expression or a number'), []),
  );
}

function unary<S extends Shape>(f: UnaryName, x: Expression<S>): Expression<S> {
  const node = nodeIn(x);
  const negated = f === 'neg' ? scaledSum(x as Expression, -1, x.shape) : null;
  if (negated) return negated as Expression<S>;
  const value = f === 'neg' ? fullValue(node) : null;
  const result =
    value === null ? make('unary', { f }, [x], x.shape) : full(nodeIn(x).tape, -value, x.shape);
  return result as Expression<S>;
}

/** Results of ops on two numbers, which need no kernel. */
const folded: { readonly [F in BinaryName]?: (a: number, b: number) => number } = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
};

/**
 * Returns a sum times a number, which its kernel multiplies, or null for other ops. The result sums
 * anew, so a sum of memory, which may have changed since, keeps an op of its own.
 */
function scaledSum(x: Expression, by: number, shape: Shape): Expression | null {
  const node = nodeIn(x);
  if (node.op !== 'reduce' || node.attributes.f !== 'sum' || !equalShapes(node.shape, shape))
    return null;
  const { scale } = node.attributes;
  // Two factors of a sum would be rounded as one.
  if ((Math.abs(scale) !== 1 && Math.abs(by) !== 1) || memoryOf(node.inputs[0]!)) return null;
  return make('reduce', { f: 'sum', scale: scale * by }, node.inputs.map(wrap), shape);
}

/** Returns f(a, b). An op on numbers, a product with 1, and a multiple of a sum need no kernel. */
export function binary(f: BinaryName, first: unknown, second: unknown): Expression {
  const [a, b] = operands(f, [first, second]) as [Expression, Expression];
  const shape = broadcastShapes(f, [a.shape, b.shape], refuseRange);
  const [m, n] = [fullValue(nodeIn(a)), fullValue(nodeIn(b))];
  if (m !== null && n !== null && folded[f]) return full(nodeIn(a).tape, folded[f](m, n), shape);
  if (n === 1 && (f === 'mul' || f === 'div')) return broadcasted(a, shape);
  if (m === 1 && f === 'mul') return broadcasted(b, shape);
  if (f === 'mul' && (m !== null || n !== null)) {
    const multiple = m === null ? scaledSum(a, n!, shape) : scaledSum(b, m, shape);
    if (multiple) return multiple;
  }
  return make('binary', { f }, [a, b], shape);
}

function extreme(f: 'min' | 'max', x: Expression, b: unknown): Expression {
  if (b instanceof Expression || typeof b === 'number') return binary(f, x, b);
  return reduced(f, f, x, (b === undefined ? {} : b) as ReduceOptions);
}

export function where(condition: unknown, first: unknown, second: unknown): Expression {
  const all = operands('where', [condition, first, second]);
  const shape = broadcastShapes(
    'where',
    all.map((each) => each.shape),
    refuseRange,
  );
  return make('where', {}, all, shape);
}

/** Powers that have a kernel of their own. */
const simplePowers: ReadonlyMap<number, UnaryName> = new Map([
  [2, 'square'],
  [0.5, 'sqrt'],
  [-0.5, 'rsqrt'],
  [-1, 'reciprocal'],
]);

function power(x: Expression, exponent: unknown): Expression {
  if (exponent instanceof Expression)
    refuseType('pow: the exponent must be a number; b.mul(a.log()).exp() is a to the power b');
  const p = checkedNumber('pow: the exponent', exponent);
  if (p === 0) return full(nodeIn(x).tape, 1, x.shape);
  if (p === 1) return x;
  const f = simplePowers.get(p);
  return f ? unary(f, x) : binary('pow', x, p);
}

export function clamped(x: Expression, low: unknown, high: unknown): Expression {
  const least = checkedNumber('clamp: low', low ?? Number.NEGATIVE_INFINITY);
  const most = checkedNumber('clamp: high', high ?? Number.POSITIVE_INFINITY);
  if (!(least <= most))
    refuseRange(`clamp: low must be at most high, got ${low ?? least} and ${high ?? most}`);
  return make('clamp', { low: least, high: most }, [x], x.shape);
}

/** Returns δ · smooth L1 of an error: ½e² up to |e| = δ, and δ(|e| − ½δ) beyond. */
export function huber(error: Expression, delta = 1): Expression {
  const node = nodeOf('huber: error', error);
  if ((delta as unknown) instanceof Expression)
    refuseType('huber(error, delta) takes one expression: huber(prediction.sub(target))');
  const threshold = checkedNumber('huber: delta', delta);
  if (!(threshold > 0 && threshold < Number.POSITIVE_INFINITY))
    refuseRange(`huber: delta must be above 0 and finite, got ${delta}`);
  return make('binary', { f: 'huber' }, [error, full(node.tape, threshold, [])], node.shape);
}

/** Returns x with `axes` at the end, as one last dimension, and the lengths of the other axes. */
function rowsOver(x: Expression, axes: readonly number[]): { rows: Expression; places: number[] } {
  const rest = x.shape.map((_, d) => d).filter((d) => !axes.includes(d));
  const places = rest.map((d) => x.shape[d]!);
  const count = axes.reduce((n, d) => n * x.shape[d]!, 1);
  return { rows: reshaped(transposed(x, [...rest, ...axes]), [...places, count]), places };
}

function reduced(
  name: string,
  f: ReductionName,
  x: Expression,
  options: ReduceOptions,
  mean = false,
): Expression {
  checkAxis(name, options, ['axis', 'keep']);
  const axes = axesOf(name, options.axis, x.shape.length, refuseRange);
  const kept = x.shape.map((length, d) => (axes.includes(d) ? 1 : length));
  if ((f === 'min' || f === 'max') && axes.length === 1 && axes[0]! < x.shape.length - 1) {
    const n = x.shape[axes[0]!]!;
    if (n > 1 && n <= MAX_FEW) {
      const y = leastOfFew(f, x, axes[0]!, n);
      return options.keep ? reshaped(y, kept) : y;
    }
  }
  const { rows, places } = rowsOver(x, axes);
  const count = rows.shape.at(-1)!;
  if (f === 'argmax' || f === 'max' || f === 'min') checkIndexed(name, count);
  const value = fullValue(nodeIn(x));
  const scale = mean ? 1 / count : 1;
  const result =
    value !== null && f === 'sum'
      ? full(nodeIn(x).tape, value * count * scale, places)
      : make('reduce', { f, scale }, [rows], places);
  return options.keep ? reshaped(result, kept) : result;
}

/** Most elements along an axis of which min() and max() compare one with the next. */
const MAX_FEW = 4;

/**
 * The least or greatest of a few elements along an axis, such as the values of two critics. It takes
 * elementwise ops, which may join chains, in place of a reduction.
 */
function leastOfFew(f: 'min' | 'max', x: Expression, axis: number, n: number): Expression {
  const places = x.shape.filter((_, d) => d !== axis);
  const partsOf = (of: Expression): Expression[] =>
    Array.from({ length: n }, (_, k) => reshaped(sliced(of, axis, k, k + 1), places));
  const y = partsOf(x.detach()).reduce((best, part) => binary(f, best, part));
  return custom(y, [x], (dy, of, [from]) => {
    const [parts, best] = [partsOf(wrap(from!)), wrap(of)];
    // The first of equal elements gets the gradient, and the last one if none of the others does.
    let rest = wrap(dy);
    const found = parts.map((part, k) => {
      if (k === n - 1) return rest;
      const own = binary('eq', part, best);
      const share = where(own, rest, 0);
      rest = where(own, 0, rest);
      return share;
    });
    const along = [...places.slice(0, axis), 1, ...places.slice(axis)];
    return [nodeIn(concat(axis, ...found.map((each) => reshaped(each, along))))];
  });
}

function normOf(x: Expression, options: ReduceOptions): Expression {
  checkAxis('norm', options, ['axis', 'keep']);
  const axes = axesOf('norm', options.axis, x.shape.length, refuseRange);
  const y = reduced('norm', 'sum', unary('square', x), {
    ...(axes.length > 0 && { axis: axes }),
    keep: true,
  }) as Expression;
  const root = unary('sqrt', y);
  // The slope x / y would be 0 / 0 for a row of zeros.
  const kept = custom(root, [x], (dy, of, [from]) => {
    const share = where(binary('gt', wrap(of), 0), binary('div', wrap(dy), wrap(of)), 0);
    return [nodeIn(binary('mul', wrap(from!), share))];
  });
  const places = x.shape.filter((_, d) => !axes.includes(d));
  return options.keep ? kept : reshaped(kept, places);
}

/** Returns y with another gradient: `rule` gives those of `inputs`, and none goes through y. */
export function custom(
  y: Expression,
  inputs: readonly Expression[],
  rule: (dy: Node, y: Node, inputs: readonly Node[]) => readonly (Node | null)[],
): Expression {
  return make('custom', { rule }, [y, ...inputs], y.shape);
}

function soft(name: string, logarithm: 0 | 1, x: Expression, options: Axis): Expression {
  checkAxis(name, options, ['axis']);
  const axis = axisOf(
    name,
    options.axis === undefined ? -1 : options.axis,
    x.shape.length,
    refuseRange,
  );
  if (axis === x.shape.length - 1) return make('softmax', { logarithm }, [x], x.shape);
  const axes = x.shape.map((_, d) => d);
  [axes[axis], axes[axes.length - 1]] = [axes.length - 1, axis];
  const turned = transposed(x, axes);
  // The axes are swapped, so the same permutation restores them.
  return transposed(make('softmax', { logarithm }, [turned], turned.shape), axes);
}

/** Largest number of elements that sort() takes in a row. */
const MAX_SORTED = 1024;

function sorted(x: Expression): Expression {
  const n = x.shape.at(-1);
  if (n === undefined) refuseRange('sort: a single number has no axis to sort along');
  if ((n as number) > MAX_SORTED)
    refuseRange(`sort: the last axis has at most ${MAX_SORTED} elements, got ${n}`);
  return make('scatterAlong', {}, [x, make('ranks', {}, [x], x.shape)], x.shape);
}

export function reshaped(x: Expression, shape: Shape): Expression {
  const rest = Array.isArray(shape) ? shape.indexOf(-1) : -1;
  const to = checkedShape('reshape', rest < 0 ? shape : shape.with(rest, 1), refuseRange);
  if (rest >= 0) to[rest] = sizeOf(x.shape) / sizeOf(to);
  if (sizeOf(to) !== sizeOf(x.shape) || !to.every(Number.isInteger))
    refuseRange(
      `reshape: ${shown(x.shape)} has ${sizeOf(x.shape)} elements, and ${shown(shape)} has not`,
    );
  if (equalShapes(to, x.shape)) return x;
  const value = fullValue(nodeIn(x));
  return value === null ? make('reshape', {}, [x], to) : full(nodeIn(x).tape, value, to);
}

export function transposed(x: Expression, given?: readonly number[]): Expression {
  const rank = x.shape.length;
  if (given !== undefined && !Array.isArray(given))
    refuseType(`transpose takes axes such as [1, 0], got ${describeValue(given)}`);
  const axes = Array.from(given ?? x.shape.map((_, d) => rank - 1 - d), (axis) =>
    axisOf('transpose', axis, rank, refuseRange),
  );
  if (axes.length !== rank || new Set(axes).size !== rank)
    refuseRange(`transpose: name each of the ${rank} axes once, got [${given}]`);
  if (axes.every((axis, d) => axis === d)) return x;
  const shape = axes.map((axis) => x.shape[axis]!);
  const value = fullValue(nodeIn(x));
  return value === null
    ? make('transpose', { axes }, [x], shape)
    : full(nodeIn(x).tape, value, shape);
}

export function sliced(x: Expression, axis: number, from: number, to?: number): Expression {
  const at = axisOf('slice', axis, x.shape.length, refuseRange);
  const length = x.shape[at]!;
  const ends = [from, to ?? length].map((end, i) => {
    if (!Number.isInteger(end))
      refuseType(`slice: ${['from', 'to'][i]} is a whole number, got ${describeValue(end)}`);
    return end < 0 ? end + length : end;
  }) as [number, number];
  if (!(ends[0] >= 0 && ends[0] < ends[1] && ends[1] <= length))
    refuseRange(
      `slice: from ${from} to ${to ?? length} along axis ${axis} of ${shown(x.shape)} has no elements, or leaves the expression`,
    );
  if (ends[0] === 0 && ends[1] === length) return x;
  const shape = x.shape.map((n, d) => (d === at ? ends[1] - ends[0] : n));
  const value = fullValue(nodeIn(x));
  return value === null
    ? make('slice', { axis: at, from: ends[0] }, [x], shape)
    : full(nodeIn(x).tape, value, shape);
}

export function broadcasted(x: Expression, shape: Shape): Expression {
  const to = checkedShape('broadcast', shape, refuseRange);
  if (!equalShapes(broadcastShapes('broadcast', [x.shape, to], refuseRange), to))
    refuseRange(`broadcast: ${shown(x.shape)} does not broadcast to ${shown(to)}`);
  if (equalShapes(to, x.shape)) return x;
  const value = fullValue(nodeIn(x));
  return value === null ? make('broadcast', {}, [x], to) : full(nodeIn(x).tape, value, to);
}

/** Returns the parts one after another along an axis. */
export function concat(axis: number, ...parts: readonly Expression[]): Expression {
  if (typeof axis !== 'number')
    refuseType(`concat(axis, ...parts): the axis comes first, as in concat(1, x, y)`);
  const nodes = parts.map((part, i) => nodeOf(`concat: part ${i}`, part));
  const first = nodes[0];
  if (first === undefined) return refuseType('concat(axis, ...parts) takes one part or more');
  const at = axisOf('concat', axis, first.shape.length, refuseRange);
  for (const { shape } of nodes)
    if (
      shape.length !== first.shape.length ||
      shape.some((n, d) => d !== at && n !== first.shape[d])
    )
      refuseRange(
        `concat: ${nodes.map((each) => shown(each.shape)).join(' and ')} differ in another axis than ${axis}`,
      );
  const total = nodes.reduce((n, { shape }) => n + shape[at]!, 0);
  if (nodes.length === 1) return parts[0] as Expression;
  const shape = first.shape.map((n, d) => (d === at ? total : n));
  return make('concat', { axis: at }, parts, shape);
}

/** Returns the parts, which have one shape, along a new axis. */
export function stack(axis: number, ...parts: readonly Expression[]): Expression {
  if (typeof axis !== 'number')
    refuseType(`stack(axis, ...parts): the axis comes first, as in stack(1, x, y)`);
  const nodes = parts.map((part, i) => nodeOf(`stack: part ${i}`, part));
  const first = nodes[0];
  if (first === undefined) return refuseType('stack(axis, ...parts) takes one part or more');
  const at = axisOf('stack', axis, first.shape.length + 1, refuseRange);
  for (const { shape } of nodes)
    if (!equalShapes(shape, first.shape))
      refuseRange(
        `stack: the parts have one shape, got ${nodes.map((each) => shown(each.shape)).join(' and ')}`,
      );
  const shape = checkedShape(
    'stack',
    [...first.shape.slice(0, at), 1, ...first.shape.slice(at)],
    refuseRange,
  );
  return concat(at, ...parts.map((part) => reshaped(part, shape)));
}

export function product(a: Expression, b: unknown): Expression {
  const right = nodeOf('matmul: the second operand', b);
  const [x, y] = [a.shape, right.shape];
  const misfit = () =>
    refuseRange(
      `matmul: ${shown(x)} by ${shown(y)} is no product; it takes [m, k]·[k, n], [b, m, k]·[b, k, n] or [b, m, k]·[k, n]`,
    );
  if (x.length < 2 || x.length > 3 || y.length < 2 || y.length > x.length) misfit();
  if (x.at(-1) !== y.at(-2) || (y.length === 3 && x[0] !== y[0])) misfit();
  const shape = [...x.slice(0, -1), y.at(-1)!];
  if (x.length === y.length) return make('matmul', {}, [a, wrap(right)], shape);
  const flat = reshaped(a, [x[0]! * x[1]!, x[2]!]);
  return reshaped(make('matmul', {}, [flat, wrap(right)], [flat.shape[0]!, shape[2]!]), shape);
}

/** Refuses indices that float32 does not hold exactly. */
function checkIndexed(op: string, n: number): void {
  if (n > 2 ** 24)
    refuseRange(
      `${op}: indices are floats, which are exact up to 2^24, and there are ${n} elements`,
    );
}

function picked(x: Expression, index: unknown): Expression {
  const at = nodeOf('pick: index', index);
  if (x.shape.length < 2)
    refuseRange(`pick: x must have shape [rows, n, ...], got ${shown(x.shape)}`);
  checkIndexed('pick', x.shape[1]!);
  if (!equalShapes(at.shape, [x.shape[0]!]))
    refuseRange(
      `pick: index must be [${x.shape[0]}] for ${shown(x.shape)}, got ${shown(at.shape)}`,
    );
  return make('pick', {}, [x, wrap(at)], [x.shape[0]!, ...x.shape.slice(2)]);
}

function taken(table: Expression, index: unknown): Expression {
  const at = nodeOf('take: index', index);
  if (table.shape.length !== 2)
    refuseRange(`take: the table must have shape [n, d], got ${shown(table.shape)}`);
  checkIndexed('take', table.shape[0]!);
  const shape = checkedShape('take', [...at.shape, table.shape[1]!], refuseRange);
  return make('take', {}, [table, wrap(at)], shape);
}

function hot(index: Expression, n: number): Expression {
  countOf('oneHot: n', n, 1, refuseRange);
  checkIndexed('oneHot', n);
  const shape = checkedShape('oneHot', [...index.shape, n], refuseRange);
  const flat = reshaped(index, [sizeOf(index.shape)]);
  const ones = full(nodeIn(index).tape, 1, flat.shape);
  return reshaped(make('pickSlope', {}, [ones, flat], [flat.shape[0]!, n]), shape);
}

/** Returns values that the program gives, such as quantiles or atoms, as an expression. */
export function constantIn(tape: Tape, values: ArrayLike<number>, shape: Shape): Expression {
  const all = arrayOf('float32', values.length);
  for (let i = 0; i < values.length; i++)
    all[i] = checkedNumber(`constant: element ${i}`, values[i]);
  return wrap(tape.add('constant', { values: all }, [], shape) as Node);
}
