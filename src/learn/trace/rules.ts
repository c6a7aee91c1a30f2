/**
 * The gradient of each op. A rule returns the gradient of each input from dy, the gradient of the
 * result, or null where the slope is 0. The rules of where, min, max, clamp and the indexed ops
 * select, and do not multiply by 0. So an infinity or NaN on the side that such an op did not take
 * stays harmless. Rules add ops to the trace, so the planner treats a backward pass like any other
 * part of it.
 */

import type { Expression } from './expression.ts';
import {
  binary,
  broadcasted,
  expressionOf,
  make,
  nodeFrom,
  product,
  reshaped,
  sliced,
  transposed,
  where,
} from './expression.ts';
import { type Shape, sizeOf } from './shapes.ts';
import type { BinaryName, Node, NodeOfKind, OpName, UnaryName } from './tape.ts';

/** The gradients of an op's inputs, in order. */
export type Gradients = readonly (Expression | null)[];
type Rule<N> = (dy: Expression, node: N, inputs: readonly Expression[]) => Gradients;

/** Ops that only backward passes contain. Their gradients would be second derivatives. */
type Backward =
  | 'unarySlope'
  | 'binarySlope'
  | 'clampSlope'
  | 'softmaxSlope'
  | 'takeSlope'
  | 'pad'
  | 'accumulate'
  | 'networkSlope';
export type RuledOp = Exclude<OpName, Backward>;
type Rules = { [K in RuledOp]: Rule<NodeOfKind<K>> };

const isFull = (x: Expression): boolean => nodeFrom(x).op === 'full';

/** Returns the exponent of pow, which is a number. */
const exponentOf = (x: Expression): number => (nodeFrom(x) as NodeOfKind<'full'>).attributes.value;

const slope = (f: UnaryName, dy: Expression, x: Expression): Expression =>
  make('unarySlope', { f }, [dy, x], x.shape);

/** Gradients of unary ops that need no kernel of their own, as far as they differ from `slope`. */
const unaryRules: {
  [F in UnaryName]?: (dy: Expression, x: Expression, y: Expression) => Expression | null;
} = {
  neg: (dy) => dy.neg(),
  sign: () => null,
  floor: () => null,
  exp: (dy, _x, y) => dy.mul(y),
  // One kernel if dy is one number, as it is in a mean of squares.
  square: (dy, x) => (isFull(dy) ? binary('mul', x, binary('mul', dy, 2)) : slope('square', dy, x)),
};

const both = (f: 'min' | 'max' | 'div' | 'huber', dy: Expression, a: Expression, b: Expression) =>
  make('binarySlope', { f }, [dy, a, b], dy.shape);

/** Gradients of binary ops over the shape of the result. Comparisons have none. */
const binaryRules: {
  [F in BinaryName]?: (dy: Expression, a: Expression, b: Expression) => Gradients;
} = {
  add: (dy) => [dy, dy],
  sub: (dy) => [dy, dy.neg()],
  mul: (dy, a, b) => [binary('mul', dy, b), binary('mul', dy, a)],
  div: (dy, a, b) => [binary('div', dy, b), both('div', dy, a, b)],
  min: (dy, a, b) => [both('min', dy, a, b), both('min', dy, b, a)],
  max: (dy, a, b) => [both('max', dy, a, b), both('max', dy, b, a)],
  pow: (dy, a, b) => [binary('mul', dy, binary('mul', a.pow(exponentOf(b) - 1), b)), null],
  huber: (dy, a, b) => [both('huber', dy, a, b), null],
};

