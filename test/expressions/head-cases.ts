/** Programs whose targets, losses and sums take one launch, compared with plans of single launches. */
import { expect } from 'chai';
import {
  categoricalProject,
  type Expression,
  grad,
  tdLoss,
  tdTarget,
} from '../../src/entries/trace.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { binaries } from '../../src/learn/ops/elementwise.ts';
import { withHeads } from '../../src/learn/trace/plan/heads.ts';
import type { Buffer, Launch } from '../../src/learn/trace/plan/launches.ts';
import type { Lowering } from '../../src/learn/trace/plan/lowering.ts';
import {
  type InputOf,
  type InternalOptions,
  type Traced,
  trace,
} from '../../src/learn/trace/trace.ts';
import { TESTED } from '../rig/tested-device.ts';
import { all, arena, launch } from './hand-made.ts';
import { Choices } from './rig.ts';

type Shapes = Readonly<Record<string, readonly number[]>>;
type Inputs = Readonly<Record<string, Expression>>;
type Results = Readonly<Record<string, Expression>>;

const planned = trace as unknown as (
  device: Device,
  shapes: Shapes,
  fn: (inputs: Inputs) => Results,
  options: InternalOptions,
) => Traced<Readonly<Record<string, InputOf>>, Results>;

/** Runs a program with both kinds of plans. Returns their kernels after a comparison of all bits. */
export async function compared(
  shapes: Shapes,
  fn: (inputs: Inputs) => Results,
  change: (name: string, values: Float32Array) => void = () => {},
): Promise<{ one: string[]; single: string[] }> {
  const device = openDevice(TESTED);
  const stream = device.currentStream;
  const random = new Choices(11);
  const tensors: Record<string, Tensor> = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const size = shape.reduce((a, b) => a * b, 1);
    const values = Float32Array.from({ length: size }, () => random.between(-2, 2));
    change(name, values);
    tensors[name] = device.allocate({ shape: [...shape] }).write(values);
  }
  const seen: { kernels: string[]; bits: string[]; plan: string }[] = [];
  for (const options of [
    ...[{}, { heads: false }, { poison: true }, { chains: false }],
    { heads: false, chains: false },
  ] as InternalOptions[]) {
    const made = planned(device, shapes, fn, options);
    made.run(stream, tensors);
    const plan = String(made.plan);
    const bits: string[] = [];
    for (const tensor of Object.values(made.outputs as Record<string, Tensor>))
      bits.push(Buffer.from(new Uint8Array((await tensor.toArray()).buffer)).toString('hex'));
    const kernels = plan
      .split('\n')
      .slice(3)
      .map((line) => line.split(/ {2,}/)[1]!);
    seen.push({ kernels, bits, plan });
    made.close();
  }
  for (const tensor of Object.values(tensors)) tensor.close();
  const [one, single] = seen as [(typeof seen)[0], (typeof seen)[0]];
  for (const { bits, plan } of seen) expect(bits, plan).to.deep.equal(one.bits);
  return { one: one.kernels, single: single.kernels };
}

const ROWS = 12;
const loss = (inputs: Inputs, target: Expression, weights?: Expression) =>
  tdLoss(inputs.q!, inputs.actions!, target, weights ? { weights } : {});
export const tdShapes = (rows = ROWS): Shapes => ({
  ...{ q: [ROWS, 3], actions: [ROWS], weights: [ROWS] },
  ...{ value: [rows, 3], choice: [rows, 3], rewards: [rows], discounts: [rows] },
});
export const tdValues = (name: string, values: Float32Array) => {
  if (name === 'actions') values.set(values.map((_, i) => i % 4));
  if (name === 'discounts') values[1] = 0;
  if (name === 'value') values.fill(Number.NaN, 3, 6);
};
const target = ({ value, choice, rewards, discounts }: Inputs) =>
  tdTarget(value!, choice!, rewards!, discounts!);

export const tdCases: [string, number, (inputs: Inputs) => Results, boolean][] = [
  [
    'are one launch',
    ROWS,
    (inputs) => ({ loss: loss(inputs, target(inputs), inputs.weights).loss }),
    true,
  ],
  [
    'are one launch with gradients, values and errors',
    ROWS,
    (inputs) => {
      const { loss: each, value, error } = loss(inputs, target(inputs));
      const mean = each.mean() as Expression<readonly []>;
      const { gradients } = grad(mean as Expression, [inputs.q!]);
      return { mean: mean as Expression, value, error, slope: gradients[0] as Expression };
    },
    true,
  ],
  [
    'are one launch if the target repeats',
    4,
    (inputs) => ({ loss: loss(inputs, target(inputs)).loss }),
    true,
  ],
  [
    'are one launch with a masked choice',
    ROWS,
    (inputs) => {
      const choice = inputs.choice!.add(inputs.value!.mul(0).add(1));
      return { loss: loss(inputs, target({ ...inputs, choice })).loss };
    },
    true,
  ],
  [
    'stay apart if another op reads the target',
    ROWS,
    (inputs) => {
      const goal = target(inputs);
      return { loss: loss(inputs, goal).loss, mean: goal.mul(2) };
    },
    false,
  ],
  [
    'stay apart if the target is a result',
    ROWS,
    (inputs) => {
      const goal = target(inputs);
      return { loss: loss(inputs, goal).loss, goal };
    },
    false,
  ],
];

