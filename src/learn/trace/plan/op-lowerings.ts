/** How each op of a trace becomes launches. */
import { dtypes } from '../../../base/dtype.ts';
import { denseStrides, isDense, rowMajor } from '../../../device/strides.ts';
import { binaries, unaries } from '../../ops/elementwise.ts';
import { reductions } from '../../ops/rows.ts';
import { reshapedStrides, type Shape, sizeOf, spreadStrides } from '../shapes.ts';
import type { Node, NodeOfKind, ReductionName } from '../tape.ts';
import { lowerConcat } from './concat-lowering.ts';
import { fusedLowerings } from './fused-lowerings.ts';
import { ROW, type Value, type View } from './launches.ts';
import {
  type Call,
  flatView,
  type Lowering,
  type Lowerings,
  rowsOf,
  type Target,
  whole,
} from './lowering.ts';
import { lowerNetwork } from './network-lowerings.ts';
import { lowerNetworkSlope } from './network-slopes.ts';

/** Numbers of the ops of `binary_backward`. native/kernels/binary.gk has the same numbers. */
const binarySlopes = { min: 0, max: 1, div: 2, huber: 3 } as const;

/** A sum of more elements than this is a sum of pieces, so that a device adds in parallel. */
const LONG_SUM = 1024;
/** Most elements of pieces that one block sums. More pieces are one launch, and their sum another. */
const MAX_BLOCK_SUM = 2 ** 14;
/** Most members whose sum is elementwise additions, which join chains. */
const FEW_MEMBERS = 4;

const each = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);
/** Whole numbers of a kernel that takes one stride for its result and for each of its operands. */
const strided =
  (operands: number, ...last: readonly number[]): Call['wholes'] =>
  ({ rows, columns }, stride) => [rows, columns, ...each(0, operands).map(stride), ...last];
/** Whole numbers of a kernel that takes two steps for each of its operands, and repeats elements. */
const stepped =
  (operands: number, ...last: readonly number[]): Call['wholes'] =>
  ({ rows, columns }, stride, steps) => [
    rows,
    columns,
    stride(0),
    ...each(1, operands).flatMap(steps),
    ...last,
  ];

const viewed = (value: Value, strides: readonly number[], offset = 0): Value => ({
  ...value,
  offset: value.offset + offset,
  strides,
});

/** A matrix as `gemm` reads it: transposed or not, with a distance between its rows. */
interface Matrix {
  readonly value: Value;
  readonly transposed: 0 | 1;
  readonly distance: number;
}

/** Returns the last two dimensions of a value as a matrix. A copy is made if no row is contiguous. */
function matrix(lowering: Lowering, node: Node, given: Value, shape: Shape): Matrix {
  const [r, c] = shape.slice(-2) as [number, number];
  const form = (value: Value): Matrix | null => {
    const [down, right] = value.strides.slice(-2) as [number, number];
    if ((right === 1 || c === 1) && (r === 1 || down >= c))
      return { value, transposed: 0, distance: r === 1 ? c : down };
    if ((down === 1 || r === 1) && (c === 1 || right >= r))
      return { value, transposed: 1, distance: c === 1 ? r : right };
    return null;
  };
  return form(given) ?? (form(lowering.copied(node, given, shape)) as Matrix);
}

/** Returns the number of elements of a piece of a long row, or 0 if one launch sums the row. */
function pieceOf(n: number): number {
  if (n <= LONG_SUM) return 0;
  for (let piece = 512; piece >= 16; piece--) if (n % piece === 0) return piece;
  return 0;
}

const reduceCall = (f: ReductionName, columns: number, scale: number): Call => ({
  kernel: 'reduce_rows',
  wholes: ({ rows }, stride) => [rows, columns, stride(0), stride(1), reductions[f]],
  reals: [scale],
});

/**
 * Returns the sum of at most four members as elementwise ops: a + b, (a + b) + c or (a + b) + (c + d),
 * times the scale. A sum of members that are all −0 is −0, which `column_sums` would make +0.
 */
function sumOfMembers(
  lowering: Lowering,
  node: NodeOfKind<'reduce'>,
  members: readonly Value[],
): Value {
  const { shape } = node;
  const op = (f: 'add' | 'mul', ...both: readonly Value[]): Value =>
    lowering.elementwise(node as Node, both, [shape, shape], {
      kernel: 'binary',
      inPlace: [1, 2],
      wholes: stepped(2, binaries[f]),
    });
  const [a, b, c, d] = members as [Value, Value, Value?, Value?];
  const two = op('add', a, b);
  const sum = c ? op('add', two, d ? op('add', c, d) : c) : two;
  const { scale } = node.attributes;
  return scale === 1 ? sum : op('mul', sum, lowering.cell(scale, shape));
}

