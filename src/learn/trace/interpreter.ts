/**
 * Computes a trace in float64 without a device, op by op and without a plan. checkGradients() and
 * the tests compare with it, so it is simple rather than fast.
 */
import { rowMajor } from '../../device/strides.ts';
import { fusedOps } from './fused.ts';
import { networkSlopes, networkValues } from './network-values.ts';
import { type Shape, sizeOf, spreadStrides } from './shapes.ts';
import type { BinaryName, Node, NodeOfKind, OpName, ReductionName, UnaryName } from './tape.ts';

/** Ops whose values the caller of evaluate() gives. */
export type GivenOp = 'input' | 'memory' | 'draw';

/** Values of an expression, in row-major order. */
export type Values = Float64Array;

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
/** Returns the cumulative normal distribution, by its series near 0 and a continued fraction beyond. */
function phi(x: number): number {
  const a = Math.abs(x);
  if (a > 38) return x > 0 ? 1 : 0;
  const density = Math.exp((-a * a) / 2) / Math.sqrt(2 * Math.PI);
  if (a < 5) {
    let [sum, term] = [a, a];
    for (let i = 1; term > sum * 1e-18; i++) {
      term *= (a * a) / (2 * i + 1);
      sum += term;
    }
    return x > 0 ? 0.5 + density * sum : 0.5 - density * sum;
  }
  let fraction = a;
  for (let i = 60; i > 0; i--) fraction = a + i / fraction;
  return x > 0 ? 1 - density / fraction : density / fraction;
}
const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const inner = (x: number): number => 2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);

/** Each unary op, and its slope. */
export const unaryOf: {
  readonly [F in UnaryName]: readonly [(x: number) => number, (x: number) => number];
} = {
  abs: [Math.abs, Math.sign],
  neg: [(x) => -x, () => -1],
  sign: [Math.sign, () => 0],
  square: [(x) => x * x, (x) => 2 * x],
  sqrt: [Math.sqrt, (x) => 0.5 / Math.sqrt(x)],
  rsqrt: [(x) => 1 / Math.sqrt(x), (x) => -0.5 / (x * Math.sqrt(x))],
  reciprocal: [(x) => 1 / x, (x) => -1 / (x * x)],
  exp: [Math.exp, Math.exp],
  log: [Math.log, (x) => 1 / x],
  log1p: [Math.log1p, (x) => 1 / (1 + x)],
  sin: [Math.sin, Math.cos],
  cos: [Math.cos, (x) => -Math.sin(x)],
  floor: [Math.floor, () => 0],
  tanh: [Math.tanh, (x) => 1 - Math.tanh(x) ** 2],
  sigmoid: [sigmoid, (x) => sigmoid(x) * sigmoid(-x)],
  softplus: [(x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), sigmoid],
  relu: [(x) => (x > 0 ? x : x < 0 ? 0 : x), (x) => (x > 0 ? 1 : 0)],
  silu: [(x) => x * sigmoid(x), (x) => sigmoid(x) * (1 + x * sigmoid(-x))],
  gelu: [(x) => x * phi(x), (x) => phi(x) + x * density(x)],
  geluTanh: [
    (x) => x * sigmoid(inner(x)),
    (x) => {
      const s = sigmoid(inner(x));
      return s + x * s * sigmoid(-inner(x)) * 2 * Math.sqrt(2 / Math.PI) * (1 + 0.134145 * x * x);
    },
  ],
  elu: [(x) => (x > 0 ? x : Math.expm1(x)), (x) => (x > 0 ? 1 : Math.exp(x))],
};

const either = (a: number, b: number, f: (a: number, b: number) => number): number =>
  Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : f(a, b);
