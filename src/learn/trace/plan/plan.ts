/** A plan: the launches and the memory of a trace, made once. Emitting it only launches kernels. */
import { closedError } from '../../../base/errors.ts';
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import type { DeviceGenerator } from '../../../device/graph/generator.ts';
import { type ProductRules, productRulesOf } from '../../../device/products.ts';
import { type OpLabel, WatchedStream } from '../../non-finite.ts';
import { shown } from '../shapes.ts';
import type { Node } from '../tape.ts';
import { chained } from './chains.ts';
import { CountedStream } from './counted-stream.ts';
import { longest } from './depth.ts';
import { type Drawn, enqueueDraw, isDraw, lastDraw, withJoinedDraws } from './draws.ts';
import { withHeads } from './heads.ts';
import {
  type Bound,
  bindStep,
  boundInputs,
  type DeclaredInput,
  type InputStep,
  inputsOf,
  overlap,
  seen,
} from './inputs.ts';
import {
  describeLaunch,
  describeOps,
  differentiatedOf,
  linesOf,
  nodesOf,
  readersOfInfinity,
} from './labels.ts';
import {
  dependenciesIn,
  type LanePlan,
  type LaneUse,
  laneUseOn,
  type SectionWaits,
  SideStream,
  waitsIn,
} from './lanes.ts';
import { arranged, type PlannedSum } from './late-sums.ts';
import type { Buffer, Launch, LayerPlace, Value, View } from './launches.ts';
import { Lowering } from './lowering.ts';
import type { Layout } from './memory.ts';
import type { Merged } from './merge.ts';
import { lowerings } from './op-lowerings.ts';
import { keep, type SectionResult, usersOf } from './results.ts';

type Floats = Tensor<'float32'>;

/** Options of a plan that only tests set. */
export interface PlanOptions {
  /** whether memory that no launch reads any more is filled with NaN, default false */
  readonly poison?: boolean;
  /** whether elementwise launches are joined into chains, default true */
  readonly chains?: boolean;
  /** whether draws, targets, losses and long sums are joined into fewer launches, default true */
  readonly heads?: boolean;
  /** how the device multiplies matrices. Default: the rules of the device */
  readonly products?: ProductRules;
  /** when captures use a side stream. Default: where the estimate says that it pays */
  readonly lanes?: LaneUse;
  /** whether sums that only a report needs are launched together, at the end. Default true */
  readonly late?: boolean;
}

/** A result of a plan. */
export interface Output {
  readonly node: Node;
  /** contiguous memory that receives the result. Default: memory of the plan */
  readonly into?: Floats;
  /** whether only a report reads the result, so that it may be computed after all sections */
  readonly reported?: boolean;
}

/** Results that a plan computes together. The sections run in order, and each may be skipped. */
export interface Section {
  readonly outputs: readonly Output[];
  /** ops that the section computes for later sections */
  readonly computes?: readonly Node[];
  /** memory that changes after the section, such as the parameters that an optimizer steps */
  readonly changes?: ReadonlySet<Node>;
  /** number of runs of the plan from one run of the section to the next, default 1 */
  readonly every?: number;
  /** whether a run may leave the section out, so that only its own outputs may rely on it */
  readonly optional?: boolean;
  /** whether only records need the section, so that emitLate() of earlier sections comes before it */
  readonly records?: boolean;
}

/** A launch with its arguments, as far as they do not depend on the inputs. */
interface Step extends InputStep {
  readonly name: string;
  readonly args: { tensors: Floats[]; wholes: number[]; reals: readonly number[] };
  /** the memory of random numbers that the launch draws, or null */
  readonly drawn: Drawn | null;
  /** nodes of a graph, or 0 for the launches of a layer that has not run */
  nodes: number;
}

