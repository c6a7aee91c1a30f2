/**
 * Turns the ops of a trace into launches. Views (reshape, transpose, slice, broadcast) cost nothing:
 * the op that reads them gets their strides. If a kernel cannot read such strides, the value is
 * copied first.
 */
import type { ProductRules } from '../../../device/products.ts';
import { denseStrides, isDense, rowMajor } from '../../../device/strides.ts';
import { type Split, splitOf, splitWithCopies } from '../../ops/launches.ts';
import { strideOf } from '../../ops/operands.ts';
import { reshapedStrides, type Shape, sizeOf, spreadStrides } from '../shapes.ts';
import { memoryOf, type Node, type NodeOfKind, type OpName } from '../tape.ts';
import {
  type Buffer,
  type Launch,
  type LaunchResult,
  type NetworkPass,
  ROW,
  type Value,
  type View,
  type Whole,
} from './launches.ts';
import { type Demand, type Merged, merge } from './merge.ts';

/** A launch before its operands have their offsets. */
export interface Call {
  readonly kernel: string;
  readonly inPlace?: readonly number[];
  /** the kernel's whole numbers */
  wholes(split: Split, stride: (i: number) => Whole, steps: (i: number) => Whole[]): Whole[];
  readonly reals?: readonly number[];
  /** whether the kernel accepts steps of 0 */
  readonly repeats?: boolean;
}

/** Whole number of `squashed_gaussian` and `squashed_gaussian_rows` with the stride of actions. */
const SQUASHED_STRIDE = 2;
/** Largest number of elements of a constant that a plan writes out, instead of filling or copying it. */
const MAX_WRITTEN = 2 ** 16;
/** Largest number of elements of all constants with which a plan writes out another one. */
const MAX_CONSTANTS = 2 ** 20;

/** The place of a smaller value in a larger one: the shape of the larger one, and the first offset. */
interface Region {
  readonly shape: Shape;
  readonly offset: number;
}

/** A dense copy of a value, and the section that makes it. */
interface Copy {
  readonly value: Value;
  readonly section: number;
}

/** A part of a concatenation. */
export interface Part {
  readonly node: Node;
  readonly shape: Shape;
  readonly value: Value;
  /** offset of the part's first element in the result */
  readonly offset: number;
}

/** A concatenation in memory of its own. */
export interface Concatenation {
  readonly section: number;
  readonly shape: Shape;
  readonly value: Value;
  readonly parts: readonly Part[];
}

/** A value to which an op adds its result, instead of writing a value of its own. */
export type Target = Value | undefined;
export type Lower<N> = (lowering: Lowering, node: N, target: Target) => Value | null;
/** How each op becomes launches. */
export interface Lowerings {
  readonly of: { readonly [K in OpName]: Lower<NodeOfKind<K>> };
  /** ops that can add their result to a gradient where it is */
  readonly adders: ReadonlySet<OpName>;
}

/** Lowers the ops of a trace in program order. */
export class Lowering {
  readonly launches: Launch[] = [];
  readonly #lowerings: Lowerings;
  readonly merged: Merged;
  /** values of the plan's constants, in order */
  readonly constants: number[] = [];
  readonly #cells = new Map<string, number>();
  readonly #constants: Buffer = { ...buffer('constants', 0), output: true };
  readonly #inputs = new Map<string, Buffer>();
  readonly #values = new Map<Node, Value>();
  readonly #tuples = new Map<Node, readonly Value[]>();
  /** dense copies of the values in a buffer and their sections, by offset, shape and strides */
  readonly #copies = new Map<Buffer, Map<string, Copy>>();
  /** concatenations whose memory still has their values */
  readonly concatenations = new Map<Buffer, Concatenation>();
  /** constants that are written out, by what they repeat and where */
  readonly #written = new Map<string, Value>();
  readonly #uses = new Map<Node, number>();
  /** the ops that read an op's value, in order */
  readonly #readers = new Map<Node, Node[]>();
  /** the results of the plan */
  readonly #outputs = new Set<Node>();
  readonly #memory = new Map<Node, Buffer>();
  readonly #passes = new Map<Node, NetworkPass>();
  /** the parts of ops with several results that the plan needs */
  readonly #parts = new Map<Node, Set<number>>();
  #section = 0;
  /** index of the first launch of the section */
  #sectionStart = 0;
  /** the section whose launches use a buffer first */
  readonly #firstUse = new Map<Buffer, number>();
  /** the views of memory that have values */
  readonly #views = new Set<Node>();

