/** Programs whose gradients tests compare with central differences: one for each rule. */

import type { GaussianOptions } from '../../src/entries/learner.ts';
import {
  add,
  bootstrap,
  categoricalLoss,
  categoricalMean,
  concat,
  constant,
  div,
  type Expression,
  expect as expectation,
  huber,
  matmul,
  max,
  min,
  mse,
  mul,
  squashedGaussian,
  stack,
  sub,
  tdLoss,
  trace,
  where,
} from '../../src/entries/trace.ts';
import { openDevice } from '../../src/index.ts';
import { checkGradients } from '../../src/learn/trace/check-gradients.ts';
import { nodeFrom } from '../../src/learn/trace/expression.ts';
import { unaryOf } from '../../src/learn/trace/interpreter.ts';
import type { Node } from '../../src/learn/trace/tape.ts';
import { Choices } from './rig.ts';

type Named = Readonly<Record<string, Expression>>;
/** A program: the shapes of its inputs, its expression, and which inputs have a gradient. */
interface Program {
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly build: (inputs: Named) => Expression;
  /** range of the inputs, which are normal random numbers by default */
  readonly range?: readonly [low: number, high: number];
  /** number of values of an index */
  readonly bounds?: Readonly<Record<string, number>>;
}

/** Returns shapes that broadcast to each other. */
function broadcasting(choices: Choices): [number[], number[]] {
  const whole = choices.shape(1 + choices.below(4));
  const part = (): number[] =>
    whole.slice(choices.below(whole.length + 1)).map((n) => (choices.chance(0.3) ? 1 : n));
  return choices.chance(0.5) ? [whole, part()] : [part(), whole];
}

/** Some axes of a rank. */
const axesOf = (choices: Choices, rank: number): number[] => {
  const axes = Array.from({ length: rank }, (_, d) => d).filter(() => choices.chance(0.5));
  return axes.length === 0 ? [choices.below(rank)] : axes;
};
const ranked = (choices: Choices): number[] => choices.shape(1 + choices.below(4));

const binaryPrograms = Object.entries({ add, sub, mul, min, max }).map(
  ([name, f]) =>
    [
      name,
      (choices: Choices): Program => {
        const [a, b] = broadcasting(choices);
        return { shapes: { a, b }, build: ({ a, b }) => f(a!, b! as never) };
      },
    ] as const,
);

const domains: Readonly<Record<string, readonly [number, number]>> = {
  sqrt: [0.1, 3],
  rsqrt: [0.2, 3],
  log: [0.1, 3],
  log1p: [-0.8, 3],
  reciprocal: [0.3, 3],
};
const unaryPrograms = Object.keys(unaryOf).map(
  (name) =>
    [
      name,
      (choices: Choices): Program => ({
        shapes: { a: ranked(choices) },
        // Without the second term, an op whose slope is 0 would not depend on its input.
        build: ({ a }) =>
          (a as unknown as Record<string, () => Expression>)[name]!().add(a!.mul(0.1)),
        ...(domains[name] && { range: domains[name] }),
      }),
    ] as const,
);