const range = { min: -3, max: 4 };
export const projectionShapes = (atoms: number): Shapes => ({
  ...{ logits: [ROWS, atoms], rewards: [ROWS], discounts: [ROWS] },
  ...{ cost: [6], alpha: [], wide: [6, 2] },
});
export const projectionValues = (name: string, list: Float32Array) => {
  if (name === 'logits') list.fill(Number.NEGATIVE_INFINITY, 0, 5);
  if (name === 'discounts') list[2] = 0;
};
const projected = (inputs: Inputs, cost?: Expression): Results => {
  const probs = inputs.logits!.softmax() as Expression;
  const options = cost ? { ...range, cost } : range;
  const { projected, mean } = categoricalProject(
    probs,
    inputs.rewards!,
    inputs.discounts!,
    options,
  );
  return { projected, mean };
};
export const projections: [string, number, (inputs: Inputs) => Results, number][] = [
  ['are one launch', 51, (inputs) => projected(inputs), 1],
  ['are two launches of more than 1,024 atoms', 1025, (inputs) => projected(inputs), 0],
  [
    'are one launch with an entropy term',
    51,
    (inputs) => projected(inputs, inputs.cost!.mul(inputs.alpha!)),
    2,
  ],
  [
    'are one launch with an entropy term whose factor comes first',
    7,
    (inputs) => projected(inputs, inputs.alpha!.mul(inputs.cost!)),
    2,
  ],
  [
    'are one launch with an entropy term of a column',
    7,
    (inputs) => {
      const column = inputs.wide!.slice(1, 1, 2).reshape([6]) as Expression;
      return projected(inputs, column.mul(inputs.alpha!));
    },
    2,
  ],
  ['leave a sum out', 7, (inputs) => projected(inputs, inputs.cost!.add(inputs.alpha!)), 1],
  [
    'leave an entropy term out that another op reads',
    7,
    (inputs) => {
      const cost = inputs.cost!.mul(inputs.alpha!);
      return { ...projected(inputs, cost), cost: cost.exp() as Expression };
    },
    1,
  ],
  [
    'leave the logarithm of a softmax apart',
    7,
    (inputs) => {
      const probs = inputs.logits!.slice(0, 1, ROWS).logSoftmax() as Expression;
      const [rewards, discounts] = ['rewards', 'discounts'].map(
        (name) => inputs[name]!.slice(0, 1, ROWS) as Expression,
      ) as [Expression, Expression];
      const { projected, mean } = categoricalProject(probs, rewards, discounts, range);
      return { projected, mean };
    },
    0,
  ],
  [
    'stay apart if another op reads the softmax',
    7,
    (inputs) => {
      const probs = inputs.logits!.softmax() as Expression;
      return { ...projected(inputs), first: probs.slice(1, 0, 1).mul(2) as Expression };
    },
    0,
  ],
];

/** Sums, by their shapes. */
export const sums: readonly (readonly [Shapes, (inputs: Inputs) => Results])[] = [
  ...[2, 3, 4, 5].map(
    (members) =>
      [
        { x: [members, 5, 3] },
        ({ x }: Inputs) => {
          const mean = x!.exp().mean({ axis: 0 }) as Expression;
          return { sum: x!.sum({ axis: 0 }).tanh() as Expression, mean: mean.mul(mean) };
        },
      ] as const,
  ),
  ...[1025, 2048, 16_384, 16_496, 65_536].map(
    (n) => [{ x: [n] }, ({ x }: Inputs) => ({ mean: x!.add(1).mean() as Expression })] as const,
  ),
];

/** Returns a launch that writes a buffer, or only reads it. */
const writing = (buffer: Buffer) => launch('fill', [all(buffer)]);
const reading = (buffer: Buffer) => launch('unary', [all(arena(ROWS)), all(buffer)]);