function lowerReduce(lowering: Lowering, node: NodeOfKind<'reduce'>, target: Target): Value | null {
  const { f, scale } = node.attributes;
  const [input] = node.inputs as [Node];
  const n = input.shape.at(-1)!;
  const places = node.shape;
  const x = lowering.value(input);
  const size = sizeOf(places);
  const [outer, step] = [x.strides.slice(0, -1), x.strides.at(-1)!];
  const of = node as Node;
  // The reduction of one element is the element.
  if (n === 1 && !target) {
    if (f === 'argmax' || f === 'argmin') return lowering.cell(0, places);
    // A parameter may change before a later op reads the result.
    if (scale === 1 && x.buffer.kind !== 'memory') return { ...x, strides: outer };
  }
  if (f === 'sum' && n > 1 && step !== 1 && step >= size && isDense(places, outer)) {
    if (lowering.heads && !target && n <= FEW_MEMBERS && size > 1)
      return sumOfMembers(
        lowering,
        node,
        each(0, n - 1).map((i) => viewed(x, outer, i * step)),
      );
    const out = target ?? lowering.fresh(places);
    const run = { shape: [1, size], strides: [size, 1] };
    lowering.launch({
      kernel: 'column_sums',
      views: [
        { buffer: out.buffer, offset: out.offset, ...run },
        { buffer: x.buffer, offset: x.offset, shape: [n, size], strides: [step, 1] },
      ],
      writes: 1,
      wholes: [n, size, whole(1, step)],
      reals: [scale, target ? 1 : 0],
      node: of,
    });
    return out;
  }
  if (target) return null;
  const piece = size === 1 && /^(sum|max|min)$/.test(f) ? pieceOf(n) : 0;
  if (piece > 0) {
    const dense = lowering.dense(of, x, input.shape);
    if (lowering.heads && f === 'sum' && n <= MAX_BLOCK_SUM) {
      const out = lowering.fresh(places);
      lowering.launch({
        kernel: 'sum_long',
        views: [flatView(out, 1, 1, 1), flatView(dense, 1, n, n)],
        writes: 1,
        wholes: [1, n / piece, piece, 1, n],
        reals: [scale],
        node: of,
      });
      return { ...out, strides: places.map(() => 0) };
    }
    const row = { ...dense, strides: [piece, 1] };
    const count = n / piece;
    const inPieces = reduceCall(f, piece, 1);
    const parts = lowering.rowwise(of, [count], [[count], [count, piece]], [row], inPieces);
    const result = lowering.rowwise(of, [], [[], [count]], [parts], reduceCall(f, count, scale));
    return { ...result, strides: places.map(() => 0) };
  }
  return lowering.rowwise(of, places, [places, input.shape], [x], reduceCall(f, n, scale));
}

/** Returns an index as one run with a constant distance. */
function indexRun(lowering: Lowering, node: Node, index: Node): { value: Value; step: number } {
  const size = sizeOf(index.shape);
  const run = (value: Value) => reshapedStrides(index.shape, value.strides, [size]);
  const given = lowering.value(index);
  const strides = run(given);
  if (strides && (size === 1 || strides[0]! > 0)) return { value: given, step: strides[0] || 1 };
  return { value: lowering.copied(node, given, index.shape), step: 1 };
}

/** Ops that can add their result to a gradient where it is. */
const adders: Lowerings['adders'] = new Set(['reduce', 'pad', 'matmul', 'pickSlope', 'takeSlope']);