  /** how the device multiplies */
  readonly rules: ProductRules;
  /** whether sums of few members and long sums take fewer launches */
  readonly heads: boolean;

  constructor(
    sections: readonly Demand[],
    lowerings: Lowerings,
    rules: ProductRules,
    heads: boolean,
  ) {
    this.#lowerings = lowerings;
    this.rules = rules;
    this.heads = heads;
    this.merged = merge(sections);
    const { nodes, of } = this.merged;
    const count = (node: Node) => this.#uses.set(node, (this.#uses.get(node) ?? 0) + 1);
    for (const node of nodes)
      for (const input of node.inputs) {
        count(of(input));
        const readers = this.#readers.get(of(input)) ?? [];
        this.#readers.set(of(input), readers);
        readers.push(node);
      }
    for (const { outputs } of sections)
      for (const output of outputs) {
        count(of(output));
        this.#outputs.add(of(output));
      }
    for (const node of nodes)
      if (node.op === 'part') {
        const whole = of(node.inputs[0]!);
        const indices = this.#parts.get(whole) ?? new Set();
        this.#parts.set(whole, indices.add(node.attributes.index));
      }
    for (const node of nodes) {
      const section = this.merged.sectionOf(node);
      while (this.#section < section) this.#endSection(sections[this.#section++] as Demand);
      this.#lower(node);
    }
    while (this.#section < sections.length - 1)
      this.#endSection(sections[this.#section++] as Demand);
  }

  /** Forgets copies of memory that changes after a section, and views, which may be copies. */
  #endSection({ changes }: Demand): void {
    this.#sectionStart = this.launches.length;
    for (const memory of changes ?? []) {
      const buffer = this.#memory.get(memory);
      if (buffer) this.#copies.delete(buffer);
    }
    this.#forgetViews();
  }
  /** Forgets views of memory, so that each section makes the copies of them that it needs. */
  #forgetViews(): void {
    for (const node of this.#views) this.#values.delete(node);
    this.#views.clear();
  }
  #setValue(node: Node, value: Value): void {
    this.#values.set(node, value);
    if (node.op !== 'memory' && memoryOf(node)) this.#views.add(node);
  }

