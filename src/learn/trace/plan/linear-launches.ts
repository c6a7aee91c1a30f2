/**
 * Launches of linear layers. A launch of the device's own kernel computes a product with its bias and
 * activation, with the slope of the activation below, or with the gradient of the bias. A vendor's
 * library computes the product alone, and other launches do the rest.
 */

import type { LinearKind } from '../../network/kinds.ts';
import type { Stage } from '../../network/network.ts';
import { activationOf, slopeReadsInput } from '../../ops/elementwise.ts';
import { sizeOf } from '../shapes.ts';
import type { Node, NodeOfKind } from '../tape.ts';
import type {
  LaunchResult,
  NormPass,
  ParameterVector,
  ProductSource,
  Rows,
  Run,
  StagePass,
  View,
  Whole,
} from './launches.ts';
import { flatView, type Lowering, whole } from './lowering.ts';

/** Returns rows as a source of one place. */
export const single = (first: Rows): ProductSource => ({ first, split: first.columns });

type NetworkOp = NodeOfKind<'network'> | NodeOfKind<'networkSlope'>;

/** A linear layer of neighboring members of an ensemble. */
export interface LinearPass {
  readonly node: NetworkOp;
  readonly run: Run;
  readonly rows: number;
  readonly stage: Stage;
  /** parameters of the first member, and their number in a member */
  readonly parameters: ParameterVector;
}

/** Whether the rows of all members have one distance. */
const evenly = ({ batch, distance }: Rows, count: number, rows: number): boolean =>
  count === 1 || batch === rows * distance;

/** Returns the rows of all members as an operand: as one matrix, or as a run if they have gaps. */
function operand(of: Rows, count: number, rows: number): View {
  const { value, columns, distance, batch } = of;
  const view = flatView(value, rows, columns, distance);
  if (count === 1) return view;
  if (batch === 0) return { ...view, flat: true };
  if (columns === distance && evenly(of, count, rows))
    return flatView(value, count * rows, columns, distance);
  return { ...view, shape: [count, rows, columns], strides: [batch, distance, 1], flat: true };
}

/** Returns `shape` elements of each member's parameters, from `offset` on. */
function parameter(
  { value: { buffer, offset: start }, batch }: ParameterVector,
  count: number,
  offset: number,
  shape: readonly number[],
  strides: readonly number[] = shape.map((_, d) => sizeOf(shape.slice(d + 1))),
): View {
  const view = { buffer, offset: start + offset, shape, strides };
  if (count === 1) return view;
  return { ...view, shape: [count, ...shape], strides: [batch, ...strides], flat: true };
}

type LayerLaunch = Parameters<Lowering['launch']>[0];

/** Adds a launch of a layer to the plan. */
function launch(
  lowering: Lowering,
  { node, run: { from, count }, stage: { index, layer } }: LinearPass,
  given: Omit<LayerLaunch, 'node' | 'layer'>,
): void {
  const one = node.attributes.members > 1 ? `, member ${from}` : '';
  const name = `${index}: ${layer.name}${count > 1 ? ` × ${count}` : one}`;
  lowering.launch({ results: [], ...given, node: node as Node, layer: name });
}

/** A matrix of each member as an operand of a product. */
interface Matrix {
  readonly view: View;
  readonly transposed: 0 | 1;
  readonly distance: number;
  readonly batch: number;
}
const matrix = (rows: Rows, count: number, length: number, transposed: 0 | 1 = 0): Matrix => ({
  view: operand(rows, count, length),
  transposed,
  distance: rows.distance,
  batch: rows.batch,
});

