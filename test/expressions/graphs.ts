/** Draws random programs of expressions, and shrinks those that fail. */
import {
  categoricalLoss,
  categoricalMean,
  categoricalProject,
  concat,
  type Expression,
  grad,
  huber,
  matmul,
  max,
  min,
  normal,
  squashedGaussian,
  stack,
  tdLoss,
  tdTarget,
  uniform,
  where,
} from '../../src/entries/trace.ts';
import { bits, Choices, computed, difference, type Inputs, type Program, ran } from './rig.ts';

/** One op of a program. Its numbers choose operands, axes and constants. */
interface Drawn {
  readonly op: string;
  readonly numbers: readonly number[];
}
export interface Graph {
  readonly seed: number;
  readonly ops: readonly Drawn[];
  /** distance between rows of the inputs, beyond their elements */
  readonly gap: number;
}

type Values = readonly Expression[];
type Apply = (x: Expression, pick: (n: number) => number, all: Values) => Expression | null;

const unaries = [
  'abs',
  'neg',
  'tanh',
  'sigmoid',
  'softplus',
  'relu',
  'silu',
  'gelu',
  'geluTanh',
  'elu',
  'sin',
  'cos',
] as const;
/** Ops that random programs contain, and how they are drawn. Results stay small. */
const ops: Readonly<Record<string, Apply>> = {
  ...Object.fromEntries(unaries.map((name) => [name, (x: Expression) => x[name]()])),
  exp: (x) => x.tanh().exp(),
  square: (x) => x.clamp(-3, 3).square(),
  log: (x) => x.square().add(0.5).log(),
  log1p: (x) => x.abs().log1p(),
  sqrt: (x) => x.square().add(0.25).sqrt(),
  rsqrt: (x) => x.square().add(1.5).rsqrt(),
  reciprocal: (x) => x.abs().add(1).reciprocal(),
  pow: (x, pick) => x.clamp(-1.2, 1.2).abs().add(0.5).pow([1.5, 3, -1, -0.5][pick(4)]!),
  add: (x, pick, all) => meeting(x, pick, all, (a, b) => a.add(b as never)),
  sub: (x, pick, all) => meeting(x, pick, all, (a, b) => a.sub(b as never)),
  mul: (x, pick, all) => meeting(x, pick, all, (a, b) => a.tanh().mul(b as never)),
  div: (x, pick, all) => meeting(x, pick, all, (a, b) => a.div(b.abs().add(1) as never)),
  min: (x, pick, all) => meeting(x, pick, all, (a, b) => min(a, b as never)),
  max: (x, pick, all) => meeting(x, pick, all, (a, b) => max(a, b as never)),
  where: (x, pick, all) => meeting(x, pick, all, (a, b) => where(a.gt(0.125), a, b as never)),
  number: (x, pick) => x.mul([0.5, -1.25, 0, 1][pick(4)]!).add([0, 1, -0.5][pick(3)]!),
  compare: (x, pick, all) => meeting(x, pick, all, (a, b) => a.lt(b as never).mul(a)),
  clamp: (x) => x.clamp(-0.7, 0.9),
  huber: (x, pick) => huber(x, [1, 0.4][pick(2)]!),
  sum: (x, pick) => x.sum(reduction(x, pick)).mul(0.25),
  mean: (x, pick) => x.mean(reduction(x, pick)),
  greatest: (x, pick) => x.max(reduction(x, pick)),
  least: (x, pick) => x.min(reduction(x, pick)),
  logSumExp: (x, pick) => x.logSumExp(reduction(x, pick)),
  norm: (x, pick) => x.add(0.01).norm(reduction(x, pick)),
  softmax: (x, pick) => axisIn(x, pick, (axis) => x.softmax({ axis })),
  logSoftmax: (x, pick) => axisIn(x, pick, (axis) => x.logSoftmax({ axis })),
  cumsum: (x, pick) => axisIn(x, pick, (axis) => x.cumsum({ axis }).mul(0.3)),
  sort: (x) => (x.shape.length === 0 ? null : x.sort()),
  flip: (x, pick) => axisIn(x, pick, (axis) => x.flip(axis)),
  transpose: (x, pick) => {
    const axes = x.shape.map((_, d) => d);
    for (let d = axes.length - 1; d > 0; d--) {
      const other = pick(d + 1);
      [axes[d], axes[other]] = [axes[other]!, axes[d]!];
    }
    return x.transpose(axes);
  },
  reshape: (x, pick) => {
    const size = x.shape.reduce((n, length) => n * length, 1);
    const divisors = [1, 2, 3, 4, 6].filter((n) => size % n === 0);
    return x.reshape([divisors[pick(divisors.length)]!, -1]);
  },
  slice: (x, pick) =>
    axisIn(x, pick, (axis) => {
      const from = pick(x.shape[axis]!);
      return x.slice(axis, from, from + 1 + pick(x.shape[axis]! - from));
    }),
  broadcast: (x) => (x.shape.length < 4 ? x.broadcast([2, ...x.shape]) : null),
  concat: (x, pick) => axisIn(x, pick, (axis) => concat(axis, x, x.sin(), x)),
  stack: (x, pick) => (x.shape.length < 4 ? stack(pick(x.shape.length + 1), x, x.neg()) : null),
  matmul: (x) => {
    if (x.shape.length < 2 || x.shape.length > 3) return null;
    const axes = x.shape.map((_, d) => d);
    const turned = x.tanh().transpose([...axes.slice(0, -2), axes.at(-1)!, axes.at(-2)!]);
    return matmul(x, turned).mul(0.2);
  },
  product: (x, pick, all) => {
    if (x.shape.length !== 2 && x.shape.length !== 3) return null;
    const fitting = all.filter((b) => b.shape.length === 2 && b.shape[0] === x.shape.at(-1));
    return fitting.length === 0 ? null : matmul(x, fitting[pick(fitting.length)]!.tanh()).mul(0.3);
  },
  pick: (x) =>
    x.shape.length < 2
      ? null
      : x.pick(
          x
            .reshape([x.shape[0]!, -1])
            .argmax()
            .mul(0)
            .add(x.shape[1]! - 1),
        ),
  argmax: (x) => (x.shape.length === 2 ? x.pick(x.argmax()) : null),
  take: (x, pick, all) => {
    if (x.shape.length !== 2) return null;
    const index = all[0]!; // an input of whole numbers below 2
    return x.shape[0]! < 2 ? null : x.take(pick(2) ? index : index.slice(0, 0, 1).reshape([1, 1]));
  },
  detach: (x) => x.detach(),
  squashedGaussian: (x, pick) => {
    if (x.shape.length !== 2 || x.shape[1]! % 2 === 1) return null;
    const noise = x.slice(1, 0, x.shape[1]! / 2).detach();
    const { action, logProb } = squashedGaussian(x as never, noise as never);
    const parts = [
      action,
      logProb.mul(0.1),
      logProb
        .mul(0.1)
        .reshape([-1, 1])
        .add(action as never),
    ];
    return parts[pick(3)] as Expression;
  },
  categoricalLoss: (x) =>
    x.shape.length !== 2 || x.shape[1]! < 2
      ? null
      : categoricalLoss(x, x.flip(1).softmax().detach(), { min: -1, max: 1 }).loss,
  categoricalMean: (x) =>
    x.shape.length !== 2 || x.shape[1]! < 2 ? null : categoricalMean(x, { min: -1, max: 1.5 }),
  categoricalProject: (x) => {
    if (x.shape.length !== 2 || x.shape[1]! < 2) return null;
    const rewards = x.mean({ axis: 1 });
    const range = { min: -1.5, max: 1.25 };
    const { projected, mean } = categoricalProject(x.softmax(), rewards, rewards.abs(), {
      ...range,
      ...(x.shape[0]! > 2 && { cost: rewards }),
    });
    return projected.add(mean.reshape([-1, 1]) as never).add(x as never);
  },
  tdLoss: (x) => {
    if (x.shape.length !== 2) return null;
    const targets = tdTarget(x, x.neg(), x.mean({ axis: 1 }), x.min({ axis: 1 }).relu());
    return tdLoss(x, x.argmax(), targets.tanh(), { delta: 0.5 }).loss;
  },
  // One gradient reaches p and, as a view, q. The gradient of the product is added to it later.
  shared: (x) => {
    if (x.shape.length !== 2) return null;
    const [p, q] = [x.tanh(), x.sigmoid()];
    const t = matmul(q, x.detach().transpose([1, 0]).mul(0.2));
    return p.add(q.flatten().reshape(x.shape)).sin().add(t.sum());
  },
};

