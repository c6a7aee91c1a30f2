/**
 * Terms of random learners. Each term becomes an expression of a learner, and is also computed here
 * in float64 from numbers that remember how they were computed. This file uses no code of traces.
 */
import { concat, type Expression, matmul, where } from '../../../src/entries/trace.ts';

let made = 0;
let rounded = (value: number): number => value;
/** Calls `fn` while `by` changes each number that is computed. */
export function withRounding<T>(by: (value: number) => number, fn: () => T): T {
  const before = rounded;
  rounded = by;
  try {
    return fn();
  } finally {
    rounded = before;
  }
}

/** A number with its slopes with respect to the numbers from which it was computed. */
export class Num {
  readonly id: number = made++;
  readonly value: number;
  readonly from: readonly Num[];
  readonly slopes: readonly number[];
  constructor(value: number, from: readonly Num[] = [], slopes: readonly number[] = []) {
    this.value = from.length === 0 ? value : rounded(value);
    this.from = from;
    this.slopes = slopes;
  }
}

/** Returns the derivative of `end` with respect to each number that it was computed from. */
export function slopesOf(end: Num): ReadonlyMap<Num, number> {
  const reached = new Set([end]);
  for (const each of reached) for (const from of each.from) reached.add(from);
  const slopes = new Map<Num, number>([[end, 1]]);
  for (const each of [...reached].sort((a, b) => b.id - a.id)) {
    const above = slopes.get(each) ?? 0;
    each.from.forEach((from, i) => {
      slopes.set(from, (slopes.get(from) ?? 0) + above * each.slopes[i]!);
    });
  }
  return slopes;
}

const unary = (f: (x: number) => number, slope: (x: number) => number) => (x: Num) =>
  new Num(f(x.value), [x], [slope(x.value)]);
const added = (a: Num, b: Num) => new Num(a.value + b.value, [a, b], [1, 1]);
const lessened = (a: Num, b: Num) => new Num(a.value - b.value, [a, b], [1, -1]);
const multiplied = (a: Num, b: Num) => new Num(a.value * b.value, [a, b], [b.value, a.value]);
const scaled = (x: Num, by: number, plus = 0) => new Num(x.value * by + plus, [x], [by]);
const sum = (list: readonly Num[]) =>
  new Num(
    list.reduce((total, { value }) => total + value, 0),
    list,
    list.map(() => 1),
  );
const sine = unary(Math.sin, Math.cos);
const tangent = unary(Math.tanh, (x) => 1 - Math.tanh(x) ** 2);
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const greatest = (list: readonly Num[]): number =>
  list.reduce((best, { value }, i) => (value > list[best]!.value ? i : best), 0);

/** Numbers in row-major order. */
export interface Values {
  readonly shape: readonly number[];
  readonly items: readonly Num[];
}
const sizeOf = (shape: readonly number[]): number => shape.reduce((size, n) => size * n, 1);
export const constant = (shape: readonly number[], values: ArrayLike<number>): Values => ({
  shape,
  items: Array.from(values, (value) => new Num(value)),
});
const rowsOf = ({ shape, items }: Values): Num[][] => {
  const n = shape.at(-1)!;
  return Array.from({ length: items.length / n }, (_, i) => items.slice(i * n, (i + 1) * n));
};

/** Returns whether rows have one element or none. A reduction of one element is no op. */
const isShort = ({ shape }: Values): boolean => (shape.at(-1) ?? 1) < 2;

/** Returns the shape of two operands, or null if they do not broadcast. */
function meeting(a: readonly number[], b: readonly number[]): number[] | null {
  const rank = Math.max(a.length, b.length);
  const shape = Array.from({ length: rank }, (_, d) => {
    const [m, n] = [a[d - rank + a.length] ?? 1, b[d - rank + b.length] ?? 1];
    return m === n || n === 1 ? m : m === 1 ? n : -1;
  });
  return shape.includes(-1) ? null : shape;
}
/** Returns the element of `x` that broadcasts to place `at` of `shape`. */
function spread({ shape: own, items }: Values, shape: readonly number[], at: number): Num {
  let [index, step, rest] = [0, 1, at];
  for (let d = shape.length - 1; d >= 0; d--) {
    const place = rest % shape[d]!;
    rest = Math.floor(rest / shape[d]!);
    const n = own[d - shape.length + own.length] ?? 1;
    if (n > 1) index += place * step;
    step *= n;
  }
  return items[index]!;
}
const each = (shape: readonly number[], f: (at: number) => Num): Values => ({
  shape,
  items: Array.from({ length: sizeOf(shape) }, (_, at) => f(at)),
});
const pairwise = (f: (a: Num, b: Num) => Num) => (a: Values, b: Values) => {
  const shape = meeting(a.shape, b.shape);
  return shape && each(shape, (at) => f(spread(a, shape, at), spread(b, shape, at)));
};
const elementwise = (f: (x: Num) => Num) => (x: Values) => ({ ...x, items: x.items.map(f) });
function turned(x: Values): Values | null {
  const [m, n] = x.shape as [number, number];
  if (x.shape.length !== 2) return null;
  return each([n, m], (at) => x.items[(at % m) * n + Math.floor(at / m)]!);
}
function product(a: Values, b: Values): Values | null {
  const [m, k] = a.shape as [number, number];
  const n = b.shape[1]!;
  if (a.shape.length !== 2 || b.shape.length !== 2 || b.shape[0] !== k) return null;
  return each([m, n], (at) =>
    sum(
      Array.from({ length: k }, (_, p) =>
        multiplied(a.items[Math.floor(at / n) * k + p]!, b.items[p * n + (at % n)]!),
      ),
    ),
  );
}