/** Launches C = A · B + beta · C for each member. */
function product(
  lowering: Lowering,
  pass: LinearPass,
  [m, n, k]: readonly [number, number, number],
  c: Matrix,
  a: Matrix,
  b: Matrix,
  rest: { note?: string | null; results?: readonly LaunchResult[]; beta?: number },
): void {
  const { count } = pass.run;
  const { beta = 0, note = null, results = [] } = rest;
  const batched = count > 1;
  const strides: Whole[] = [whole(1, a.distance), whole(2, b.distance), c.distance];
  const batches = batched ? [a.batch, b.batch, c.batch] : [];
  launch(lowering, pass, {
    kernel: batched ? 'gemm_batched' : 'gemm',
    views: [c.view, a.view, b.view],
    writes: 1,
    wholes: [
      a.transposed,
      b.transposed,
      ...(batched ? [count] : []),
      ...[m, n, k],
      ...strides,
      ...batches,
    ],
    reals: [1, beta],
    note,
    results,
  });
}

/** Launches y = act(x · weightᵀ + bias), or the normalization of x · weightᵀ + bias. */
export function linearForward(
  lowering: Lowering,
  pass: LinearPass,
  { op, epsilon }: LinearKind,
  x: ProductSource,
  { y, z, norm }: StagePass,
  { note, results }: { readonly note: string | null; readonly results: readonly LaunchResult[] },
): void {
  const { rows, stage, parameters } = pass;
  const { count } = pass.run;
  const { inputs, outputs } = stage;
  const [weight, bias, scale, shift] = stage.parameters;
  const own = (index: { offset: number; shape: readonly number[] }): View =>
    parameter(parameters, count, index.offset, index.shape);
  const views = [y, z].map((each) => operand(each, count, rows));
  const apart = lowering.rules.apart({ batch: count, m: rows, n: outputs, k: inputs });
  if (norm === null && apart === null) {
    const { first, second, split } = x;
    const [firstRows, secondRows] = split < 0 ? [-split, rows + split] : [rows, rows];
    launch(lowering, pass, {
      kernel: 'linear_act',
      views: [
        ...views,
        operand(first, count, second ? firstRows : rows),
        operand(second ?? first, count, second ? secondRows : rows),
        own(weight!),
        own(bias!),
      ],
      writes: 2,
      wholes: [
        ...[count, rows, outputs, inputs, split, y.distance],
        whole(2, first.distance),
        whole(3, (second ?? first).distance),
        ...[y.batch, first.batch, parameters.batch, op],
      ],
      note,
      results,
    });
    return;
  }
  const of = norm ? norm.product : y;
  product(
    lowering,
    pass,
    [rows, outputs, inputs],
    matrix(of, count, rows),
    matrix(x.first, count, rows),
    { view: own(weight!), transposed: 1, distance: inputs, batch: parameters.batch },
    { note: norm ? note : (note ?? apart) },
  );
  if (norm) {
    launch(lowering, pass, {
      kernel: 'norm_act_batched',
      views: [
        operand(y, count, rows),
        operand(norm.kept, count, rows),
        operand(norm.product, count, rows),
        ...[bias!, scale!, shift!].map(own),
      ],
      writes: 2,
      wholes: [count * rows, outputs, y.distance, of.distance, op, rows, parameters.batch],
      reals: [epsilon as number],
      results,
    });
    return;
  }
  const batches = [y.batch, y.batch, parameters.batch];
  launch(lowering, pass, {
    kernel: 'bias_act_batched',
    views: [...views, operand(y, count, rows), own(bias!)],
    writes: 2,
    wholes: [count, rows, outputs, y.distance, y.distance, ...batches, op],
    results,
  });
}

/** Launches d = dy · act′ where dy is, for the activation of a layer with these outputs. */
function slope(
  lowering: Lowering,
  pass: LinearPass,
  op: number,
  dy: Rows,
  { y, z }: StagePass,
): void {
  const { rows } = pass;
  const { count } = pass.run;
  const from = slopeReadsInput(op) ? z : y;
  const together = [dy, from].every((each) => evenly(each, count, rows));
  for (let p = 0; p < (together ? 1 : count); p++) {
    const length = together ? count * rows : rows;
    const view = ({ value, columns, distance, batch }: Rows): View =>
      flatView({ ...value, offset: value.offset + p * batch }, length, columns, distance);
    launch(lowering, pass, {
      kernel: slopeReadsInput(op) ? 'unary_backward' : 'act_backward',
      views: [view(dy), view(dy), view(from)],
      writes: 1,
      wholes: [
        ...[length, dy.columns, dy.distance, dy.distance, from.distance],
        slopeReadsInput(op) ? op : activationOf(op),
      ],
    });
  }
}

