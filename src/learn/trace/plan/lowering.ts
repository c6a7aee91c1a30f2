/**
 * Turns the ops of a trace into launches. Views (reshape, transpose, slice, broadcast) cost nothing:
 * the op that reads them gets their strides. If a kernel cannot read such strides, the value is
 * copied first.
 */
import { dtypes } from '../../../base/dtype.ts';
import { denseStrides, isDense, rowMajor } from '../../../device/strides.ts';
import { binaries, unaries } from '../../ops/elementwise.ts';
import { type Split, splitOf, splitWithCopies } from '../../ops/launches.ts';
import { strideOf } from '../../ops/operands.ts';
import { reductions } from '../../ops/rows.ts';
import { reshapedStrides, type Shape, sizeOf, spreadStrides } from '../shapes.ts';
import type { Node, NodeOfKind, OpName } from '../tape.ts';
import { type Buffer, type Launch, ROW, type View, type Whole } from './launches.ts';
import { type Merged, merge } from './merge.ts';

/** The elements of an expression in a buffer, from an offset on, with one stride per dimension. */
export interface Value {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly strides: readonly number[];
}

/** A launch before its operands have their offsets. */
interface Call {
  readonly kernel: string;
  readonly inPlace?: readonly number[];
  /** the kernel's whole numbers */
  wholes(split: Split, stride: (i: number) => Whole, steps: (i: number) => Whole[]): Whole[];
  readonly reals?: readonly number[];
  /** whether the kernel accepts steps of 0 */
  readonly repeats?: boolean;
}

/** A value to which an op adds its result, instead of writing a value of its own. */
type Target = Value | undefined;
type Lower<N> = (lowering: Lowering, node: N, target: Target) => Value | null;

/** Numbers of the ops of `binary_backward`. native/kernels/binary.gk has the same numbers. */
const binarySlopes = { min: 0, max: 1, div: 2, huber: 3 } as const;

/** A sum of more elements than this takes two launches, so that a device adds in parallel. */
const LONG_SUM = 1024;

/** Lowers the ops of a trace in program order. */
export class Lowering {
  readonly launches: Launch[] = [];
  readonly merged: Merged;
  /** values of the plan's constants, in order */
  readonly constants: number[] = [];
  readonly #cells = new Map<string, number>();
  readonly #constants: Buffer = { ...buffer('constants', 0), output: true };
  readonly #inputs = new Map<string, Buffer>();
  readonly #values = new Map<Node, Value>();
  readonly #tuples = new Map<Node, readonly Value[]>();
  readonly #uses = new Map<Node, number>();
  /** the only op that reads an op's value */
  readonly #reader = new Map<Node, Node>();

  constructor(outputs: readonly Node[]) {
    this.merged = merge(outputs);
    const { nodes, of } = this.merged;
    const count = (node: Node) => this.#uses.set(node, (this.#uses.get(node) ?? 0) + 1);
    for (const node of nodes)
      for (const input of node.inputs) {
        count(of(input));
        this.#reader.set(of(input), node);
      }
    for (const output of outputs) count(of(output));
    for (const node of nodes) this.#lower(node);
  }

  /** Returns where the value of an op is. */
  value(node: Node): Value {
    return this.#values.get(this.merged.of(node)) as Value;
  }
  tuple(node: Node): readonly Value[] {
    return this.#tuples.get(this.merged.of(node)) as readonly Value[];
  }