/** A TD target and the loss that reads it, made by hand. */
function handMadeLoss() {
  const reads = ['value', 'choice', 'rewards', 'discounts'].map((name) => arena(ROWS, { name }));
  const goal = arena(ROWS);
  const [slopes, terms, errors, q, actions, weights] = Array.from({ length: 6 }, () => arena(ROWS));
  const source = launch('td_target_discounts', [goal, ...reads].map(all), {
    wholes: [ROWS, 1, 1, 1, 1, 1],
  });
  const readers = [slopes, terms, errors, q, goal, actions, weights] as Buffer[];
  const reader = launch('td_loss_weighted', readers.map(all), {
    ...{ writes: 3, wholes: [ROWS, 1, 1, 1, 1, 1, 1, ROWS, ROWS, 0] },
  });
  return { reads, source, reader };
}

/** A softmax, an entropy term and the projection that reads both, made by hand. */
function handMadeProjection() {
  const [logits, logProbs, alpha] = [arena(ROWS), arena(ROWS), arena(1)];
  const [probs, cost, projected, mean] = Array.from({ length: 4 }, () => arena(ROWS)) as [
    ...[Buffer, Buffer, Buffer, Buffer],
  ];
  const softmax = launch('softmax_rows', [probs, logits].map(all), { wholes: [ROWS, 1, 1, 1, 0] });
  const product = launch('binary', [cost, logProbs, alpha].map(all), {
    wholes: [ROWS, 1, 1, 1, 0, 0, binaries.mul],
  });
  const reader = launch(
    'categorical_project',
    [projected, mean, probs, arena(ROWS), arena(ROWS), cost].map(all),
    { writes: 2, wholes: [ROWS, 1, 1, 1, 1, ROWS, ROWS, ROWS] },
  );
  return { reads: [logits], costReads: [logProbs, alpha], softmax, product, reader };
}

const { reads, source, reader } = handMadeLoss();
const projecting = handMadeProjection();
const { softmax, product, costReads } = projecting;
const project = projecting.reader;
const joinedLoss = 'td_loss_target';
const joinedProjection = 'categorical_target';

/** Launches by hand, and the kernels of their plan. The title says what a launch between them does. */
export const placed: readonly (readonly [string, readonly Launch[], readonly string[]])[] = [
  ['a loss joins its target', [source, reader], [joinedLoss]],
  [
    'a loss joins its target if a launch between them reads the same memory',
    [source, reading(reads[0]!), reader],
    ['unary', joinedLoss],
  ],
  [
    'a loss joins its target if launches before and after them write the same memory',
    [writing(reads[0]!), source, writing(arena(ROWS)), reader, writing(reads[0]!)],
    ['fill', 'fill', joinedLoss, 'fill'],
  ],
  ...reads.map(
    (buffer) =>
      [
        `a loss stays apart if a launch after its target writes the ${buffer.name}`,
        [source, writing(buffer), reader],
        ['td_target_discounts', 'fill', 'td_loss_weighted'],
      ] as const,
  ),
  [
    'a loss stays apart if it writes what its target reads',
    [source, { ...reader, views: [reader.views[0]!, all(reads[0]!), ...reader.views.slice(2)] }],
    ['td_target_discounts', 'td_loss_weighted'],
  ],
  [
    'a loss stays apart from a target of another section',
    [source, { ...reader, section: 1 }],
    ['td_target_discounts', 'td_loss_weighted'],
  ],
  ['a projection joins its terms', [softmax, product, project], [joinedProjection]],
  [
    'a projection stays apart if a launch after the softmax writes its input',
    [softmax, writing(projecting.reads[0]!), product, project],
    ['softmax_rows', 'fill', 'binary', 'categorical_project'],
  ],
  ...costReads.map(
    (buffer, i) =>
      [
        `a projection leaves the entropy term out if a later launch writes factor ${i}`,
        [product, writing(buffer), softmax, project],
        ['binary', 'fill', joinedProjection],
      ] as const,
  ),
];

/** Returns the kernels of launches whose targets are joined. */
export function kernelsOf(launches: readonly Launch[]): string[] {
  const constants = arena(1, { kind: 'constants' });
  const lowering = { cell: () => ({ buffer: constants, offset: 0, strides: [0] }) };
  return withHeads(lowering as never as Lowering, launches).map(({ kernel }) => kernel);
}

/** Returns the first program whose bits or launches are wrong, or null. */
export async function wrongHeads(): Promise<string | null> {
  try {
    for (const [, rows, fn, joined] of tdCases) {
      const { one } = await compared(tdShapes(rows), fn, tdValues);
      expect(one.includes('td_loss_target')).to.equal(joined);
    }
    for (const [, atoms, fn, saved] of projections) {
      const { one } = await compared(projectionShapes(atoms), fn, projectionValues);
      expect(one.includes('categorical_target')).to.equal(saved > 0);
    }
    for (const [shapes, fn] of sums) await compared(shapes, fn);
    for (const [, launches, kernels] of placed) expect(kernelsOf(launches)).to.deep.equal(kernels);
    return null;
  } catch (error) {
    return String(error);
  }
}