/** Applies f to x and another value to which it broadcasts, with both orders. */
function meeting(
  x: Expression,
  pick: (n: number) => number,
  all: Values,
  f: (a: Expression, b: Expression) => Expression,
): Expression | null {
  const fits = all.filter(({ shape }) => {
    const rank = Math.max(shape.length, x.shape.length);
    return Array.from({ length: rank }, (_, d) => [
      shape.at(-1 - d) ?? 1,
      x.shape.at(-1 - d) ?? 1,
    ]).every(([m, n]) => m === n || m === 1 || n === 1);
  });
  const other = fits[pick(fits.length)]!;
  return pick(2) ? f(x, other) : f(other, x);
}
function reduction(x: Expression, pick: (n: number) => number) {
  const axis = x.shape.map((_, d) => d).filter(() => pick(2) === 1);
  return axis.length === 0 ? {} : { axis, keep: pick(2) === 1 };
}
const axisIn = (
  x: Expression,
  pick: (n: number) => number,
  f: (axis: number) => Expression,
): Expression | null => (x.shape.length === 0 ? null : f(pick(x.shape.length)));

/** Draws a program of 5 to 40 ops, or of the ops that `only` names. */
export function drawn(seed: number, only?: readonly string[]): Graph {
  const choices = new Choices(seed);
  // Half of the programs use few kinds of ops, so that the same kinds meet more often.
  const all = Object.keys(ops);
  const few = Array.from({ length: 3 + choices.below(8) }, () => choices.of(all));
  const names = only ?? (choices.chance(0.5) ? all : few);
  return {
    seed,
    gap: choices.of([0, 0, 1, 3]),
    ops: Array.from({ length: 5 + choices.below(36) }, () => ({
      op: choices.of(names),
      numbers: Array.from({ length: 8 }, () => choices.below(2 ** 20)),
    })),
  };
}

