/** Elementwise ops, which compute one output element from one, two or three input elements. */
import type { Stream, Tensor } from '../../device/device.ts';
import { activations } from '../activation.ts';
import { checkFloats, checkWithin } from '../checks.ts';
import type { Steps } from './launches.ts';
import { operands, strideOf } from './operands.ts';

type Floats = Tensor<'float32'>;

/** Unary ops by name, with their numbers in native/kernels/unary.gk. */
export const unaries = {
  abs: 0,
  neg: 1,
  sign: 2,
  square: 3,
  sqrt: 4,
  rsqrt: 5,
  reciprocal: 6,
  exp: 7,
  log: 8,
  tanh: 9,
  sigmoid: 10,
  softplus: 11,
  relu: 12,
  silu: 13,
  gelu: 14,
  geluTanh: 15,
  elu: 16,
  log1p: 17,
  sin: 18,
  cos: 19,
  floor: 20,
} as const;

/**
 * Whether the slope of a unary op needs the op's input. relu and tanh take it from their output, and
 * −1 stands for no op.
 */
export const slopeReadsInput = (op: number): boolean =>
  op >= 0 && op !== unaries.relu && op !== unaries.tanh;

/** Returns the number of relu or tanh in `bias_act` and `act_backward`. */
export const activationOf = (op: number): number =>
  op === unaries.relu ? activations.relu : activations.tanh;

/** Binary ops by name, with their numbers in native/kernels/binary.gk. */
export const binaries = {
  add: 0,
  sub: 1,
  mul: 2,
  div: 3,
  min: 4,
  max: 5,
  eq: 6,
  ne: 7,
  lt: 8,
  le: 9,
  gt: 10,
  ge: 11,
  pow: 12,
  huber: 13,
} as const;

/**
 * A tensor, or a number that stands for a tensor whose elements all have that value, rounded to
 * float32.
 */
export type Operand = Floats | number;
type Unary = (stream: Stream, out: Floats, x: Floats) => void;
type Slope = (stream: Stream, out: Floats, dy: Floats, x: Floats) => void;
type Binary = (stream: Stream, out: Floats, a: Operand, b: Operand) => void;

function each<Name extends string, Op>(
  numbers: Record<Name, number>,
  make: (name: Name, op: number) => Op,
) {
  const made = Object.entries<number>(numbers).map(([name, op]) => [name, make(name as Name, op)]);
  return Object.fromEntries(made) as Record<Name, Op>;
}

/** Returns the launches of an op whose inputs all have the shape of `out`. */
function alike(op: string, stream: Stream, out: Floats, inputs: Readonly<Record<string, Floats>>) {
  for (const [name, tensor] of Object.entries(inputs)) checkFloats(`${op}: ${name}`, tensor);
  const launches = operands(op, stream, out, inputs, { repeats: false });
  return { ...launches, strides: launches.steps.map((of) => strideOf(of, launches.columns)) };
}

/** Unary ops: each enqueues out = f(x). */
export const unary: Readonly<Record<keyof typeof unaries, Unary>> = each(
  unaries,
  (name, op) => (stream, out, x) => {
    const { rows, columns, strides, each } = alike(name, stream, out, { x });
    const [to, from] = strides as [number, number];
    const wholes = [rows, columns, to, from, op] as const;
    each(stream, (views) => stream.launch('unary', { tensors: views as [Floats, Floats], wholes }));
  },
);

/** Backward passes of the unary ops: each enqueues out = dy · f′(x). */
export const backward: Readonly<Record<keyof typeof unaries, Slope>> = each(
  unaries,
  (name, op) => (stream, out, dy, x) => {
    const { rows, columns, strides, each } = alike(`backward.${name}`, stream, out, { dy, x });
    const [to, above, from] = strides as [number, number, number];
    const wholes = [rows, columns, to, above, from, op] as const;
    each(stream, (views) =>
      stream.launch('unary_backward', { tensors: views as [Floats, Floats, Floats], wholes }),
    );
  },
);

/** Binary ops: each enqueues out = f(a, b). */
export const binary: Readonly<Record<keyof typeof binaries, Binary>> = each(
  binaries,
  (name, op) => (stream, out, a, b) => {
    const { rows, columns, steps, each } = operands(name, stream, out, { a, b });
    const [to, first, second] = steps as [Steps, Steps, Steps];
    const wholes = [rows, columns, strideOf(to, columns), ...first, ...second, op] as const;
    each(stream, (views) =>
      stream.launch('binary', { tensors: views as [Floats, Floats, Floats], wholes }),
    );
  },
);

/**
 * Enqueues out = a for the elements whose condition is not 0, else out = b.
 *
 * @param out float32. It may be one of the inputs if that input has the same layout
 * @param condition tensor or number that broadcasts to the shape of `out`. So do `a` and `b`
 * @throws {TypeError} for other dtypes
 * @throws {RangeError} for shapes that do not broadcast, or an input that shares elements with
 *   `out` at different indices
 */
export function where(
  stream: Stream,
  out: Floats,
  condition: Operand,
  a: Operand,
  b: Operand,
): void {
  const { rows, columns, steps, each } = operands('where', stream, out, { condition, a, b });
  const [to, ...from] = steps as [Steps, Steps, Steps, Steps];
  const wholes = [
    rows,
    columns,
    strideOf(to, columns),
    ...from[0],
    ...from[1],
    ...from[2],
  ] as const;
  each(stream, (views) =>
    stream.launch('where', { tensors: views as [Floats, Floats, Floats, Floats], wholes }),
  );
}

/**
 * Enqueues out = x, limited to the range from `low` to `high`. NaN stays NaN.
 *
 * @param out float32 of the shape of `x`. It may be `x`
 * @param low lower limit, may be −Infinity
 * @param high upper limit, at least `low`, may be Infinity
 * @throws {TypeError|RangeError} for other dtypes, shapes or limits
 */
export function clamp(stream: Stream, out: Floats, x: Floats, low: number, high: number): void {
  const { rows, columns, strides, each } = alike('clamp', stream, out, { x });
  checkWithin('clamp: high', high, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY);
  checkWithin('clamp: low', low, Number.NEGATIVE_INFINITY, high);
  const wholes = [rows, columns, ...(strides as [number, number])] as const;
  each(stream, (views) =>
    stream.launch('clip', { tensors: views as [Floats, Floats], wholes, reals: [low, high] }),
  );
}