/** Launches the column sums of each member's rows. */
function columnSums(lowering: Lowering, pass: LinearPass, x: Rows, out: View): void {
  const { rows, parameters } = pass;
  const { count } = pass.run;
  launch(lowering, pass, {
    kernel: 'column_sums_batched',
    views: [out, operand(x, count, rows)],
    writes: 1,
    wholes: [count, rows, x.columns, x.distance, x.batch, parameters.batch],
    reals: [1, 0],
  });
}

/** Terms whose column sums are the gradients of neighboring parameters, from `offset` on. */
interface Terms {
  readonly terms: Rows;
  readonly offset: number;
}

/**
 * Launches the slope of a layer's normalization. Returns the gradient at the matrix product, and the
 * terms of the gradients of bias, scale and shift. These are side by side for several members, so that
 * one launch sums all of them. One member has them apart, so that products read adjacent rows.
 */
function normBackward(
  lowering: Lowering,
  pass: LinearPass,
  op: number,
  dy: Rows,
  { product: of, kept }: NormPass,
  results: readonly LaunchResult[],
): { d: Rows; sums: readonly Terms[] } {
  const { rows, stage, parameters } = pass;
  const { count } = pass.run;
  const { outputs } = stage;
  const [, bias, scale, shift] = stage.parameters;
  const vectors = [bias!, scale!, shift!].map(({ offset, shape }) =>
    parameter(parameters, count, offset, shape),
  );
  if (!lowering.rules.batches) {
    const [d, terms] = [0, 1].map((): Rows => {
      const value = lowering.fresh([rows, outputs]);
      return { value, columns: outputs, distance: outputs, batch: 0 };
    }) as [Rows, Rows];
    launch(lowering, pass, {
      kernel: 'norm_act_backward',
      views: [...[d, terms, dy, of, kept].map((each) => operand(each, 1, rows)), ...vectors],
      writes: 3,
      inPlace: [3],
      wholes: [rows, outputs, outputs, outputs, dy.distance, of.distance, op],
      results,
    });
    const each = [d, terms, dy] as const;
    return {
      d,
      sums: [bias!, scale!, shift!].map(({ offset }, i) => ({ terms: each[i]!, offset })),
    };
  }
  const distance = 3 * outputs;
  const value = lowering.fresh([count * rows, distance]);
  const terms: Rows = { value, columns: distance, distance, batch: rows * distance };
  launch(lowering, pass, {
    kernel: 'norm_act_backward_batched',
    views: [
      flatView(value, count * rows, distance, distance),
      ...[dy, of, kept].map((each) => operand(each, count, rows)),
      ...vectors,
    ],
    writes: 1,
    wholes: [
      ...[count * rows, outputs, distance, dy.distance, of.distance, op, rows],
      parameters.batch,
    ],
    results,
  });
  return { d: { ...terms, columns: outputs }, sums: [{ terms, offset: bias!.offset }] };
}

/**
 * Launches the gradients of a layer's parameters, and returns the gradient at its matrix product.
 *
 * @param given.dy the gradient at the output. The launches may overwrite it
 * @param given.sloped whether dy is the gradient at the input of the activation already
 */