/** Each binary op. */
export const binaryOf: { readonly [F in BinaryName]: (a: number, b: number) => number } = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
  eq: (a, b) => Number(a === b),
  ne: (a, b) => Number(a !== b),
  lt: (a, b) => Number(a < b),
  le: (a, b) => Number(a <= b),
  gt: (a, b) => Number(a > b),
  ge: (a, b) => Number(a >= b),
  pow: (a, b) => a ** b,
  huber: (error, delta) =>
    Math.abs(error) <= delta ? 0.5 * error * error : delta * (Math.abs(error) - 0.5 * delta),
};

const half = (dy: number, a: number, b: number): number => (a === b ? 0.5 * dy : 0);
const binarySlopeOf = {
  min: (dy: number, a: number, b: number) => either(a, b, () => (a < b ? dy : half(dy, a, b))),
  max: (dy: number, a: number, b: number) => either(a, b, () => (a > b ? dy : half(dy, a, b))),
  div: (dy: number, a: number, b: number) => -dy * (a / b / b),
  huber: (dy: number, error: number, delta: number) =>
    Math.min(Math.max(error, -delta), delta) * dy,
} as const;

/** Returns index j of the first greatest element of sign · x, where NaN never wins over a number. */
function firstBest(x: Values, sign: number): number {
  let best = 0;
  for (let j = 1; j < x.length; j++) {
    const [next, most] = [sign * x[j]!, sign * x[best]!];
    if (next > most || (Number.isNaN(most) && !Number.isNaN(next))) best = j;
  }
  return best;
}
const finiteOr0 = (x: number): number => (Number.isFinite(x) ? x : 0);
const most = (x: Values): number => x.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);

const reductionOf: { readonly [F in ReductionName]: (x: Values) => number } = {
  sum: (x) => x.reduce((a, b) => a + b, 0),
  max: most,
  min: (x) => x.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
  logSumExp: (x) => {
    const off = finiteOr0(most(x));
    return off + Math.log(x.reduce((sum, each) => sum + Math.exp(each - off), 0));
  },
  argmax: (x) => firstBest(x, 1),
  argmin: (x) => firstBest(x, -1),
};

/** Returns the position of each element in the sorted row. The order is stable, and NaN is last. */
function ranksOf(x: Values): Values {
  const order = Array.from(x.keys()).sort((i, j) => {
    const [a, b] = [x[i]!, x[j]!];
    if (Number.isNaN(a) || Number.isNaN(b))
      return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
    return a < b ? -1 : a > b ? 1 : 0;
  });
  const ranks = new Float64Array(x.length);
  order.forEach((from, to) => {
    ranks[from] = to;
  });
  return ranks;
}

/** Calls f with each index over `shape` and its position in row-major order. */
function eachIndex(shape: Shape, f: (index: readonly number[], at: number) => void): void {
  const index = shape.map(() => 0);
  const size = sizeOf(shape);
  for (let at = 0; at < size; at++) {
    f(index, at);
    for (let d = shape.length - 1; d >= 0; d--) {
      if (++index[d]! < shape[d]!) break;
      index[d] = 0;
    }
  }
}
const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, each, d) => sum + each * b[d]!, 0);

/** Applies f element by element, with operands that broadcast to the op's shape. */
function elementwise(node: Node, inputs: readonly Values[], f: (...x: number[]) => number): Values {
  const out = new Float64Array(sizeOf(node.shape));
  const strides = node.inputs.map(({ shape }) => spreadStrides(shape, rowMajor(shape), node.shape));
  eachIndex(node.shape, (index, at) => {
    out[at] = f(...inputs.map((x, i) => x[dot(index, strides[i]!)]!));
  });
  return out;
}

/** Applies f to each row along the last axis. f returns a row, or one number. */
function alongRows(
  x: Values,
  n: number,
  f: (row: Values, i: number) => ArrayLike<number> | number,
): Values {
  const rows = Array.from({ length: x.length / n }, (_, i) => f(x.subarray(i * n, (i + 1) * n), i));
  const wide = rows.map((row) => (typeof row === 'number' ? [row] : Array.from(row)));
  return Float64Array.from(wide.flat());
}