/** A tensor that a launch writes. */
export interface PlanResult {
  /** index of the launch */
  readonly launch: number;
  readonly section: number;
  readonly op: string;
  /** line of the program that made the op */
  readonly line: string;
  readonly tensor: Floats;
  /** name of the network of which a layer writes the tensor, or null */
  readonly network: string | null;
  /** the layer's tensor, or null for others */
  readonly place: LayerPlace | null;
}

export interface SectionOptions {
  /** contiguous tensors that replace random numbers, by the op that draws them */
  readonly draws?: ReadonlyMap<Node, Floats>;
  /** called after each launch, with its index */
  readonly after?: ((launch: number) => void) | undefined;
  /**
   * whether the generator advances after the last draw of a run, default true. It always advances
   * between draws, and after a draw that a run may leave out
   */
  readonly advance?: boolean;
}

/** Memory that the steps of a plan use on a device. */
export class Plan implements Disposable {
  readonly device: Device;
  /** the results, in the order of the constructor's `outputs` */
  readonly outputs: readonly Floats[];
  /** number of kernel launches, fills and draws */
  readonly launches: number;
  /** bytes of device memory */
  readonly bytes: number;
  readonly sections: number;
  /** draws the random numbers of the trace, or null if it draws none */
  readonly generator: DeviceGenerator | null;
  /** sums that emitLate() launches one by one, and that `step_end` computes in one launch */
  readonly sums: readonly PlannedSum[];
  readonly #steps: readonly Step[];
  /** index of each section's first step, and the number of steps */
  readonly #starts: readonly number[];
  readonly #layout: Layout;
  readonly #merged: Merged;
  readonly #arena: Floats;
  readonly #constants: Floats;
  readonly #inputs: ReadonlyMap<string, DeclaredInput>;
  readonly #poison: boolean;
  /** index of the last draw of a run, or −1 if a run may leave it out */
  readonly #lastDraw: number;
  readonly #planned: LanePlan;
  /** by section: its lanes and waits, or null if it has one lane */
  readonly #laned: readonly (SectionWaits | null)[];
  readonly #side: SideStream | null;
  /** the memory of each output */
  readonly #results: readonly Buffer[];
  /** memory of the caller that a result has instead of its own, by the index of the output */
  readonly #redirected = new Map<number, Floats>();
  /** handles of memory outside of the plan that launches use, except inputs */
  readonly #outside: ReadonlySet<number>;
  /** those among them that launches write */
  readonly #written: ReadonlySet<number>;
  #infinite: ReadonlySet<Node> | null = null;
  #differentiated: ReadonlySet<Node> | null = null;
  /** the inputs of the last run, whose views the steps still have */
  #last: ReadonlyMap<string, Bound> = new Map();