const of: Lowerings['of'] = {
  input(lowering, node) {
    const { shape, attributes } = node;
    const { contiguous, scale = 1, shift = 0 } = attributes;
    const buffer = lowering.input(node);
    const strides = denseStrides(shape).map((stride, d) =>
      d === 0 && shape[0]! > 1 && !contiguous ? ROW : stride,
    );
    if (attributes.dtype === 'float32' && scale === 1 && shift === 0)
      return { buffer, offset: 0, strides };
    const out = lowering.fresh(shape);
    const rows = shape[0] ?? 1;
    const columns = sizeOf(shape) / rows;
    const distance = rows > 1 && !contiguous ? ROW : columns;
    lowering.launch({
      kernel: 'convert',
      views: [
        flatView(out, rows, columns, columns),
        flatView({ buffer, offset: 0, strides }, rows, columns, distance),
      ],
      writes: 1,
      wholes: [rows, columns, columns, whole(1, distance), dtypes[attributes.dtype].code],
      reals: [scale, shift],
      node: node as Node,
    });
    return out;
  },
  memory(lowering, node) {
    const { shape } = node;
    const { dtype } = node.attributes.tensor;
    const from: Value = { buffer: lowering.memory(node), offset: 0, strides: denseStrides(shape) };
    if (dtype === 'float32') return from;
    const [out, size] = [lowering.fresh(shape), sizeOf(shape)];
    lowering.launch({
      kernel: 'convert',
      views: [flatView(out, 1, size, size), flatView(from, 1, size, size)],
      writes: 1,
      wholes: [1, size, size, size, dtypes[dtype].code],
      reals: [1, 0],
      node: node as Node,
    });
    return out;
  },
  network: lowerNetwork,
  networkSlope: lowerNetworkSlope,
  constant: (lowering, { attributes, shape }) => lowering.constant(attributes.values, shape),
  full: (lowering, { attributes, shape }) => lowering.cell(attributes.value, shape),
  draw(lowering, node) {
    const out = lowering.fresh(node.shape);
    const size = sizeOf(node.shape);
    const { kind, first, second } = node.attributes;
    lowering.launch({
      kernel: `random_${kind}`,
      views: [{ buffer: out.buffer, offset: 0, shape: [size], strides: [1] }],
      writes: 1,
      wholes: [size],
      reals: [first, second],
      node: node as Node,
    });
    return out;
  },
  unary: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'unary',
      inPlace: [1],
      repeats: false,
      wholes: strided(1, unaries[node.attributes.f]),
    }),
  unarySlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'unary_backward',
      inPlace: [1, 2],
      repeats: false,
      wholes: strided(2, unaries[node.attributes.f]),
    }),
  binary: (lowering, node) => binaryLaunch(lowering, node as Node, binaries[node.attributes.f]),
  accumulate: (lowering, node) => binaryLaunch(lowering, node as Node, binaries.add),
  binarySlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'binary_backward',
      inPlace: [1, 2, 3],
      wholes: stepped(3, binarySlopes[node.attributes.f]),
    }),
  where: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'where',
      inPlace: [1, 2, 3],
      wholes: stepped(3),
    }),
  clamp: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'clip',
      inPlace: [1],
      repeats: false,
      wholes: strided(1),
      reals: [node.attributes.low, node.attributes.high],
    }),
  clampSlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'clip_backward',
      inPlace: [1, 2],
      repeats: false,
      wholes: strided(2),
      reals: [node.attributes.low, node.attributes.high],
    }),
  reduce: lowerReduce,
  softmax: (lowering, node) =>
    alongRows(lowering, node as Node, 'softmax_rows', [node.attributes.logarithm], [1]),
  softmaxSlope: (lowering, node) =>
    alongRows(lowering, node as Node, 'softmax_rows_backward', [node.attributes.logarithm], [1, 2]),
  cumsum(lowering, node) {
    const { axis, reverse } = node.attributes;
    const { shape } = node;
    const x = lowering.dense(node as Node, lowering.value(node.inputs[0]!), shape);
    const out = lowering.fresh(shape);
    const inner = sizeOf(shape.slice(axis + 1));
    const run = { shape: [sizeOf(shape)], strides: [1] };
    lowering.launch({
      kernel: 'cumsum',
      views: [
        { buffer: out.buffer, offset: out.offset, ...run },
        { buffer: x.buffer, offset: x.offset, ...run },
      ],
      writes: 1,
      inPlace: [1],
      wholes: [sizeOf(shape.slice(0, axis)), shape[axis]!, inner, reverse],
      node: node as Node,
    });
    return out;
  },
  ranks: (lowering, node) => alongRows(lowering, node as Node, 'rank_rows', [], []),
  scatterAlong: (lowering, node) => alongRows(lowering, node as Node, 'scatter_along_rows', [], []),
  gatherAlong(lowering, node) {
    const n = node.shape.at(-1)!;
    return lowering.rowwise(
      node as Node,
      node.shape.slice(0, -1),
      [node.shape, node.shape, node.shape],
      node.inputs.map((input) => lowering.value(input)),
      {
        kernel: 'gather_along_rows',
        wholes: ({ rows }, stride) => [rows, n, n, stride(0), stride(1), stride(2)],
      },
    );
  },
  reshape(lowering, node) {
    const [input] = node.inputs as [Node];
    const x = lowering.value(input);
    const strides = reshapedStrides(input.shape, x.strides, node.shape);
    if (strides) return viewed(x, strides);
    return viewed(lowering.copied(node as Node, x, input.shape), denseStrides(node.shape));
  },
  transpose(lowering, node) {
    const x = lowering.value(node.inputs[0]!);
    return viewed(
      x,
      node.attributes.axes.map((axis) => x.strides[axis]!),
    );
  },
  slice(lowering, node) {
    const x = lowering.value(node.inputs[0]!);
    const { axis, from } = node.attributes;
    const strides = x.strides.map((step, d) => (node.shape[d] === 1 ? 0 : step));
    return viewed(x, strides, from * x.strides[axis]!);
  },
  broadcast(lowering, node) {
    const [input] = node.inputs as [Node];
    const x = lowering.value(input);
    return viewed(x, spreadStrides(input.shape, x.strides, node.shape));
  },
  flip(lowering, node) {
    const { axis } = node.attributes;
    const x = lowering.value(node.inputs[0]!);
    const strides = x.strides.map((step, d) => (d === axis ? -step : step));
    const end = (node.shape[axis]! - 1) * x.strides[axis]!;
    return lowering.copied(node as Node, viewed(x, strides, end), node.shape);
  },
  pad(lowering, node, target) {
    const { axis, before } = node.attributes;
    const [input] = node.inputs as [Node];
    const value = lowering.value(input);
    const offset = before * rowMajor(node.shape)[axis]!;
    const constant = target
      ? null
      : lowering.writtenOut(value, input.shape, { shape: node.shape, offset });
    if (constant) return constant;
    const out = target ?? lowering.fresh(node.shape);
    if (!target) lowering.fill(node as Node, out, node.shape, 0);
    const region = viewed(out, out.strides, offset);
    lowering.copyTo(node as Node, region, value, input.shape, target ? 1 : 0);
    return out;
  },
  concat: lowerConcat,
  matmul(lowering, node, target) {
    const [left, right] = node.inputs as [Node, Node];
    const [m, k] = left.shape.slice(-2) as [number, number];
    const n = right.shape.at(-1)!;
    const batch = left.shape.length === 3 ? left.shape[0]! : 1;
    const a = matrix(lowering, node as Node, lowering.value(left), left.shape);
    const b = matrix(lowering, node as Node, lowering.value(right), right.shape);
    const out = target ?? lowering.fresh(node.shape);
    const form = ({ value, transposed, distance }: Matrix, r: number, c: number): View =>
      transposed ? flatView(value, c, r, distance) : flatView(value, r, c, distance);
    const views = [flatView(out, m, n, n), form(a, m, k), form(b, k, n)];
    const common = { writes: 1, node: node as Node, reals: [1, target ? 1 : 0] };
    const sizes = [m, n, k, whole(1, a.distance), whole(2, b.distance), n];
    if (batch === 1)
      lowering.launch({
        kernel: 'gemm',
        views,
        wholes: [a.transposed, b.transposed, ...sizes],
        ...common,
      });
    else {
      const steps = [m * n, a.value.strides[0]!, b.value.strides[0]!];
      lowering.launch({
        kernel: 'gemm_batched',
        views: views.map((view, i) => ({
          ...view,
          shape: [batch, ...view.shape],
          strides: [steps[i]!, ...view.strides],
          flat: true,
        })),
        wholes: [
          a.transposed,
          b.transposed,
          batch,
          ...sizes,
          whole(1, steps[1]!),
          whole(2, steps[2]!),
          steps[0]!,
        ],
        ...common,
      });
    }
    return out;
  },
  pick(lowering, node) {
    const [from, at] = node.inputs as [Node, Node];
    const [rows, n] = from.shape as [number, number];
    const inner = sizeOf(from.shape.slice(2));
    const out = lowering.fresh(node.shape);
    const index = indexRun(lowering, node as Node, at);
    const places = flatView(index.value, rows, 1, index.step);
    const x = rowsOf(lowering, node as Node, lowering.value(from), from.shape, n * inner);
    if (inner === 1) {
      lowering.launch({
        kernel: 'gather_columns',
        views: [flatView(out, 1, rows, rows), flatView(x.value, rows, n, x.distance), places],
        writes: 1,
        wholes: [rows, n, whole(1, x.distance), whole(2, index.step)],
        node: node as Node,
      });
      return out;
    }
    // take_rows takes the distance from one block of the table to the next in rows of the table.
    const table =
      x.distance === n * inner ? x.value : lowering.copied(node as Node, x.value, from.shape);
    lowering.launch({
      kernel: 'take_rows',
      views: [flatView(out, rows, inner, inner), flatView(table, rows * n, inner, inner), places],
      writes: 1,
      wholes: [rows, inner, n, inner, inner, whole(2, index.step), n],
      node: node as Node,
    });
    return out;
  },
  pickSlope(lowering, node, target) {
    const [above, at] = node.inputs as [Node, Node];
    const [rows, n] = node.shape as [number, number];
    const inner = sizeOf(node.shape.slice(2));
    const given = lowering.value(above);
    const repeated = inner === 1 && given.strides.every((step) => step === 0);
    const dy = repeated
      ? { value: given, distance: 0 }
      : rowsOf(lowering, node as Node, given, above.shape, inner);
    const index = indexRun(lowering, node as Node, at);
    const out = target ?? lowering.fresh(node.shape);
    lowering.launch({
      kernel: 'pick_backward',
      views: [
        flatView(out, rows, n * inner, n * inner),
        flatView(dy.value, dy.distance === 0 ? 1 : rows, inner, dy.distance || inner),
        flatView(index.value, rows, 1, index.step),
      ],
      writes: 1,
      wholes: [rows, n, inner, n * inner, whole(1, dy.distance), whole(2, index.step)],
      reals: [target ? 1 : 0],
      node: node as Node,
    });
    return out;
  },
  take(lowering, node) {
    const [from, at] = node.inputs as [Node, Node];
    const [n, d] = from.shape as [number, number];
    const rows = sizeOf(at.shape);
    const out = lowering.fresh(node.shape);
    const index = indexRun(lowering, node as Node, at);
    const table = rowsOf(lowering, node as Node, lowering.value(from), from.shape, d);
    lowering.launch({
      kernel: 'take_rows',
      views: [
        flatView(out, rows, d, d),
        flatView(table.value, n, d, table.distance),
        flatView(index.value, rows, 1, index.step),
      ],
      writes: 1,
      wholes: [rows, d, n, d, whole(1, table.distance), whole(2, index.step), 0],
      node: node as Node,
    });
    return out;
  },
  takeSlope(lowering, node, target) {
    const [above, at] = node.inputs as [Node, Node];
    const [n, d] = node.shape as [number, number];
    const rows = sizeOf(at.shape);
    const dy = rowsOf(lowering, node as Node, lowering.value(above), above.shape, d);
    const index = indexRun(lowering, node as Node, at);
    const out = target ?? lowering.fresh(node.shape);
    lowering.launch({
      kernel: 'take_rows_backward',
      views: [
        flatView(out, n, d, d),
        flatView(dy.value, rows, d, dy.distance),
        flatView(index.value, rows, 1, index.step),
      ],
      writes: 1,
      wholes: [rows, d, n, d, whole(1, dy.distance), whole(2, index.step)],
      reals: [target ? 1 : 0],
      node: node as Node,
    });
    return out;
  },
  categorical(lowering, node) {
    const [logits, uniform] = node.inputs as [Node, Node];
    const n = logits.shape.at(-1)!;
    return lowering.rowwise(
      node as Node,
      node.shape,
      [node.shape, logits.shape, node.shape],
      [lowering.value(logits), lowering.dense(node as Node, lowering.value(uniform), node.shape)],
      {
        kernel: 'categorical_draw',
        wholes: ({ rows }, stride) => [rows, n, stride(1)],
      },
    );
  },
  // merge() gives these the value of their first input.
  detach: (lowering, node) => lowering.value(node.inputs[0]!),
  custom: (lowering, node) => lowering.value(node.inputs[0]!),
  fused(lowering, node) {
    lowering.setTuple(node as Node, fusedLowerings[node.attributes.name](lowering, node));
    return null;
  },
  part: (lowering, node) => lowering.tuple(node.inputs[0]!)[node.attributes.index]!,
};

const pointwise = (lowering: Lowering, node: Node, call: Call): Value =>
  lowering.elementwise(
    node,
    node.inputs.map((input) => lowering.value(input)),
    node.inputs.map(({ shape }) => shape),
    call,
  );

const binaryLaunch = (lowering: Lowering, node: Node, op: number): Value =>
  pointwise(lowering, node, {
    kernel: 'binary',
    inPlace: [1, 2],
    wholes: stepped(2, op),
  });

/** Launches a kernel on rows whose operands all have the shape of the result. */
function alongRows(
  lowering: Lowering,
  node: Node,
  kernel: string,
  last: readonly number[],
  inPlace: readonly number[],
): Value {
  const n = node.shape.at(-1)!;
  return lowering.rowwise(
    node,
    node.shape.slice(0, -1),
    [node, ...node.inputs].map(({ shape }) => shape),
    node.inputs.map((input) => lowering.value(input)),
    {
      kernel,
      inPlace,
      wholes: ({ rows }, stride) => [
        rows,
        n,
        stride(0),
        ...node.inputs.map((_, i) => stride(i + 1)),
        ...last,
      ],
    },
  );
}

export const lowerings: Lowerings = { of, adders };