  #lower(node: Node): void {
    const inputs = node.inputs.map((input) => this.merged.of(input));
    const uses = this.#uses.get(node) ?? 0;
    if (this.#values.has(node)) return; // an earlier op has added its result to this one
    const lower = lowerings[node.op] as Lower<Node>;
    const target = this.#target(node);
    const added = target && adders.has(node.op) ? lower(this, node, target) : null;
    const value = added ?? (lower(this, node, undefined) as Value);
    this.#values.set(node, value);
    for (const input of inputs) {
      const read = this.#values.get(input);
      if (read) read.buffer.readers--;
    }
    value.buffer.readers += uses;
    if (!added) return;
    const sum = this.#reader.get(node) as Node;
    this.#values.set(sum, value);
    // The sum has read both of its operands.
    value.buffer.readers += (this.#uses.get(sum) ?? 0) - 2;
  }

  /**
   * Returns the value to which `node` can add its result, or undefined. The value is the first
   * operand of a sum whose second operand is `node`. No other op reads the two operands any more.
   */
  #target(node: Node): Target {
    const sum = this.#reader.get(node);
    if (sum?.op !== 'accumulate' || this.#uses.get(node) !== 1) return undefined;
    const first = this.merged.of(sum.inputs[0]!);
    const value = this.#values.get(first);
    if (first === node || !value) return undefined;
    const { buffer, offset, strides } = value;
    const whole =
      buffer.kind === 'arena' &&
      offset === 0 &&
      buffer.size === sizeOf(sum.shape) &&
      isDense(sum.shape, strides);
    return whole && buffer.readers === 1 && this.#uses.get(first) === 1 ? value : undefined;
  }

  /** Returns new memory for a dense value. */
  fresh(shape: Shape): Value {
    return { buffer: buffer('arena', sizeOf(shape)), offset: 0, strides: denseStrides(shape) };
  }
  input(node: NodeOfKind<'input'>): Buffer {
    const { name, dtype } = node.attributes;
    const known = this.#inputs.get(name) ?? { ...buffer('input', 0), name, dtype };
    this.#inputs.set(name, known);
    return known;
  }
  /** Returns one number as a value that repeats it over a shape. */
  cell(value: number, shape: Shape): Value {
    const key = Object.is(value, -0) ? '-0' : String(value);
    const at = this.#cells.get(key) ?? this.constants.push(value) - 1;
    this.#cells.set(key, at);
    return { buffer: this.#constants, offset: at, strides: shape.map(() => 0) };
  }
  constant(values: Float32Array, shape: Shape): Value {
    const offset = this.constants.length;
    for (const value of values) this.constants.push(value);
    return { buffer: this.#constants, offset, strides: denseStrides(shape) };
  }

  launch(launch: Omit<Launch, 'inPlace' | 'reals'> & Partial<Launch>): void {
    this.launches.push({ inPlace: [], reals: [], ...launch });
  }

  /** Returns the value if it is dense, else a dense copy. */
  dense(node: Node, value: Value, shape: Shape): Value {
    return isDense(shape, value.strides) ? value : this.copied(node, value, shape);
  }
  /** Returns a dense copy of a value that is read with these strides over `shape`. */
  copied(node: Node, value: Value, shape: Shape): Value {
    const out = this.fresh(shape);
    this.copyTo(node, out, value, shape);
    return out;
  }

  /** Copies a value of `shape`, or adds it with `beta` 1. */
  copyTo(node: Node, to: Value, from: Value, shape: Shape, beta = 0): void {
    if (
      from.buffer.kind === 'constants' &&
      from.strides.every((step, d) => step === 0 || shape[d] === 1)
    ) {
      if (beta === 0 && to.buffer.size === sizeOf(shape)) {
        this.fill(node, to, shape, this.constants[from.offset]!);
        return;
      }
    }
    const call: Call = {
      kernel: 'copy2d',
      inPlace: [],
      wholes: ({ rows, columns }, stride) => [rows, columns, stride(0), stride(1)],
    };
    const split = splitOf(shape, [to.strides, from.strides]);
    if (beta === 0 && split.launches === 1) this.#each(node, call, split, [to, from]);
    else {
      const ends = (strides: readonly number[]): number[] => [
        ...new Array<number>(4 - shape.length).fill(0),
        ...strides.map((stride, d) => (shape[d] === 1 ? 0 : stride)),
      ];
      const flat = (value: Value, strides: readonly number[]): View => ({
        buffer: value.buffer,
        // The lowest address: a dimension with a negative stride begins at its end.
        offset: strides.reduce(
          (at, step, d) => at + Math.min(0, step * (shape[d]! - 1)),
          value.offset,
        ),
        shape,
        strides: strides.map((step, d) => (shape[d] === 1 ? 0 : Math.abs(step))),
        flat: true,
      });
      const lengths = [...new Array<number>(4 - shape.length).fill(1), ...shape];
      this.launch({
        kernel: 'copy4d',
        views: [flat(to, to.strides), flat(from, from.strides)],
        writes: 1,
        wholes: [
          ...lengths,
          ...ends(to.strides),
          ...ends(from.strides).map((stride) => whole(1, stride)),
        ],
        reals: [beta],
        node,
      });
    }
  }
  fill(node: Node, to: Value, shape: Shape, value: number): void {
    const views = [{ buffer: to.buffer, offset: to.offset, shape, strides: rowMajor(shape) }];
    this.launch({ kernel: 'fill', views, writes: 1, wholes: [], reals: [value], node });
  }

  /** Launches an elementwise kernel. Its operands broadcast to the op's shape. */
  elementwise(node: Node, values: readonly Value[], shapes: readonly Shape[], call: Call): Value {
    const { shape } = node;
    const out = this.fresh(shape);
    const { repeats = true } = call;
    const spread = (value: Value, i: number): Value => ({
      ...value,
      strides: spreadStrides(shapes[i]!, value.strides, shape),
    });
    const operands = values.map(spread);
    const { split, copied } = splitWithCopies(
      shape,
      [out, ...operands].map(({ strides }) => strides),
      { repeats },
    );
    const read = operands.map((value, i) =>
      copied.includes(i + 1) ? this.copied(node, value, shape) : value,
    );
    this.#each(node, call, split, [out, ...read]);
    return out;
  }

  /**
   * Launches a kernel that computes rows. `shapes` has the shapes of the result and of each operand:
   * `places`, followed by the number of elements of a row unless each row has one element.
   */
  rowwise(
    node: Node,
    places: Shape,
    shapes: readonly Shape[],
    values: readonly Value[],
    call: Call,
  ): Value {
    const out = this.fresh(shapes[0]!);
    const rank = places.length;
    const widths = shapes.map((shape) => shape[rank] ?? 1);
    const splitting = (list: readonly Value[], among: readonly number[]) =>
      splitOf(
        places,
        list.map(({ strides }) => strides.slice(0, rank)),
        { columns: widths[0]!, widths: among },
      );
    // A kernel takes one distance between rows, so broadcast rows and others are copied.
    let operands = values.map((value, i) => {
      const width = widths[i + 1]!;
      const fits =
        (width === 1 || value.strides[rank] === 1) &&
        splitting([out, value], [widths[0]!, width]).launches === 1;
      return fits ? value : this.copied(node, value, shapes[i + 1]!);
    });
    if (splitting([out, ...operands], widths).launches > 1)
      operands = operands.map((value, i) => this.dense(node, value, shapes[i + 1]!));
    this.#each(node, call, splitting([out, ...operands], widths), [out, ...operands]);
    return out;
  }

  #each(node: Node, call: Call, split: Split, operands: readonly Value[]): void {
    const { rows, steps, widths } = split;
    const stride = (i: number): Whole => whole(i, strideOf(steps[i]!, widths[i]!));
    const both = (i: number): Whole[] => [whole(i, steps[i]![0]), steps[i]![1]];
    split.each((offsets) => {
      const views = operands.map(({ buffer, offset }, i): View => {
        const down = steps[i]![0];
        return {
          buffer,
          offset: offset + offsets[i]!,
          shape: [down === 0 ? 1 : rows, widths[i]!],
          strides: [down || widths[i]!, 1],
        };
      });
      this.launch({
        kernel: call.kernel,
        views,
        writes: 1,
        inPlace: call.inPlace ?? [],
        wholes: call.wholes(split, stride, both),
        reals: call.reals ?? [],
        node,
      });
    });
  }
}

function buffer(kind: Buffer['kind'], size: number): Buffer {
  return { kind, size, name: '', dtype: 'float32', output: false, readers: 0 };
}

/** Returns a stride as a whole number of a launch. Strides of inputs are known at emission. */
const whole = (of: number, stride: number): Whole =>
  Math.abs(stride) >= ROW / 2 ? { of, stride } : stride;

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

const reduceCall = (f: keyof typeof reductions, scale: number): Call => ({
  kernel: 'reduce_rows',
  wholes: ({ rows }, stride) => [rows, 0, stride(0), stride(1), reductions[f]],
  reals: [scale],
});

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
    if (scale === 1) return { ...x, strides: outer };
  }
  if (f === 'sum' && n > 1 && step !== 1 && step >= size && isDense(places, outer)) {
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
  const call = (columns: number, factor: number): Call => {
    const base = reduceCall(f, factor);
    return {
      ...base,
      wholes: (split, stride, steps) => base.wholes(split, stride, steps).with(1, columns),
    };
  };
  const piece = size === 1 && /^(sum|max|min)$/.test(f) ? pieceOf(n) : 0;
  if (piece > 0) {
    const dense = lowering.dense(of, x, input.shape);
    const row = { ...dense, strides: [piece, 1] };
    const count = n / piece;
    const parts = lowering.rowwise(of, [count], [[count], [count, piece]], [row], call(piece, 1));
    const result = lowering.rowwise(of, [], [[], [count]], [parts], call(count, scale));
    return { ...result, strides: places.map(() => 0) };
  }
  return lowering.rowwise(of, places, [places, input.shape], [x], call(n, scale));
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

const flatView = (
  { buffer, offset }: Value,
  rows: number,
  columns: number,
  distance: number,
): View => ({ buffer, offset, shape: [rows, columns], strides: [distance, 1] });

/** Returns a value as rows of `columns` contiguous elements with a constant distance. */
function rowsOf(
  lowering: Lowering,
  node: Node,
  given: Value,
  shape: Shape,
  columns: number,
): { value: Value; distance: number } {
  const rows = sizeOf(shape) / columns;
  const form = (value: Value) => {
    const strides = reshapedStrides(shape, value.strides, [rows, columns]);
    if (!strides || (columns > 1 && strides[1] !== 1)) return null;
    if (rows > 1 && strides[0]! < columns) return null;
    return { value, distance: rows === 1 ? columns : strides[0]! };
  };
  return form(given) ?? { value: lowering.copied(node, given, shape), distance: columns };
}

const viewed = (value: Value, strides: readonly number[], offset = 0): Value => ({
  ...value,
  offset: value.offset + offset,
  strides,
});

/** Ops that can add their result to a gradient where it is. */
const adders: ReadonlySet<OpName> = new Set(['reduce', 'pad', 'matmul', 'pickSlope', 'takeSlope']);

const lowerings: { readonly [K in OpName]: Lower<NodeOfKind<K>> } = {
  input(lowering, node) {
    const { shape, attributes } = node;
    const { contiguous } = attributes;
    const buffer = lowering.input(node);
    const strides = denseStrides(shape).map((stride, d) =>
      d === 0 && shape[0]! > 1 ? ROW : stride,
    );
    if (attributes.dtype === 'float32') return { buffer, offset: 0, strides };
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
      reals: [1, 0],
      node: node as Node,
    });
    return out;
  },
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
      wholes: ({ rows, columns }, stride) => [
        rows,
        columns,
        stride(0),
        stride(1),
        unaries[node.attributes.f],
      ],
    }),
  unarySlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'unary_backward',
      inPlace: [1, 2],
      repeats: false,
      wholes: ({ rows, columns }, stride) => [
        rows,
        columns,
        stride(0),
        stride(1),
        stride(2),
        unaries[node.attributes.f],
      ],
    }),
  binary: (lowering, node) => binaryLaunch(lowering, node as Node, binaries[node.attributes.f]),
  accumulate: (lowering, node) => binaryLaunch(lowering, node as Node, binaries.add),
  binarySlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'binary_backward',
      inPlace: [1, 2, 3],
      wholes: ({ rows, columns }, stride, steps) => [
        rows,
        columns,
        stride(0),
        ...steps(1),
        ...steps(2),
        ...steps(3),
        binarySlopes[node.attributes.f],
      ],
    }),
  where: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'where',
      inPlace: [1, 2, 3],
      wholes: ({ rows, columns }, stride, steps) => [
        rows,
        columns,
        stride(0),
        ...steps(1),
        ...steps(2),
        ...steps(3),
      ],
    }),
  clamp: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'clip',
      inPlace: [1],
      repeats: false,
      wholes: ({ rows, columns }, stride) => [rows, columns, stride(0), stride(1)],
      reals: [node.attributes.low, node.attributes.high],
    }),
  clampSlope: (lowering, node) =>
    pointwise(lowering, node as Node, {
      kernel: 'clip_backward',
      inPlace: [1, 2],
      repeats: false,
      wholes: ({ rows, columns }, stride) => [rows, columns, stride(0), stride(1), stride(2)],
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
    const out = target ?? lowering.fresh(node.shape);
    if (!target) lowering.fill(node as Node, out, node.shape, 0);
    const region = viewed(out, out.strides, before * out.strides[axis]!);
    lowering.copyTo(node as Node, region, lowering.value(input), input.shape, target ? 1 : 0);
    return out;
  },
  concat(lowering, node) {
    const out = lowering.fresh(node.shape);
    const step = out.strides[node.attributes.axis]!;
    let at = 0;
    for (const part of node.inputs) {
      lowering.copyTo(node as Node, viewed(out, out.strides, at), lowering.value(part), part.shape);
      at += part.shape[node.attributes.axis]! * step;
    }
    return out;
  },
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
  fused: () => null,
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
    wholes: ({ rows, columns }, stride, steps) => [
      rows,
      columns,
      stride(0),
      ...steps(1),
      ...steps(2),
      op,
    ],
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