/** Reads x with another layout: element `index` of the result is x[at(index)]. */
function gathered(shape: Shape, x: Values, at: (index: readonly number[]) => number): Values {
  const out = new Float64Array(sizeOf(shape));
  eachIndex(shape, (index, i) => {
    out[i] = x[at(index)]!;
  });
  return out;
}

const whole = (index: number, n: number): number | null =>
  index >= 0 && index < n ? Math.trunc(index) : null;

/** Returns the values of an input after its conversion. */
function converted(node: Node, values: Values): Values {
  if (node.op !== 'input') return values;
  const { scale = 1, shift = 0 } = node.attributes;
  return scale === 1 && shift === 0 ? values : values.map((x) => scale * x + shift);
}

type Evaluator<N> = (node: N, inputs: readonly Values[]) => Values;
/** Ops that evaluate() handles itself. */
type Given = 'input' | 'memory' | 'draw' | 'fused' | 'networkSlope' | 'part';
const evaluators: { readonly [K in Exclude<OpName, Given>]: Evaluator<NodeOfKind<K>> } = {
  constant: ({ attributes }) => Float64Array.from(attributes.values),
  network: ({ attributes: { network, members } }, [x, flat]) =>
    networkValues(network, members, x!, flat!),
  full: ({ attributes, shape }) => new Float64Array(sizeOf(shape)).fill(attributes.value),
  unary: (node, inputs) => elementwise(node as Node, inputs, unaryOf[node.attributes.f][0]),
  unarySlope: (node, inputs) => {
    const slope = unaryOf[node.attributes.f][1];
    return elementwise(
      node as Node,
      inputs,
      (dy, x) => dy! * (Number.isNaN(x) ? Number.NaN : slope(x!)),
    );
  },
  binary: (node, inputs) => elementwise(node as Node, inputs, binaryOf[node.attributes.f]),
  binarySlope: (node, inputs) =>
    elementwise(node as Node, inputs, binarySlopeOf[node.attributes.f]),
  where: (node, inputs) => elementwise(node as Node, inputs, (c, a, b) => (c !== 0 ? a! : b!)),
  clamp: (node, inputs) => {
    const { low, high } = node.attributes;
    return elementwise(node as Node, inputs, (x) => Math.min(Math.max(x!, low), high));
  },
  clampSlope: (node, inputs) => {
    const { low, high } = node.attributes;
    return elementwise(node as Node, inputs, (dy, x) =>
      Number.isNaN(x) ? Number.NaN : x! >= low && x! <= high ? dy! : 0,
    );
  },
  reduce: ({ attributes: { f, scale }, inputs: [x] }, [values]) =>
    alongRows(values!, x!.shape.at(-1)!, (row) => scale * reductionOf[f](row)),
  softmax: ({ attributes: { logarithm }, shape }, [x]) =>
    alongRows(x!, shape.at(-1)!, (row) => {
      const off = finiteOr0(most(row));
      const sum = row.reduce((total, each) => total + Math.exp(each - off), 0);
      if (sum === 0) return row.map(() => (logarithm ? Number.NEGATIVE_INFINITY : 0));
      return row.map((each) =>
        logarithm ? each - off - Math.log(sum) : Math.exp(each - off) / sum,
      );
    }),
  softmaxSlope: ({ attributes: { logarithm }, shape }, [dy, y]) => {
    const n = shape.at(-1)!;
    return alongRows(y!, n, (row, i) => {
      const above = dy!.subarray(i * n, (i + 1) * n);
      const sum = row.reduce(
        (total, each, j) => total + (logarithm ? above[j]! : each === 0 ? 0 : above[j]! * each),
        0,
      );
      return row.map((each, j) =>
        logarithm ? above[j]! - Math.exp(each) * sum : each === 0 ? 0 : each * (above[j]! - sum),
      );
    });
  },
  cumsum: ({ attributes: { axis, reverse }, shape }, [x]) => {
    const out = Float64Array.from(x!);
    const [n, step] = [shape[axis]!, rowMajor(shape)[axis]!];
    eachIndex(shape, (index, at) => {
      // Visits each line once, at its first element.
      if (index[axis] !== 0) return;
      for (let k = 1; k < n; k++) {
        const [from, to] = reverse ? [n - k, n - k - 1] : [k - 1, k];
        out[at + to * step]! += out[at + from * step]!;
      }
    });
    return out;
  },
  ranks: ({ shape }, [x]) => alongRows(x!, shape.at(-1)!, ranksOf),
  scatterAlong: ({ shape }, [x, index]) => {
    const n = shape.at(-1)!;
    return alongRows(x!, n, (row, i) => {
      const out = new Float64Array(n);
      row.forEach((each, j) => {
        out[index![i * n + j]!] = each;
      });
      return out;
    });
  },
  gatherAlong: ({ shape }, [x, index]) => {
    const n = shape.at(-1)!;
    return alongRows(x!, n, (row, i) => row.map((_, j) => row[index![i * n + j]!]!));
  },
  reshape: (_, [x]) => x!,
  transpose: ({ attributes: { axes }, inputs: [from], shape }, [x]) => {
    const strides = rowMajor(from!.shape);
    return gathered(shape, x!, (index) =>
      axes.reduce((at, axis, d) => at + index[d]! * strides[axis]!, 0),
    );
  },
  slice: ({ attributes: { axis, from: start }, inputs: [from], shape }, [x]) => {
    const strides = rowMajor(from!.shape);
    return gathered(shape, x!, (index) => dot(index, strides) + start * strides[axis]!);
  },
  broadcast: ({ inputs: [from], shape }, [x]) => {
    const strides = spreadStrides(from!.shape, rowMajor(from!.shape), shape);
    return gathered(shape, x!, (index) => dot(index, strides));
  },
  flip: ({ attributes: { axis }, shape }, [x]) => {
    const strides = rowMajor(shape);
    return gathered(
      shape,
      x!,
      (index) => dot(index, strides) + (shape[axis]! - 1 - 2 * index[axis]!) * strides[axis]!,
    );
  },
  pad: ({ attributes: { axis, before }, inputs: [from], shape }, [x]) => {
    const out = new Float64Array(sizeOf(shape));
    const strides = rowMajor(shape);
    eachIndex(from!.shape, (index, at) => {
      out[dot(index, strides) + before * strides[axis]!] = x![at]!;
    });
    return out;
  },
  concat: ({ attributes: { axis }, inputs: parts, shape }, values) => {
    const out = new Float64Array(sizeOf(shape));
    const strides = rowMajor(shape);
    let start = 0;
    parts.forEach((part, i) => {
      eachIndex(part.shape, (index, at) => {
        out[dot(index, strides) + start * strides[axis]!] = values[i]![at]!;
      });
      start += part.shape[axis]!;
    });
    return out;
  },
  matmul: ({ inputs: [left, right], shape }, [a, b]) => {
    const [k, n] = right!.shape.slice(-2) as [number, number];
    const m = left!.shape.at(-2)!;
    const out = new Float64Array(sizeOf(shape));
    for (let at = 0; at < out.length; at++) {
      const [row, j] = [Math.floor(at / n), at % n];
      const batch = Math.floor(row / m) * k * n;
      for (let p = 0; p < k; p++) out[at]! += a![row * k + p]! * b![batch + p * n + j]!;
    }
    return out;
  },
  pick: ({ inputs: [from] }, [x, index]) => {
    const [, n] = from!.shape as [number, number];
    const width = sizeOf(from!.shape.slice(1));
    const each = width / n;
    return alongRows(x!, width, (row, i) => {
      const j = whole(index![i]!, n);
      return j === null
        ? new Float64Array(each).fill(Number.NaN)
        : row.subarray(j * each, (j + 1) * each);
    });
  },
  pickSlope: ({ inputs: [above], shape }, [dy, index]) => {
    const n = shape[1]!;
    const each = sizeOf(above!.shape.slice(1));
    return alongRows(dy!, each, (row, i) => {
      const out = new Float64Array(n * each);
      const j = whole(index![i]!, n);
      if (j !== null) out.set(row, j * each);
      return out;
    });
  },
  take: ({ inputs: [table] }, [values, index]) => {
    const [n, d] = table!.shape as [number, number];
    return alongRows(index!, 1, ([at]) => {
      const i = whole(at!, n);
      return i === null
        ? new Float64Array(d).fill(Number.NaN)
        : values!.subarray(i * d, (i + 1) * d);
    });
  },
  takeSlope: ({ shape }, [dy, index]) => {
    const [n, d] = shape as [number, number];
    const out = new Float64Array(n * d);
    index!.forEach((at, i) => {
      const row = whole(at, n);
      if (row !== null) for (let j = 0; j < d; j++) out[row * d + j]! += dy![i * d + j]!;
    });
    return out;
  },
  categorical: ({ inputs: [logits] }, [x, uniform]) =>
    alongRows(x!, logits!.shape.at(-1)!, (row, i) => {
      const off = finiteOr0(most(row));
      const weights = row.map((each) =>
        each > Number.NEGATIVE_INFINITY ? Math.exp(each - off) : 0,
      );
      const target = uniform![i]! * weights.reduce((sum, each) => sum + each, 0);
      let [sum, last] = [0, 0];
      for (const [j, weight] of weights.entries()) {
        sum += weight;
        if (sum > target) return j;
        if (weight > 0) last = j;
      }
      return last;
    }),
  detach: (_, [x]) => x!,
  custom: (_, [x]) => x!,
  accumulate: (node, inputs) => elementwise(node as Node, inputs, (a, b) => a! + b!),
};