/** The inputs of a program. The shapes depend only on the seed. */
export function inputsOf({ seed }: Graph): Inputs {
  const choices = new Choices(seed + 1_000_000);
  const [m, n] = [2 + choices.below(4), 1 + choices.below(5)];
  const shapes = { x: [m, n], y: [n], z: [1 + choices.below(3), m, n], s: [] };
  return {
    index: { shape: [m], values: choices.indices(m, 2), dtype: 'int32' },
    mask: { shape: [m, 1], values: choices.indices(m, 2), dtype: 'bool' },
    ...Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => [
        name,
        { shape, values: choices.numbers(shape.reduce((size, length) => size * length, 1)) },
      ]),
    ),
  };
}

/** Largest number of elements of a value in a random program. */
const MAX_SIZE = 2000;

/**
 * Returns the program of a graph. Its results are the loss, the gradients of the inputs, the random
 * numbers that it drew, and a few values.
 */
export function programOf({ ops: list, seed }: Graph): Program {
  return (inputs) => {
    const noise = { normal: normal([2, 1, 3]), again: normal([2, 1, 3]), uniform: uniform([4]) };
    const { x, y, z, s, index, mask } = inputs as Record<string, Expression>;
    const all: Expression[] = [
      index!,
      mask!,
      x!,
      y!,
      z!,
      s!,
      noise.normal,
      noise.again,
      noise.uniform,
    ];
    for (const { op, numbers } of list) {
      let at = 0;
      const pick = (n: number) => numbers[at++ % numbers.length]! % n;
      // Later values are taken more often, so that programs become deep.
      const from = pick(3) === 0 ? all : all.slice(-5);
      const operand = from[pick(from.length)]!;
      const made = ops[op]!(operand, pick, all);
      if (made && made.shape.reduce((size, n) => size * n, 1) <= MAX_SIZE) all.push(made);
    }
    const last = all.slice(-4);
    const loss = last.reduce(
      (sum: Expression, each, i) => sum.add(each.mul(1 + i / 8).mean()) as Expression,
      x!
        .mul(y! as never)
        .sum()
        .mul(0.1)
        .add(z!.mean())
        .add(s!) as Expression,
    );
    const wrt = { x: x!, y: y!, z: z!, s: s! };
    const { gradients } = grad(loss, Object.values(wrt));
    const slopes = Object.keys(wrt).map((name, i) => [`d${name}`, gradients[i]!] as const);
    const shown = new Choices(seed).of(all);
    return {
      loss,
      ...Object.fromEntries(slopes),
      ...noise,
      ...(all.indexOf(shown) > 8 && { shown }),
    };
  };
}

/** Returns how the results of a program differ from the interpreter's, or null. */
export async function wrongIn(graph: Graph): Promise<string | null> {
  try {
    const [inputs, program] = [inputsOf(graph), programOf(graph)];
    const { results, ...rest } = await ran(inputs, program, { gap: graph.gap });
    if (bits(results.normal!) === bits(results.again!)) return 'two draws are equal';
    return difference({ results, ...rest });
  } catch (error) {
    return String(error);
  }
}
/** Returns a result that changes if dead memory is filled with NaN, or null. */
export async function changedByPoison(graph: Graph): Promise<string | null> {
  const [inputs, program] = [inputsOf(graph), programOf(graph)];
  const clean = await ran(inputs, program, { gap: graph.gap });
  const poisoned = await ran(inputs, program, { gap: graph.gap, poison: true });
  return (
    Object.keys(clean.results).find(
      (name) => bits(poisoned.results[name]!) !== bits(clean.results[name]!),
    ) ?? null
  );
}
/** Returns a result that chains change, also with poisoned memory, or null. */
export async function changedByChains(graph: Graph): Promise<string | null> {
  const [inputs, program] = [inputsOf(graph), programOf(graph)];
  const single = await computed(inputs, program, { gap: graph.gap, chains: false });
  for (const poison of [false, true]) {
    const { bits: found } = await computed(inputs, program, { gap: graph.gap, poison });
    const changed = Object.keys(found).find((name) => found[name] !== single.bits[name]);
    if (changed) return `${changed}${poison ? ', poisoned' : ''}`;
  }
  return null;
}

/** Returns the shortest program, with ops left out, for which `fails` is true. */
export async function shrunk(
  graph: Graph,
  fails: (graph: Graph) => Promise<boolean>,
): Promise<Graph> {
  let small = graph;
  for (let part = Math.ceil(small.ops.length / 2); part >= 1; ) {
    let shorter: Graph | null = null;
    for (let at = 0; at + part <= small.ops.length && !shorter; at += part) {
      const ops = [...small.ops.slice(0, at), ...small.ops.slice(at + part)];
      if (await fails({ ...small, ops })) shorter = { ...small, ops };
    }
    if (shorter) small = shorter;
    else part = part === 1 ? 0 : Math.floor(part / 2);
  }
  return small;
}