  /** Returns where the value of an op is. */
  value(given: Node): Value {
    const node = this.merged.of(given);
    const known = this.#values.get(node);
    if (known) return known;
    // A view of memory in a later section. Some of its readers may have read it before.
    const value = (this.#lowerings.of[node.op] as Lower<Node>)(this, node, undefined) as Value;
    this.#setValue(node, value);
    value.buffer.readers += this.#uses.get(node) ?? 0;
    return value;
  }
  /** Returns whether the value of an op has memory already. */
  has(node: Node): boolean {
    return this.#values.has(this.merged.of(node));
  }
  /** Returns the value of an op as rows of contiguous elements. */
  rows(node: Node, of: Node): { value: Value; distance: number } {
    return rowsOf(this, node, this.value(of), of.shape, of.shape[1] as number);
  }
  /** Keeps the values of a concatenation's parts, which its readers read where they are. */
  readApart(node: Node): void {
    for (const input of node.inputs) this.value(input).buffer.readers++;
  }
  /** Returns the ops that read an op's value, or null if the value is also a result of the plan. */
  readersOf(node: Node): readonly Node[] | null {
    return this.#outputs.has(node) ? null : (this.#readers.get(node) ?? []);
  }
  /** Whether an op needs part `index` of an op with several results. */
  wants(node: Node, index: number): boolean {
    return this.#parts.get(node)?.has(index) ?? false;
  }
  /** Returns the memory of a network's forward pass. */
  pass(node: Node): NetworkPass {
    return this.#passes.get(this.merged.of(node)) as NetworkPass;
  }
  setPass(node: Node, pass: NetworkPass): void {
    this.#passes.set(node, pass);
  }
  /** Returns the values of the results of a fused op. */
  tuple(node: Node): readonly Value[] {
    return this.#tuples.get(this.merged.of(node)) as readonly Value[];
  }
  setTuple(node: Node, values: readonly Value[]): void {
    this.#tuples.set(node, values);
  }

  /** Sets the value of a later op that the launches of this one compute too. */
  setEarly(node: Node, value: Value): void {
    this.#setValue(node, value);
    value.buffer.readers += this.#uses.get(node) ?? 0;
  }
  /** Sets the value of an op that the launch of its operand computes too. */
  setResult(node: Node, value: Value): void {
    this.#setValue(node, value);
    // The op no longer reads its operand.
    value.buffer.readers += (this.#uses.get(node) ?? 0) - 1;
  }

  #lower(node: Node): void {
    const inputs = node.inputs.map((input) => this.merged.of(input));
    const uses = this.#uses.get(node) ?? 0;
    if (this.#values.has(node)) return; // an earlier op has computed this one, too
    const lower = this.#lowerings.of[node.op] as Lower<Node>;
    const target = this.#target(node);
    const added = target && this.#lowerings.adders.has(node.op) ? lower(this, node, target) : null;
    const value = added ?? lower(this, node, undefined);
    for (const input of inputs) {
      const read = this.#values.get(input);
      if (read) read.buffer.readers--;
    }
    // A fused op has a tuple of values, which its parts read.
    if (value === null) return;
    this.#setValue(node, value);
    value.buffer.readers += uses;
    if (!added) return;
    this.forget(value.buffer);
    const [sum] = this.#readers.get(node) as [Node];
    this.#setValue(sum, value);
    // The sum has read both of its operands.
    value.buffer.readers += (this.#uses.get(sum) ?? 0) - 2;
  }

  /**
   * Returns the value to which `node` can add its result, or undefined. The value is the first
   * operand of a sum whose second operand is `node`. No other op reads the two operands any more.
   */
  #target(node: Node): Target {
    const [sum] = this.#readers.get(node) ?? [];
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
  memory(node: NodeOfKind<'memory'>): Buffer {
    const { tensor, name } = node.attributes;
    const { dtype } = tensor;
    const known = this.#memory.get(node as Node) ?? { ...buffer('memory', 0), name, dtype, tensor };
    this.#memory.set(node as Node, known);
    return known;
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

  launch(launch: Omit<Launch, 'inPlace' | 'reals' | 'section'> & Partial<Launch>): void {
    const section = this.#section;
    this.launches.push({ inPlace: [], reals: [], section, ...launch });
    for (const { buffer } of launch.views)
      if (!this.#firstUse.has(buffer)) this.#firstUse.set(buffer, section);
  }
  /** Enqueues the launches of a layer, which writes the first `writes` views. */
  call(
    node: Node,
    name: string,
    views: readonly View[],
    writes: number,
    results: readonly LaunchResult[],
    call: NonNullable<Launch['call']>,
  ): void {
    this.launch({ kernel: name, views, writes, results, wholes: [], node, call });
  }

  /**
   * Returns rows of contiguous elements that a launch may overwrite: the value itself if only this op
   * still reads it, else a copy.
   */
  spent(node: Node, value: Value, shape: Shape): Value {
    const { buffer } = value;
    if (buffer.kind !== 'arena' || buffer.readers > 1 || !isDense(shape, value.strides)) {
      const out = this.fresh(shape);
      this.copyTo(node, out, value, shape);
      return out;
    }
    this.forget(buffer);
    return value;
  }

  /** Returns the value if it is dense, else a dense copy. */
  dense(node: Node, value: Value, shape: Shape): Value {
    return isDense(shape, value.strides) ? value : this.copied(node, value, shape);
  }
  /**
   * Returns a dense copy of a value that is read with these strides over `shape`. Ops that need the
   * same copy share it, if its section runs whenever theirs does.
   */
  copied(node: Node, value: Value, shape: Shape): Value {
    const key = `${value.offset} ${shape} ${value.strides}`;
    const copies = this.#copies.get(value.buffer) ?? new Map<string, Copy>();
    this.#copies.set(value.buffer, copies);
    const known = copies.get(key);
    if (known && this.merged.serves(known.section, this.#section)) return known.value;
    const constant = this.writtenOut(value, shape);
    if (constant) return constant;
    const out = this.fresh(shape);
    const before = this.launches.length;
    this.copyTo(node, out, value, shape);
    copies.set(key, { value: out, section: this.#section });
    // The copy of a column of a batch comes first, so that it is not between the steps of a chain.
    if (value.buffer.kind === 'input' && shape.length === 1)
      this.launches.splice(this.#sectionStart, 0, ...this.launches.splice(before));
    return out;
  }
  /**
   * Returns a dense constant with the elements of a value of `shape`, so that a run does not fill or
   * copy them. Returns null if the value is not constant or has too many elements.
   *
   * @param region where the elements are in the constant. Its other elements are 0
   */
  writtenOut(
    { buffer, offset, strides }: Value,
    shape: Shape,
    region: Region = { shape, offset: 0 },
  ): Value | null {
    if (buffer !== this.#constants || sizeOf(region.shape) > MAX_WRITTEN) return null;
    const key = `${offset} ${shape} ${strides} ${region.shape} ${region.offset}`;
    const known = this.#written.get(key);
    if (known) return known;
    if (this.constants.length + sizeOf(region.shape) > MAX_CONSTANTS) return null;
    const elements = new Float32Array(sizeOf(region.shape));
    const [from, to] = [rowMajor(shape), rowMajor(region.shape)];
    for (let i = 0; i < sizeOf(shape); i++) {
      let [at, place] = [offset, region.offset];
      for (const [d, step] of from.entries()) {
        const index = Math.floor(i / step) % shape[d]!;
        at += index * strides[d]!;
        place += index * to[d]!;
      }
      elements[place] = this.constants[at]!;
    }
    const value = this.constant(elements, region.shape);
    this.#written.set(key, value);
    return value;
  }
  /**
   * Returns a constant whose elements are repeated over `shape` as a dense constant, so that a run
   * does not copy it. Leading dimensions that only repeat it stay repeated.
   */
  #repeated(value: Value, shape: Shape): Value {
    const from = value.strides.findIndex((step) => step !== 0);
    if (from < 0) return value;
    const inner = { ...value, strides: value.strides.slice(from) };
    const known = this.writtenOut(inner, shape.slice(from));
    const leading = new Array<number>(Math.max(from, 0)).fill(0);
    return known ? { ...known, strides: [...leading, ...known.strides] } : value;
  }
  /** Adds the launches that follow to a section. */
  enter(section: number): void {
    if (section === this.#section) return;
    this.#section = section;
    // Other sections may have copied memory before it changed, or may not run.
    this.#copies.clear();
    this.#forgetViews();
  }
  /** Returns a dense copy of a result. */
  kept(node: Node, value: Value): Value {
    const out = this.fresh(node.shape);
    this.copyTo(node, out, value, node.shape);
    return out;
  }
  /** Returns the index of the last launch that uses a buffer, or −1. */
  lastUse(buffer: Buffer): number {
    return this.launches.findLastIndex(({ views }) => views.some((view) => view.buffer === buffer));
  }
  /**
   * Returns whether moved() can write a value to a part of a larger value. It cannot if something else
   * reads the value, or if the kernel of the launches cannot write it there.
   *
   * @param strides of the larger value
   * @param after index of the last launch that must be before the launches
   */
  movable(from: Value, strides: readonly number[], shape: Shape, after: number): boolean {
    const { buffer } = from;
    const whole = buffer.kind === 'arena' && buffer.size === sizeOf(shape) && from.offset === 0;
    if (!whole || buffer.readers !== 1 || !isDense(shape, from.strides)) return false;
    if ((this.#firstUse.get(buffer) ?? this.#section) !== this.#section) return false;
    const users = this.#usersOf(buffer);
    if (users.some((i) => i <= after)) return false;
    return (
      isDense(shape, strides) ||
      (users.length === 1 && this.#writesRows(users[0]!, buffer, strides, shape))
    );
  }
  /** Returns the indices of the section's launches that use a buffer. */
  #usersOf(buffer: Buffer): number[] {
    const users: number[] = [];
    for (let i = this.#sectionStart; i < this.launches.length; i++)
      if (this.launches[i]!.views.some((view) => view.buffer === buffer)) users.push(i);
    return users;
  }
  /**
   * Lets the launches that compute a value write it to a part of a larger value instead. Returns false
   * if they are not movable().
   *
   * @param to the part, in the memory of the larger value
   */
  moved(from: Value, to: Value, shape: Shape, after: number): boolean {
    if (!this.movable(from, to.strides, shape, after)) return false;
    const { buffer } = from;
    const users = this.#usersOf(buffer);
    this.forget(buffer);
    if (!isDense(shape, to.strides)) {
      this.#writeRows(users[0]!, to, shape);
      return true;
    }
    for (const i of users) {
      const launch = this.launches[i]!;
      const views = launch.views.map((view) =>
        view.buffer === buffer
          ? { ...view, buffer: to.buffer, offset: view.offset + to.offset }
          : view,
      );
      this.launches[i] = { ...launch, views };
    }
    return true;
  }
  /** Returns whether the kernel of a launch has a stride for its first result, which fits a part. */
  #writesRows(at: number, buffer: Buffer, strides: readonly number[], shape: Shape): boolean {
    const { kernel, views } = this.launches[at]!;
    const [columns, stride] = [shape[1]!, strides[0]!];
    return (
      /^squashed_gaussian(_rows)?$/.test(kernel) &&
      views[0]!.buffer === buffer &&
      shape.length === 2 &&
      (columns === 1 || strides[1] === 1) &&
      stride >= columns
    );
  }
  /** Lets a launch whose kernel has a stride for its first result write that result apart. */
  #writeRows(at: number, to: Value, shape: Shape): void {
    const launch = this.launches[at]!;
    const [rows, columns] = shape as [number, number];
    const [stride] = to.strides as [number];
    const own = flatView(to, rows, columns, stride);
    const wholes = launch.wholes.with(SQUASHED_STRIDE, stride);
    this.launches[at] = { ...launch, views: [own, ...launch.views.slice(1)], wholes };
  }
  /** Forgets copies of memory that a launch overwrites, and values that are in this memory. */
  forget(buffer: Buffer): void {
    this.#copies.delete(buffer);
    this.concatenations.delete(buffer);
    for (const copies of this.#copies.values())
      for (const [key, { value }] of copies) if (value.buffer === buffer) copies.delete(key);
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
    let operands = values.map(spread);
    const splitting = (all: readonly Value[]) =>
      splitWithCopies(
        shape,
        [out, ...all].map(({ strides }) => strides),
        { repeats },
      );
    // A column of a batch that is broadcast is copied once, because its elements lie apart.
    if (splitting(operands).split.launches > 1)
      operands = values.map((value, i) =>
        spread(value.buffer.kind === 'input' ? this.dense(node, value, shapes[i]!) : value, i),
      );
    let { split, copied } = splitting(operands);
    if (repeats && copied.some((i) => operands[i - 1]!.buffer === this.#constants)) {
      const written = operands.map((value, i) =>
        copied.includes(i + 1) ? this.#repeated(value, shape) : value,
      );
      const after = splitting(written);
      if (after.split.launches + after.copied.length < split.launches + copied.length) {
        operands = written;
        ({ split, copied } = after);
      }
    }
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
  return { kind, size, name: '', dtype: 'float32', tensor: null, output: false, readers: 0 };
}

/** Returns a stride as a whole number of a launch. Strides of inputs are known at emission. */
export const whole = (of: number, stride: number): Whole =>
  Math.abs(stride) >= ROW / 2 ? { of, stride } : stride;

/** Returns a view of rows of contiguous elements, from the start of a value. */
export const flatView = (
  { buffer, offset }: Value,
  rows: number,
  columns: number,
  distance: number,
): View => ({ buffer, offset, shape: [rows, columns], strides: [distance, 1] });

/** Returns a value as rows of `columns` contiguous elements with a constant distance. */
export function rowsOf(
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