/** How an op is written in a learner, and what it computes. `values` returns null if it does not fit. */
interface Op {
  readonly make: (...x: Expression[]) => Expression;
  readonly values: (...x: Values[]) => Values | null;
  readonly operands: 1 | 2;
  /** whether the op only rearranges elements, so that it reads parameters when it is read */
  readonly views?: boolean;
}
const one = (make: Op['make'], values: (x: Values) => Values | null, views = false): Op => ({
  make,
  values: values as Op['values'],
  operands: 1,
  views,
});
const two = (make: Op['make'], values: (a: Values, b: Values) => Values | null): Op => ({
  make,
  values: values as Op['values'],
  operands: 2,
});

const ops = {
  tanh: one((x) => x!.tanh(), elementwise(tangent)),
  sin: one((x) => x!.sin(), elementwise(sine)),
  sigmoid: one((x) => x!.sigmoid(), elementwise(unary(sigmoid, (x) => sigmoid(x) * sigmoid(-x)))),
  square: one(
    (x) => x!.square(),
    elementwise(
      unary(
        (x) => x * x,
        (x) => 2 * x,
      ),
    ),
  ),
  scale: one(
    (x) => x!.mul(1.5).add(-0.25),
    elementwise((x) => scaled(x, 1.5, -0.25)),
  ),
  add: two((a, b) => a!.add(b as never), pairwise(added)),
  sub: two((a, b) => a!.sub(b as never), pairwise(lessened)),
  mul: two(
    (a, b) => a!.mul(b as never).sin(),
    pairwise((a, b) => sine(multiplied(a, b))),
  ),
  // Gradients of products and of sums may be views of memory.
  times: two((a, b) => a!.mul(b as never), pairwise(multiplied)),
  total: one(
    (x) => x!.sum(),
    ({ items }) => (items.length === 1 ? null : { shape: [], items: [sum(items)] }),
  ),
  where: two(
    (a, b) => where(a!.gt(0.1), a!, b as never),
    pairwise((a, b) => {
      const taken = a.value > 0.1;
      return new Num((taken ? a : b).value, [a, b], [taken ? 1 : 0, taken ? 0 : 1]);
    }),
  ),
  mean: one(
    (x) => x!.mean(),
    ({ items }) =>
      items.length === 1 ? null : { shape: [], items: [scaled(sum(items), 1 / items.length)] },
  ),
  sum: one(
    (x) => x!.sum({ axis: -1 }).mul(0.4),
    (x) =>
      isShort(x)
        ? null
        : { shape: x.shape.slice(0, -1), items: rowsOf(x).map((row) => scaled(sum(row), 0.4)) },
  ),
  down: one(
    (x) => x!.mean({ axis: 0, keep: true }),
    (x) => {
      const [m, n] = x.shape as [number, number];
      if (x.shape.length !== 2 || m === 1) return null;
      return each([1, n], (j) =>
        scaled(sum(Array.from({ length: m }, (_, i) => x.items[i * n + j]!)), 1 / m),
      );
    },
  ),
  max: one(
    (x) => x!.max({ axis: -1 }),
    (x) =>
      isShort(x)
        ? null
        : { shape: x.shape.slice(0, -1), items: rowsOf(x).map((row) => row[greatest(row)]!) },
  ),
  best: one(
    (x) => x!.pick(x!.argmax()),
    (x) =>
      x.shape.length === 2
        ? { shape: x.shape.slice(0, 1), items: rowsOf(x).map((row) => row[greatest(row)]!) }
        : null,
  ),
  softmax: one(
    (x) => x!.softmax(),
    (x) =>
      isShort(x)
        ? null
        : {
            shape: x.shape,
            items: rowsOf(x).flatMap((row) => {
              const powers = row.map(({ value }) => Math.exp(value));
              const total = powers.reduce((a, b) => a + b, 0);
              const p = powers.map((power) => power / total);
              return p.map(
                (own, i) =>
                  new Num(
                    own,
                    row,
                    p.map((q, j) => own * ((i === j ? 1 : 0) - q)),
                  ),
              );
            }),
          },
  ),
  detach: one(
    (x) => x!.detach(),
    elementwise(({ value }) => new Num(value)),
    true,
  ),
  reshape: one(
    (x) => x!.reshape([]),
    ({ items }) => (items.length === 1 ? { shape: [], items } : null),
    true,
  ),
  transpose: one((x) => x!.transpose([1, 0]), turned, true),
  // A view that needs a copy.
  turn: one(
    (x) => x!.transpose([1, 0]).reshape([...x!.shape]),
    (x) => {
      const other = turned(x);
      return other && { shape: x.shape, items: other.items };
    },
    true,
  ),
  slice: one(
    (x) => x!.slice(-1, 1),
    (x) =>
      isShort(x)
        ? null
        : {
            shape: [...x.shape.slice(0, -1), x.shape.at(-1)! - 1],
            items: rowsOf(x).flatMap((row) => row.slice(1)),
          },
    true,
  ),
  concat: two(
    (a, b) => concat(-1, a!, b!),
    (a, b) => {
      if (a.shape.length === 0 || String(a.shape.slice(0, -1)) !== String(b.shape.slice(0, -1)))
        return null;
      if (a.shape.length !== b.shape.length) return null;
      const other = rowsOf(b);
      const shape = [...a.shape.slice(0, -1), a.shape.at(-1)! + b.shape.at(-1)!];
      return { shape, items: rowsOf(a).flatMap((row, i) => [...row, ...other[i]!]) };
    },
  ),
  matmul: two((a, b) => matmul(a!, b!) as Expression, product),
  gram: one(
    (x) => matmul(x!, x!.transpose([1, 0])).mul(0.3) as Expression,
    (x) => {
      const other = turned(x);
      const found = other && product(x, other);
      return found && elementwise((y) => scaled(y, 0.3))(found);
    },
  ),
} satisfies Record<string, Op>;