  /**
   * @param sections the results of the plan, in order
   * @param generator draws the random numbers of the trace, or null if it draws none
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(
    device: Device,
    sections: readonly Section[],
    generator: DeviceGenerator | null,
    options: PlanOptions = {},
  ) {
    this.device = device;
    this.generator = generator;
    this.#poison = options.poison ?? false;
    const demands = sections.map(({ outputs, ...section }) => ({
      ...section,
      outputs: outputs.map(({ node }) => node),
    }));
    const { chains = true, heads = true, late = true } = options;
    const { products = productRulesOf(device) } = options;
    const lowering = new Lowering(demands, lowerings, products, heads);
    const results = sections.flatMap(({ outputs }, section) =>
      outputs.map(({ node, into, reported = false }): SectionResult => {
        lowering.enter(section);
        return { node, into, reported, section, value: lowering.value(node) };
      }),
    );
    const users = usersOf(lowering.launches);
    const values = results.map((result) => keep(lowering, result, results, users));
    const { merged, constants } = lowering;
    const sorted = [...lowering.launches].sort((a, b) => a.section - b.section);
    const own = heads ? withHeads(lowering, withJoinedDraws(sorted, demands)) : sorted;
    const inOrder = chains ? chained(lowering, own) : own;
    const reported = values.flatMap(({ buffer }, i) => (results[i]!.reported ? [buffer] : []));
    const use = laneUseOn(device, options.lanes);
    const poison = this.#poison;
    const found = arranged(inOrder, sections, new Set(reported), { late, use, poison });
    this.#merged = merged;
    this.#planned = found.planned;
    this.sums = found.sums;
    const { launches, layout } = this.#planned;
    this.#layout = layout;
    this.#lastDraw = lastDraw(launches, demands);
    this.launches = launches.length;
    this.sections = sections.length;
    this.#inputs = inputsOf(merged.nodes);
    const count = Math.max(constants.length, 1);
    this.bytes = 4 * (this.#layout.size + count);
    this.#arena = device.allocate({ shape: [Math.max(this.#layout.size, 1)] });
    this.#starts = Array.from(
      { length: sections.length + 1 },
      (_, section) => launches.filter((launch) => launch.section < section).length,
    );
    this.#laned = sections.map((_, section) =>
      waitsIn(this.#planned, this.#starts[section]!, this.#starts[section + 1]!, this.#poison),
    );
    const waits = Math.max(0, ...this.#laned.map((each) => each?.waits.length ?? 0));
    let made: Floats | undefined;
    try {
      made = device.allocate({ shape: [count] });
      if (constants.length > 0) made.write(Float32Array.from(constants));
      this.#side = waits > 0 ? new SideStream(device, waits) : null;
    } catch (error) {
      made?.close();
      this.#arena.close();
      throw error;
    }
    this.#constants = made;
    this.#steps = launches.map((launch) => this.#step(launch));
    const handlesOf = (views: readonly View[]): number[] =>
      views.flatMap(({ buffer: { tensor } }) => (tensor ? [tensor.handle] : []));
    this.#outside = new Set(launches.flatMap(({ views }) => handlesOf(views)));
    this.#written = new Set(
      launches.flatMap(({ views, writes, call }) =>
        handlesOf(call ? views : views.slice(0, writes)),
      ),
    );
    this.#results = values.map(({ buffer }) => buffer);
    this.outputs = sections
      .flatMap(({ outputs }) => outputs)
      .map(({ node }, i) => {
        const { buffer } = values[i] as Value;
        const view = { shape: [...node.shape], offset: 0 };
        if (buffer.tensor) return (buffer.tensor as Floats).view(view);
        return this.#arena.view({ ...view, offset: this.#offset(buffer) });
      });
  }

  #offset(buffer: Buffer): number {
    return this.#layout.offsets.get(buffer) as number;
  }

  #step(launch: Launch): Step {
    const bound: number[] = [];
    const tensors = launch.views.map((view, i) => {
      if (view.buffer.kind !== 'input') return this.#tensor(view);
      bound.push(i);
      return this.#constants;
    });
    const wholes = launch.wholes.map((whole) => (typeof whole === 'number' ? whole : 0));
    const { kernel: name, reals, call } = launch;
    // A draw also advances its generator.
    const nodes = call || launch.late !== undefined ? 0 : isDraw(launch) ? 2 : 1;
    const [view] = launch.views as [View];
    const all = { ...view, shape: [launch.wholes[0] as number] };
    const drawn = isDraw(launch) ? { launch, whole: this.#tensor(all), parts: tensors } : null;
    return { launch, name, args: { tensors, wholes, reals }, bound, drawn, nodes };
  }

  #tensor(view: View): Floats {
    const { buffer, offset } = view;
    if (buffer.tensor)
      return (buffer.tensor as Floats).view(seen(view.shape, view.strides, offset, view.flat));
    const inArena = buffer.kind === 'arena';
    return (inArena ? this.#arena : this.#constants).view(
      seen(view.shape, view.strides, offset + (inArena ? this.#offset(buffer) : 0), view.flat),
    );
  }

  /**
   * Enqueues the launches of all sections. It only launches kernels, so a graph can capture it.
   *
   * @param inputs a tensor for each input of the trace. Its first dimension may have any stride, and
   *   the others are contiguous
   * @throws {TypeError|RangeError} for a missing or unknown input, another dtype, shape or stride, or
   *   memory of this plan
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   */
  emit(stream: Stream, inputs: Readonly<Record<string, Tensor>>): void {
    this.bind(stream, inputs);
    for (let section = 0; section < this.sections; section++) this.emitSection(stream, section);
    for (let section = 0; section < this.sections; section++) this.emitLate(stream, section);
  }