/** The rules by op. Tests replace one to see that they find it. */
export const rules: Rules = {
  input: () => [],
  memory: () => [],
  constant: () => [],
  full: () => [],
  draw: () => [],
  unary: (dy, node, [x]) => {
    const { f } = node.attributes;
    const rule = unaryRules[f];
    return [rule ? rule(dy, x!, expressionOf(node)) : slope(f, dy, x!)];
  },
  binary: (dy, { attributes }, [a, b]) => {
    const found = binaryRules[attributes.f]?.(dy, a!, b!) ?? [null, null];
    return found.map((d, i) => d && sumTo(d, [a!, b!][i]!.shape));
  },
  where: (dy, _, [condition, a, b]) => [
    null,
    sumTo(where(condition, dy, 0), a!.shape),
    sumTo(where(condition, 0, dy), b!.shape),
  ],
  clamp: (dy, { attributes }, [x]) => [make('clampSlope', attributes, [dy, x!], x!.shape)],
  reduce: (dy, { attributes: { f, scale } }, [x]) => {
    const [places, n] = [dy.shape, x!.shape.at(-1)!];
    const spread = (d: Expression) => broadcasted(reshaped(d, [...places, 1]), x!.shape);
    // The scale multiplies the few elements of dy, and not those that they are spread to.
    if (f === 'sum') return [spread(binary('mul', dy, scale))];
    if (f === 'logSumExp') return [binary('mul', spread(dy), x!.softmax())];
    if (f === 'argmax' || f === 'argmin') return [null];
    const at = make('reduce', { f: f === 'max' ? 'argmax' : 'argmin', scale: 1 }, [x!], places);
    const rows = sizeOf(places);
    const d = make('pickSlope', {}, [reshaped(dy, [rows]), reshaped(at, [rows])], [rows, n]);
    return [reshaped(d, x!.shape)];
  },
  softmax: (dy, node) => [
    make('softmaxSlope', node.attributes, [dy, expressionOf(node)], node.shape),
  ],
  cumsum: (dy, { attributes: { axis, reverse } }) => [
    make('cumsum', { axis, reverse: reverse ? 0 : 1 }, [dy], dy.shape),
  ],
  ranks: () => [null],
  scatterAlong: (dy, _, [, ranks]) => [
    isFull(dy) ? dy : make('gatherAlong', {}, [dy, ranks!], dy.shape),
    null,
  ],
  gatherAlong: (dy, _, [, ranks]) => [make('scatterAlong', {}, [dy, ranks!], dy.shape), null],
  reshape: (dy, _, [x]) => [reshaped(dy, x!.shape)],
  transpose: (dy, { attributes: { axes } }) => [
    transposed(
      dy,
      axes.map((_, d) => axes.indexOf(d)),
    ),
  ],
  slice: (dy, { attributes: { axis, from } }, [x]) => [
    make('pad', { axis, before: from }, [dy], x!.shape),
  ],
  broadcast: (dy, _, [x]) => [sumTo(dy, x!.shape)],
  flip: (dy, { attributes }) => [isFull(dy) ? dy : make('flip', attributes, [dy], dy.shape)],
  concat: (dy, { attributes: { axis } }, inputs) => {
    let at = 0;
    return inputs.map(({ shape }) => {
      const from = at;
      at += shape[axis]!;
      return sliced(dy, axis, from, at);
    });
  },
  matmul: (dy, _, [a, b]) => [product(dy, turned(b!)), product(turned(a!), dy)],
  pick: (dy, _, [x, index]) => [make('pickSlope', {}, [dy, index!], x!.shape), null],
  pickSlope: (dy, _, [, index]) => [
    make('pick', {}, [dy, index!], [dy.shape[0]!, ...dy.shape.slice(2)]),
    null,
  ],
  take: (dy, _, [table, index]) => [make('takeSlope', {}, [dy, index!], table!.shape), null],
  categorical: () => [null, null],
  detach: () => [null],
  custom: (dy, node) => {
    const [, ...inputs] = node.inputs;
    const found = node.attributes.rule(nodeFrom(dy), node as Node, inputs);
    return [null, ...found.map((d) => d && expressionOf(d))];
  },
  network: (dy, node, [x, parameters]) => {
    const inputs = [dy, expressionOf(node as Node), x!, parameters!];
    const slope = make('networkSlope', node.attributes, inputs, []);
    return [x!, parameters!].map(({ shape }, index) => make('part', { index }, [slope], shape));
  },
  // gradient.ts passes the gradients of all parts of a fused op to the op's own rule.
  fused: () => [],
  part: () => [],
};

/** Returns the sum of x over the dimensions in which `shape` was broadcast. */
export function sumTo(x: Expression, shape: Shape): Expression {
  const missing = x.shape.length - shape.length;
  const axes = x.shape
    .map((_, d) => d)
    .filter((d) => d < missing || (shape[d - missing] === 1 && x.shape[d] !== 1));
  return axes.length === 0 ? reshaped(x, shape) : reshaped(x.sum({ axis: axes }), shape);
}

/** Swaps the last two axes. */
function turned(x: Expression): Expression {
  const axes = x.shape.map((_, d) => d);
  return transposed(x, [...axes.slice(0, -2), axes.at(-1)!, axes.at(-2)!]);
}