export type OpName = keyof typeof ops;
export const opNames = Object.keys(ops) as OpName[];
export const opOf = (name: OpName): Op => ops[name];

/** Numbers of inputs, hidden units and outputs of all networks. */
export const [INPUTS, HIDDEN, OUTPUTS] = [3, 4, 3];
/** The epsilon of the networks' layerNorm. It is large, so that rounding errors stay small. */
export const EPSILON = 0.5;
export const [LINEAR_SIZE, DEEP_SIZE] = [
  OUTPUTS * (INPUTS + 1),
  HIDDEN * (INPUTS + 1) + 2 * HIDDEN + OUTPUTS * (HIDDEN + 1),
];

/** Returns the outputs of a network: linear and tanh, or linear, layerNorm, tanh and linear. */
export function applied(flat: readonly Num[], x: Values): Values {
  let at = 0;
  const take = (n: number) => {
    at += n;
    return flat.slice(at - n, at);
  };
  const linear = (rows: Num[][], width: number, outputs: number) => {
    const [weight, bias] = [take(outputs * width), take(outputs)];
    return rows.map((row) =>
      bias.map((b, o) =>
        sum([b, ...row.map((each, i) => multiplied(each, weight[o * width + i]!))]),
      ),
    );
  };
  let rows = rowsOf(x);
  if (flat.length === LINEAR_SIZE)
    rows = linear(rows, INPUTS, OUTPUTS).map((row) => row.map(tangent));
  else {
    rows = linear(rows, INPUTS, HIDDEN);
    const [weight, bias] = [take(HIDDEN), take(HIDDEN)];
    rows = rows.map((row) => {
      const mean = scaled(sum(row), 1 / HIDDEN);
      const off = row.map((each) => lessened(each, mean));
      const spread = scaled(sum(off.map((each) => multiplied(each, each))), 1 / HIDDEN, EPSILON);
      const rest = unary(
        (v) => v ** -0.5,
        (v) => -0.5 * v ** -1.5,
      )(spread);
      return off.map((each, i) =>
        tangent(added(multiplied(multiplied(each, rest), weight[i]!), bias[i]!)),
      );
    });
    rows = linear(rows, HIDDEN, OUTPUTS);
  }
  return { shape: [...x.shape.slice(0, -1), OUTPUTS], items: rows.flat() };
}