  /**
   * Checks the inputs of the sections that emitSection() enqueues from now on.
   *
   * @throws as emit()
   */
  bind(stream: Stream, inputs: Readonly<Record<string, Tensor>>): void {
    if (this.#arena.closed) throw closedError('this plan');
    const bound = boundInputs(this.#inputs, inputs, this.#arena);
    const changed = new Set<string>();
    for (const [name, { tensor }] of bound)
      if (this.#last.get(name)?.tensor !== tensor) changed.add(name);
    if (changed.size > 0) {
      this.#last = new Map();
      for (const step of this.#steps)
        if (step.bound.some((i) => changed.has(step.launch.views[i]!.buffer.name)))
          bindStep(step, bound);
      this.#last = bound;
    }
    if (this.#poison) stream.fill(this.#arena, Number.NaN);
  }

  /**
   * Lets the launches that follow write a result to memory of the caller, and read it there.
   *
   * @param output index of the result
   * @param to contiguous float32 of the result's size, or null for the result's own memory
   * @param given other tensors that the launches read, such as the numbers of draws
   * @returns whether the memory is used. It is not if the result has memory outside of the plan, or if `to`
   *   has gaps or is memory of the learner. Nor may it overlap `given` or an input of the last bind()
   */
  redirect(output: number, to: Floats | null, given: readonly Tensor[] = []): boolean {
    const buffer = this.#results[output] as Buffer;
    const free =
      to?.contiguous &&
      !buffer.tensor &&
      !this.#outside.has(to.handle) &&
      ![...this.#last.values()].some(({ tensor }) => overlap(tensor, to)) &&
      !given.some((tensor) => overlap(tensor, to));
    const memory = free ? to : null;
    if (memory === (this.#redirected.get(output) ?? null)) return memory !== null;
    if (memory) this.#redirected.set(output, memory);
    else this.#redirected.delete(output);
    for (const { launch, args } of this.#steps)
      for (const [i, view] of launch.views.entries()) {
        if (view.buffer !== buffer) continue;
        const { shape, strides, offset, flat } = view;
        args.tensors[i] = memory?.view(seen(shape, strides, offset, flat)) ?? this.#tensor(view);
      }
    return memory !== null;
  }

  /**
   * Enqueues the launches of one section, with the inputs of the last bind().
   *
   * @returns the number of blocks by which the caller has to advance the generator. It is 0 unless
   *   `advance` is false
   */
  emitSection(
    stream: Stream,
    section: number,
    { draws = new Map(), after, advance = true }: SectionOptions = {},
  ): number {
    let blocks = 0;
    const [from, to] = [this.#starts[section]!, this.#starts[section + 1]!];
    const laned = this.#emission(stream, section, after !== undefined);
    for (let i = from; i < to; i++) {
      const own = laned?.before(i - from) ?? stream;
      const advances = advance || i !== this.#lastDraw;
      blocks += this.#emit(own, i, { draws, after, advance: advances });
      laned?.after(i - from);
    }
    laned?.before(to - from);
    if (stream instanceof WatchedStream) stream.label = null;
    return blocks;
  }

  /**
   * Enqueues the launches of the late sums of a section, which `step_end` computes otherwise. They may
   * follow any later section of the same run.
   */
  emitLate(stream: Stream, section: number, options: SectionOptions = {}): void {
    for (let i = this.#starts[this.sections]!; i < this.#steps.length; i++)
      if (this.#steps[i]!.launch.late === section) this.#emit(stream, i, options);
    if (stream instanceof WatchedStream) stream.label = null;
  }

  /** Enqueues a launch, and returns the number of blocks by which the generator has still to advance. */
  #emit(stream: Stream, i: number, { draws = new Map(), after, advance }: SectionOptions): number {
    const step = this.#steps[i] as Step;
    const { launch, drawn } = step;
    if (stream instanceof WatchedStream)
      stream.label = { ...this.#label(launch), parts: this.#partsOf(launch) };
    let blocks = 0;
    if (drawn)
      blocks = enqueueDraw(stream, this.generator as DeviceGenerator, drawn, draws, advance!);
    else this.#enqueue(stream, step);
    after?.(i);
    // Sections that follow a late sum may still read its operand.
    if (!this.#poison || launch.late !== undefined) return blocks;
    for (const buffer of this.#layout.freed[i]!) {
      const dead = { shape: [buffer.size], offset: this.#offset(buffer) };
      stream.fill(this.#arena.view(dead), Number.NaN);
    }
    return blocks;
  }

  /** The memory of the plan, in which the offsets of late sums are. */
  get memory(): Floats {
    return this.#arena;
  }

  /**
   * Returns how the lanes of a section are enqueued, or null for one stream. Only captures have lanes.
   * A watch reads results in order. An input may share memory that a launch of the plan writes outside
   * of the plan, such as a gradient, and the waits do not know that.
   */
  #emission(stream: Stream, section: number, watched: boolean) {
    const laned = this.#laned[section];
    if (!laned || watched || stream instanceof WatchedStream || !stream.capturing) return null;
    const shared = [...this.#last.values()].some(({ tensor }) => this.#written.has(tensor.handle));
    return shared ? null : (this.#side as SideStream).on(stream, laned);
  }

  /**
   * Returns the contiguous results of the launches on the way of a gradient, for a watch. Other ops may
   * compute NaN that a condition leaves out, as for the next observation of a final state. Results that
   * a mask makes infinite are left out, too.
   */
  results(): PlanResult[] {
    this.#differentiated ??= differentiatedOf(this.#merged.nodes, this.#merged.of);
    const differentiated = this.#differentiated;
    return this.#steps.flatMap(({ launch }, i): PlanResult[] => {
      const { op, line, infinite } = this.#label(launch);
      if (infinite) return [];
      const { results } = launch;
      const section = launch.late ?? launch.section;
      const common = { launch: i, section, op, line };
      if (results)
        return results
          .filter(({ node }) => differentiated.has(node))
          .map(({ view, node, place }) => {
            const { name: network } = node.attributes as { name: string };
            return { ...common, tensor: this.#tensor(view), network, place };
          });
      if (!nodesOf(launch).some((node) => differentiated.has(node))) return [];
      // A watch reads a result in the plan's own memory, where an update that is watched writes it.
      const written = launch.views.slice(0, launch.writes).map((view) => this.#tensor(view));
      const found = written.flatMap((tensor, k, all) => {
        const { contiguous, byteOffset, handle } = tensor;
        // A chain with fewer results names its first one again.
        const again = all.findIndex((o) => o.byteOffset === byteOffset && o.handle === handle);
        if (!contiguous || again !== k) return [];
        return [{ ...common, tensor, network: null, place: null }];
      });
      return found.reverse();
    });
  }

  /** Describes an op for firstNonFinite(). */
  #label(launch: Launch): OpLabel {
    this.#infinite ??= readersOfInfinity(launch.node.tape.nodes);
    const infinite = this.#infinite;
    const some = nodesOf(launch).some((node) => infinite.has(node));
    return { op: describeOps(launch), line: linesOf(launch), infinite: some };
  }

  /** Returns the parts of the members of an ensemble, which a launch writes with gaps between them. */
  #partsOf({ views, writes, layer }: Launch): readonly (readonly Floats[] | null)[] {
    return views.slice(0, writes).map((view) => {
      const { shape, strides, offset, flat } = view;
      const [count, ...rest] = shape as [number, ...number[]];
      if (!layer || !flat) return null;
      return Array.from({ length: count }, (_, p) =>
        this.#tensor({
          ...view,
          shape: rest,
          strides: strides.slice(1),
          offset: offset + p * strides[0]!,
          flat: false,
        }),
      );
    });
  }

  #enqueue(stream: Stream, step: Step): void {
    const { launch, name, args } = step;
    const [to] = args.tensors as [Floats];
    if (launch.call) {
      const counted = step.nodes > 0 || stream instanceof WatchedStream;
      const used = counted ? stream : new CountedStream(stream);
      launch.call(used, args.tensors);
      if (used instanceof CountedStream) step.nodes = used.operations;
      return;
    }
    if (name === 'fill') {
      stream.fill(to, launch.reals[0]!);
      return;
    }
    stream.launch(name as 'unary', args as never);
  }

  /**
   * Number of nodes that one run adds to a graph. A layer other than a linear one counts from its
   * first run on.
   */
  get nodes(): number {
    return this.#steps.reduce((sum, { nodes }) => sum + nodes, 0);
  }

  /**
   * Number of nodes in the longest chain of launches that depend on each other. A section depends on
   * all sections before it.
   */
  get depth(): number {
    return this.#laned.reduce((sum, _, section) => {
      const [from, to] = [this.#starts[section]!, this.#starts[section + 1]!];
      const nodes = this.#steps.slice(from, to).map((step) => step.nodes);
      return sum + longest(nodes, dependenciesIn(this.#planned, from, to, this.#poison));
    }, 0);
  }

  /** Estimated times of the sections on one stream and on two. Empty if the plan has no estimate. */
  get estimates(): LanePlan['estimates'] {
    return this.#planned.estimates;
  }

  /**
   * The launches with their memory and lines, as a table for people. The last column has the reason
   * why a launch is apart from its neighbor. Launches that a capture puts on a side stream have the mark
   * `side`.
   */
  toString(): string {
    const { size, unshared } = this.#layout;
    const { nodes, merged } = this.#merged;
    const { lanes } = this.#planned;
    const kilobytes = (elements: number) => `${((4 * elements) / 1024).toFixed(1)} KiB`;
    const head = [
      `${this.launches} launches for ${nodes.length} ops (${merged} merged), ${this.nodes} nodes, depth ${this.depth}`,
      `${kilobytes(size)} of memory (${kilobytes(unshared)} without reuse)`,
    ];
    const rows = this.#steps.map(({ launch }, i) => {
      const [to] = launch.views as [View];
      const from = new Set(launch.views.slice(launch.writes).map((view) => this.#place(view)));
      return [
        lanes?.[i] === 1 ? `${i} side` : String(i),
        launch.late === undefined ? launch.kernel : 'step_end',
        describeLaunch(launch),
        shown(launch.node.shape),
        this.#place(to),
        [...from].join(' '),
        linesOf(launch),
        launch.note ?? '',
      ];
    });
    const table = [['#', 'kernel', 'op', 'shape', 'writes', 'reads', 'line', 'apart'], ...rows];
    const widths = table[0]!.map((_, c) => Math.max(...table.map((row) => row[c]!.length)));
    const lines = table.map((row) =>
      row
        .map((cell, c) => cell.padEnd(widths[c]!))
        .join('  ')
        .trimEnd(),
    );
    return [...head, ...lines].join('\n');
  }

  /** Names the memory of a view: an input, a constant, or a byte of the plan's memory. */
  #place({ buffer }: View): string {
    if (buffer.kind === 'input' || buffer.kind === 'memory') return buffer.name;
    if (buffer.tensor) return 'result';
    return buffer.kind === 'constants' ? 'constant' : `@${4 * this.#offset(buffer)}`;
  }

  /** Frees the memory. Close the graphs that captured the plan first. Idempotent. */
  close(): void {
    this.#arena.close();
    this.#constants.close();
    this.#side?.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