export const programs: Readonly<Record<string, (choices: Choices) => Program>> = {
  ...Object.fromEntries(unaryPrograms),
  ...Object.fromEntries(binaryPrograms),
  div(choices) {
    const [a, b] = broadcasting(choices);
    return { shapes: { a, b }, build: ({ a, b }) => div(a!, b! as never), range: [0.5, 2] };
  },
  pow: (choices) => ({
    shapes: { a: ranked(choices) },
    build: ({ a }) => a!.pow(choices.of([2, 3, -2, 1.5, 0.5, -0.5, -1, 2.7])),
    range: [0.5, 2],
  }),
  huber: (choices) => ({
    shapes: { a: ranked(choices) },
    build: ({ a }) => huber(a!, choices.of([1, 0.3])),
  }),
  mse: (choices) => ({ shapes: { a: ranked(choices) }, build: ({ a }) => mse(a!) }),
  ...Object.fromEntries(
    (['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const).map((name) => [
      name,
      (choices: Choices): Program => {
        const [a, b] = broadcasting(choices);
        return {
          shapes: { a, b },
          build: ({ a, b }) =>
            a!
              [name](b! as never)
              .mul(a!)
              .add(b!),
        };
      },
    ]),
  ),
  where(choices) {
    const [a, b] = broadcasting(choices);
    return { shapes: { a, b, c: a }, build: ({ a, b, c }) => where(c!.gt(0), a!, b! as never) };
  },
  clamp: (choices) => ({
    shapes: { a: ranked(choices) },
    build: ({ a }) => choices.of([a!.clamp(-0.5, 0.7), a!.clamp(undefined, 0.2), a!.clamp(0)]),
  }),
  ...Object.fromEntries(
    (['sum', 'mean', 'max', 'min', 'logSumExp', 'norm'] as const).map((name) => [
      `${name} over axes`,
      (choices: Choices): Program => {
        const a = ranked(choices);
        const [axis, keep] = [axesOf(choices, a.length), choices.chance(0.5)];
        return {
          shapes: { a },
          build: ({ a }) => (choices.chance(0.2) ? a![name]() : a![name]({ axis, keep })),
        };
      },
    ]),
  ),
  softmax: (choices) => {
    const a = ranked(choices);
    return { shapes: { a }, build: ({ a: x }) => x!.softmax({ axis: choices.below(a.length) }) };
  },
  logSoftmax: (choices) => {
    const a = ranked(choices);
    return { shapes: { a }, build: ({ a: x }) => x!.logSoftmax({ axis: choices.below(a.length) }) };
  },
  cumsum: (choices) => {
    const a = ranked(choices);
    return { shapes: { a }, build: ({ a: x }) => x!.cumsum({ axis: choices.below(a.length) }) };
  },
  sort: (choices) => ({ shapes: { a: ranked(choices) }, build: ({ a }) => a!.sort() }),
  reshape: (choices) => ({
    shapes: { a: ranked(choices) },
    build: ({ a }) => choices.of([a!.flatten(), a!.reshape([1, -1]), a!.reshape([-1, 1, 1])]),
  }),
  transpose: (choices) => {
    const a = choices.shape(2 + choices.below(3));
    const axes = a.map((_, d) => d);
    for (let d = axes.length - 1; d > 0; d--) {
      const other = choices.below(d + 1);
      [axes[d], axes[other]] = [axes[other]!, axes[d]!];
    }
    return { shapes: { a }, build: ({ a: x }) => x!.transpose(axes) };
  },
  slice: (choices) => {
    const a = choices.shape(1 + choices.below(4), 5);
    const axis = choices.below(a.length);
    const from = choices.below(a[axis]!);
    const to = from + 1 + choices.below(a[axis]! - from);
    return { shapes: { a }, build: ({ a: x }) => x!.slice(axis, from, to).add(x!.sum()) };
  },
  broadcast: (choices) => {
    const [a, b] = broadcasting(choices);
    const [small, large] = a.length <= b.length ? [a, b] : [b, a];
    const whole = large.map((n, d) => Math.max(n, small[d - (large.length - small.length)] ?? 1));
    return { shapes: { a: small }, build: ({ a }) => a!.broadcast(whole) };
  },
  flip: (choices) => {
    const a = ranked(choices);
    return { shapes: { a }, build: ({ a: x }) => x!.flip(choices.below(a.length)) };
  },
  concat: (choices) => {
    const a = ranked(choices);
    const axis = choices.below(a.length);
    const b = a.with(axis, 1 + choices.below(3));
    return { shapes: { a, b }, build: ({ a, b }) => concat(axis, a!, b!, a!.square()) };
  },
  stack: (choices) => {
    const a = choices.shape(choices.below(4));
    const axis = choices.below(a.length + 1);
    return { shapes: { a, b: a }, build: ({ a, b }) => stack(axis, a!, b!) };
  },
  matmul: (choices) => {
    const [m, k, n, b] = choices.shape(4) as [number, number, number, number];
    const [left, right] = choices.of([
      [
        [m, k],
        [k, n],
      ],
      [
        [b, m, k],
        [b, k, n],
      ],
      [
        [b, m, k],
        [k, n],
      ],
    ] as const);
    return { shapes: { a: left, b: right }, build: ({ a, b }) => matmul(a!, b!) };
  },
  pick: (choices) => {
    const a = choices.shape(2 + choices.below(3));
    return {
      shapes: { a, index: [a[0]!] },
      build: ({ a, index }) => a!.pick(index!),
      bounds: { index: a[1]! },
    };
  },
  take: (choices) => {
    const table = choices.shape(2);
    const index = choices.shape(choices.below(3));
    return {
      shapes: { table, index },
      build: ({ table, index }) => table!.take(index!),
      bounds: { index: table[0]! },
    };
  },
  oneHot: (choices) => {
    const n = 1 + choices.below(4);
    const index = choices.shape(choices.below(3));
    return {
      shapes: { a: [n], index },
      build: ({ a, index }) => index!.oneHot(n).mul(a!),
      bounds: { index: n },
    };
  },
  argmax: (choices) => {
    const a = choices.shape(2);
    return { shapes: { a }, build: ({ a }) => a!.pick(a!.argmax()) };
  },
  detach: (choices) => ({
    shapes: { a: ranked(choices) },
    build: ({ a }) => a!.tanh().mul(a!.square().detach()),
  }),
  bootstrap: (choices) => {
    const [a, b] = broadcasting(choices);
    return {
      shapes: { a, b, c: a },
      build: ({ a, b, c }) => bootstrap(a!, where(c!.gt(0), c!, 0), b! as never),
    };
  },
  expect: (choices) => {
    const a = ranked(choices);
    return {
      shapes: { a, b: a },
      build: ({ a, b }) => expectation(where(a!.gt(0), a!, 0), b!).add(a!.sum()),
    };
  },
  squashedGaussian: (choices) => {
    const [rows, n] = choices.shape(2) as [number, number];
    const options: GaussianOptions = {
      actionLow: Array.from({ length: n }, (_, j) => -1 - j),
      actionHigh: 2,
      logStd: choices.of([{}, { form: 'clamp', min: -1, max: 1 }]),
      correction: choices.of(['scaled', 'unscaled', 'split', 'exact']),
      ...(choices.chance(0.5) && { meanClamp: 1 }),
    };
    const both = choices.below(3);
    return {
      shapes: { a: [rows, 2 * n], c: [rows, n] },
      build: ({ a, c }) => {
        const { action, logProb } = squashedGaussian(a as never, c as never, options);
        const ends = [
          logProb,
          action.sum({ axis: 1 }),
          action
            .square()
            .sum({ axis: 1 })
            .add(logProb as never),
        ];
        return ends[both] as Expression;
      },
    };
  },
  categoricalLoss: (choices) => {
    const shape = [1 + choices.below(4), 2 + choices.below(4)];
    return {
      shapes: { a: shape, c: shape },
      build: ({ a, c }) => categoricalLoss(a!, c!.softmax(), { min: -1, max: 2 }).loss,
    };
  },
  categoricalMean: (choices) => {
    const shape = [1 + choices.below(4), 2 + choices.below(4)];
    return {
      shapes: { a: shape },
      build: ({ a }) => categoricalMean(a!, { min: -1, max: 2 }),
    };
  },
  tdLoss: (choices) => {
    const [rows, n] = choices.shape(2) as [number, number];
    const delta = choices.of([1, 0.3, 0]);
    return {
      shapes: { a: [rows, n], c: [rows], index: [rows] },
      build: ({ a, c, index }) => tdLoss(a!, index!, c!, { delta }).loss,
      bounds: { index: n },
    };
  },
  'repeated use': (choices) => {
    const a = choices.shape(2);
    return {
      shapes: { a },
      build: ({ a }) => {
        const b = a!.exp().mul(0.1);
        return b.mul(a!).add(b.square()).add(b).sub(a!.sin());
      },
    };
  },
};