/**
 * Returns the values of expressions.
 *
 * @param given values of inputs, memory and draws
 * @param replaced values that replace those of some expressions
 * @param after changes the values of each op
 */
export function evaluate(
  nodes: readonly Node[],
  given: (node: Extract<Node, { op: GivenOp }>) => Values,
  replaced: ReadonlyMap<Node, Values> = new Map(),
  after: (values: Values, node: Node) => Values = (values) => values,
): Values[] {
  const known = new Map<Node, Values>(replaced);
  const tuples = new Map<Node, Values[]>();
  const needed = new Set<Node>();
  const visit = (list: readonly Node[]) => {
    const open = [...list];
    for (let node = open.pop(); node; node = open.pop()) {
      if (needed.has(node)) continue;
      needed.add(node);
      if (!known.has(node)) open.push(...node.inputs);
    }
  };
  visit(nodes);
  // Inputs of an op come before it in the trace.
  for (const node of [...needed].sort((a, b) => a.id - b.id)) {
    if (known.has(node)) continue;
    const inputs = node.inputs.map((input) => known.get(input) as Values);
    if (node.op === 'input' || node.op === 'memory' || node.op === 'draw')
      known.set(node, converted(node, given(node)));
    else if (node.op === 'fused') {
      const { name, options } = node.attributes;
      const shapes = node.inputs.map(({ shape }) => shape);
      tuples.set(node, fusedOps[name].evaluate(inputs, shapes, options));
    } else if (node.op === 'networkSlope') {
      const { network, members } = node.attributes;
      const all = inputs as [Values, Values, Values, Values];
      const slopeOf = (name: string) => unaryOf[name as UnaryName][1];
      tuples.set(node, networkSlopes(network, members, all, slopeOf));
    } else if (node.op === 'part')
      known.set(node, tuples.get(node.inputs[0]!)![node.attributes.index]!);
    else known.set(node, after((evaluators[node.op] as Evaluator<Node>)(node, inputs), node));
  }
  return nodes.map((node) => known.get(node) as Values);
}