export function linearBackward(
  lowering: Lowering,
  pass: LinearPass,
  { op, epsilon }: LinearKind,
  given: {
    readonly dy: Rows;
    readonly sloped: boolean;
    readonly memory: StagePass;
    readonly x: ProductSource;
    readonly gradients: ParameterVector | null;
    readonly results: readonly LaunchResult[];
  },
): Rows {
  const { rows, stage, parameters } = pass;
  const { count } = pass.run;
  const { inputs, outputs } = stage;
  const { dy, memory, x, gradients, results } = given;
  const [weight, bias] = stage.parameters;
  let d = dy;
  let sums: readonly Terms[] = [{ terms: dy, offset: bias!.offset }];
  if (epsilon !== null) {
    const { norm } = memory;
    const own = gradients ? [] : results;
    ({ d, sums } = normBackward(lowering, pass, op, dy, norm as NormPass, own));
  } else if (op >= 0 && !given.sloped) slope(lowering, pass, op, dy, memory);
  if (!gradients) return d;
  const apart = lowering.rules.apart({ batch: count, m: outputs, n: inputs, k: rows });
  const dw = parameter(gradients, count, weight!.offset, weight!.shape);
  if (epsilon === null && apart === null) {
    const { first, second, split } = x;
    launch(lowering, pass, {
      kernel: 'linear_gradients',
      views: [
        dw,
        parameter(gradients, count, bias!.offset, bias!.shape),
        operand(d, count, rows),
        operand(first, count, rows),
        operand(second ?? first, count, rows),
      ],
      writes: 2,
      wholes: [
        ...[count, outputs, inputs, rows, split, d.distance],
        whole(3, first.distance),
        whole(4, (second ?? first).distance),
        ...[d.batch, first.batch, parameters.batch],
      ],
      results,
    });
    return d;
  }
  for (const { terms, offset } of sums)
    columnSums(lowering, pass, terms, parameter(gradients, count, offset, [terms.columns]));
  product(
    lowering,
    pass,
    [outputs, inputs, rows],
    { view: dw, transposed: 0, distance: inputs, batch: gradients.batch },
    matrix(d, count, rows, 1),
    matrix(x.first, count, rows),
    { note: epsilon === null ? apart : null, results },
  );
  return d;
}

/**
 * Launches dx = d · weight for the columns of the input from `from` on, with the slope of the
 * activation below. Returns whether the slope is in it. If dx has one part for all members, their
 * products are added.
 *
 * @param below.op the activation of the layer below, or −1
 */
export function inputGradient(
  lowering: Lowering,
  pass: LinearPass,
  d: Rows,
  dx: Rows,
  from: number,
  below: {
    readonly op: number;
    readonly at: StagePass | null;
    readonly results: readonly LaunchResult[];
  },
): boolean {
  const { rows, stage, parameters } = pass;
  const { count } = pass.run;
  const { inputs, outputs } = stage;
  const { offset } = stage.parameters[0]!;
  const n = dx.columns;
  const apart = lowering.rules.apart({ batch: count, m: rows, n, k: outputs });
  const { op, results } = below;
  const weight = parameter(parameters, count, offset + from, [outputs, n], [inputs, 1]);
  if (apart === null) {
    const read = op < 0 ? d : slopeReadsInput(op) ? below.at!.z : below.at!.y;
    launch(lowering, pass, {
      kernel: 'linear_backward',
      views: [
        operand(dx, count, rows),
        operand(d, count, rows),
        weight,
        operand(read, count, rows),
      ],
      writes: 1,
      wholes: [
        ...[count, rows, n, outputs, inputs, d.distance, read.distance],
        ...[dx.batch, d.batch, parameters.batch, read.batch, op],
      ],
      results,
    });
    return op >= 0;
  }
  const left = { transposed: 0, distance: inputs, batch: parameters.batch } as const;
  if (count === 1 || dx.batch > 0)
    product(
      lowering,
      pass,
      [rows, n, outputs],
      matrix(dx, count, rows),
      matrix(d, count, rows),
      { view: weight, ...left },
      { note: apart, results },
    );
  else
    for (let p = 0; p < count; p++) {
      const one = { ...pass, run: { from: pass.run.from + p, count: 1 } };
      const own = { ...d, value: { ...d.value, offset: d.value.offset + p * d.batch } };
      const at = offset + from + p * parameters.batch;
      product(
        lowering,
        one,
        [rows, n, outputs],
        matrix(dx, 1, rows),
        matrix(own, 1, rows),
        { view: parameter(parameters, 1, at, [outputs, n], [inputs, 1]), ...left },
        { note: apart, beta: p === 0 ? 0 : 1 },
      );
    }
  return false;
}