/**
 * Compares the gradients of a program with central differences, over random shapes. Calls `seen` with
 * each op of the program.
 */
export function checkProgram(name: string, seen: (node: Node) => void = () => {}): void {
  const program = programs[name]!;
  for (let seed = 0; seed < 12; seed++) {
    const choices = new Choices(seed);
    const { shapes, build, range, bounds = {} } = program(choices);
    const values: Record<string, number[]> = {};
    for (const [input, shape] of Object.entries(shapes)) {
      const size = shape.reduce((n, length) => n * length, 1);
      if (bounds[input] !== undefined) values[input] = choices.indices(size, bounds[input]);
      else
        values[input] = Array.from({ length: size }, () => choices.between(...(range ?? [-2, 2])));
    }
    trace(openDevice('host:0'), shapes, (given) => {
      const inputs = given as Named;
      const y = build(inputs);
      const weights = Float32Array.from(
        {
          length: Math.max(
            1,
            y.shape.reduce((n, d) => n * d, 1),
          ),
        },
        () => choices.between(0.5, 1.5),
      );
      const loss = y.mul(constant(weights, y.shape) as never).sum();
      const wrt = Object.entries(inputs).filter(
        ([input]) => bounds[input] === undefined && input !== 'c',
      );
      checkGradients(
        loss,
        wrt.map(([, each]) => each),
        { values, tolerance: 2e-6 },
      );
      for (const node of nodeFrom(loss).tape.nodes) if (!node.derived) seen(node);
      return loss;
    }).close();
  }
}
