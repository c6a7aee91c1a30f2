/** Launches of a network's backward pass in a trace (network-lowerings.ts has the forward pass). */
import { linearOf } from '../../network/kinds.ts';
import { type Network, type Stage, stagesOf } from '../../network/network.ts';
import { binaries } from '../../ops/elementwise.ts';
import { type Shape, sizeOf } from '../shapes.ts';
import type { Node, NodeOfKind } from '../tape.ts';
import type {
  LaunchResult,
  NetworkPass,
  ParameterVector,
  Rows,
  Run,
  StagePass,
  Value,
  View,
} from './launches.ts';
import { inputGradient, type LinearPass, linearBackward, single } from './linear-launches.ts';
import { flatView, type Lowering } from './lowering.ts';
import {
  freshRows,
  membersFrom,
  membersWithin,
  memberView,
  named,
  parametersOf,
  placeOf,
  range,
  runOf,
  runsOf,
  vectorFrom,
} from './members.ts';

type SlopeNode = NodeOfKind<'networkSlope'>;

/** Columns of an input's gradient. */
interface Columns {
  readonly from: number;
  readonly width: number;
}

/** Returns the columns of an input's gradient that other ops read. */
function columnsRead(lowering: Lowering, node: SlopeNode): Columns {
  const columns = node.inputs[2]!.shape[1] as number;
  const all: Columns = { from: 0, width: columns };
  if (!lowering.wants(node as Node, 0)) return { from: 0, width: 0 };
  const { network } = node.attributes;
  // Other layers compute the gradient of all columns.
  if (!lowering.rules.twoPlaces || !linearOf(stagesOf(network)[0]!.layer)) return all;
  const { nodes, of } = lowering.merged;
  const readers = nodes
    .filter(
      ({ op, attributes, inputs }) =>
        op === 'part' && attributes.index === 0 && of(inputs[0]!) === node,
    )
    .map((part) => lowering.readersOf(part));
  const ranges: [number, number][] = [];
  for (const reader of readers.flat()) {
    if (reader?.op !== 'slice' || reader.attributes.axis !== 1) return all;
    const { from } = reader.attributes;
    ranges.push([from, from + reader.shape[1]!]);
  }
  if (ranges.length === 0) return all;
  const from = Math.min(...ranges.map(([low]) => low));
  return { from, width: Math.max(...ranges.map(([, high]) => high)) - from };
}

/** Adds up the parts of an input's gradient. */
class InputGradient {
  readonly #lowering: Lowering;
  readonly #node: Node;
  readonly #shape: Shape;
  readonly columns: Columns;
  /** the sum, which the first part writes */
  readonly value: Value;
  #started = false;

  constructor(lowering: Lowering, node: Node, rows: number, columns: Columns) {
    this.#lowering = lowering;
    this.#node = node;
    this.columns = columns;
    this.#shape = [rows, columns.width];
    this.value = lowering.fresh(this.#shape);
  }

  /** Calls `write` with memory for a part, and adds the part to the sum. */
  add(write: (to: Value) => void): void {
    const to = this.#started ? this.#lowering.fresh(this.#shape) : this.value;
    write(to);
    if (this.#started) {
      const size = sizeOf(this.#shape);
      const [sum, part] = [flatView(this.value, 1, size, size), flatView(to, 1, size, size)];
      this.#lowering.launch({
        kernel: 'binary',
        views: [sum, sum, part],
        writes: 1,
        wholes: [1, size, size, size, 1, size, 1, binaries.add],
        node: this.#node,
      });
    }
    this.#started = true;
  }
}

/** A layer in a backward pass, with the gradient at its output. */
interface LayerPart {
  readonly i: number;
  readonly stage: Stage;
  readonly dy: Rows;
  /** whether dy is the gradient at the input of the layer's activation */
  readonly sloped: boolean;
}

/** The backward pass of an op. */
class BackwardPass {
  readonly #lowering: Lowering;
  readonly #node: Node;
  readonly #network: Network;
  readonly #rows: number;
  readonly #vector: ParameterVector;
  readonly #pass: NetworkPass;
  /** whether the forward pass has several backward passes */
  readonly #again: boolean;
  readonly #gradient: ParameterVector | null;
  readonly #dx: InputGradient | null;

  constructor(
    lowering: Lowering,
    node: SlopeNode,
    gradient: ParameterVector | null,
    dx: InputGradient | null,
  ) {
    const [, forward, input, weights] = node.inputs as [Node, Node, Node, Node];
    const { nodes, of } = lowering.merged;
    this.#lowering = lowering;
    this.#node = node as Node;
    this.#network = node.attributes.network;
    this.#rows = input.shape[0] as number;
    this.#vector = { value: lowering.value(weights), batch: this.#network.parameterCount };
    this.#pass = lowering.pass(forward);
    this.#again =
      nodes.filter(({ op, inputs }) => op === 'networkSlope' && of(inputs[1]!) === of(forward))
        .length > 1;
    this.#gradient = gradient;
    this.#dx = dx;
  }

  /** Launches the layers for neighboring members, from the gradient at their output on. */
  run(run: Run, dy: Rows): void {
    const stages = stagesOf(this.#network);
    const memory = this.#memoryOf(run);
    let part: LayerPart = {
      i: stages.length - 1,
      stage: stages.at(-1)!,
      dy,
      sloped: false,
    };
    for (;;) {
      const { i } = part;
      if (i === 0 && !this.#gradient && !this.#dx) return;
      const below = linearOf(part.stage.layer)
        ? this.#linear(run, memory, part)
        : this.#layer(run, memory, part);
      if (i === 0) return;
      part = { i: i - 1, stage: stages[i - 1]!, ...below };
    }
  }

  /** Returns the memory of the members' layers in the forward pass. */
  #memoryOf(run: Run): StagePass[] {
    const { from, stages } = this.#pass.runs.find(
      (each) => each.from <= run.from && run.from < each.from + each.count,
    )!;
    const at = (rows: Rows): Rows => membersFrom(rows, run.from - from);
    return stages.map(({ y, z, norm, kept }) => ({
      y: at(y),
      z: at(z),
      norm: norm && { product: at(norm.product), kept: at(norm.kept) },
      kept: kept && at(kept),
    }));
  }

  /** Returns the gradients at an output, as results of a launch. */
  #atOutput(run: Run, stage: Stage, of: Rows): LaunchResult[] {
    return range(run.count).map((p) => ({
      view: memberView(of, p, this.#rows),
      node: this.#node,
      place: placeOf(this.#network, run.from + p, stage, 'gradient at the output'),
    }));
  }
  /** Returns the gradients of a layer's parameters, as results of a launch. */
  #ofParameters({ from, count }: Run, stage: Stage): LaunchResult[] {
    const gradient = this.#gradient;
    if (!gradient) return [];
    return range(count).flatMap((p) =>
      parametersOf(vectorFrom(gradient, from + p), stage)
        .map((view, k) => {
          const { name } = stage.parameters[k]!;
          const place = placeOf(this.#network, from + p, stage, `gradient of ${name}`);
          return { view, node: this.#node, place };
        })
        .reverse(),
    );
  }
  /** Returns the gradient at the network's output, which no launch of the pass writes. */
  #atTop(run: Run, { i, stage, dy }: LayerPart): LaunchResult[] {
    return i === stagesOf(this.#network).length - 1 ? this.#atOutput(run, stage, dy) : [];
  }

  #linear(
    run: Run,
    memory: readonly StagePass[],
    part: LayerPart,
  ): Pick<LayerPart, 'dy' | 'sloped'> {
    const lowering = this.#lowering;
    const { i, stage, dy, sloped } = part;
    const top = this.#atTop(run, part);
    const pass: LinearPass = {
      node: this.#node as SlopeNode,
      run,
      rows: this.#rows,
      stage,
      parameters: vectorFrom(this.#vector, run.from),
    };
    const d = linearBackward(lowering, pass, linearOf(stage.layer)!, {
      dy,
      sloped,
      memory: memory[i]!,
      x: i > 0 ? single(memory[i - 1]!.y) : this.#pass.source,
      gradients: this.#gradient && vectorFrom(this.#gradient, run.from),
      results: [...top, ...this.#ofParameters(run, stage)],
    });
    // Without gradients of parameters, the launch of the input's gradient reports the output's.
    const rest = this.#gradient ? [] : top;
    if (i > 0) {
      const lower = stagesOf(this.#network)[i - 1]!;
      const kind = linearOf(lower.layer);
      const below = freshRows(lowering, run, this.#rows, stage.inputs);
      const done = inputGradient(lowering, pass, d, below, 0, {
        op: kind?.epsilon === null ? kind.op : -1,
        at: memory[i - 1]!,
        results: [...rest, ...this.#atOutput(run, lower, below)],
      });
      return { dy: below, sloped: done };
    }
    this.#dx?.add((value) => {
      const { from, width } = this.#dx!.columns;
      const sum: Rows = { value, columns: width, distance: width, batch: 0 };
      inputGradient(lowering, pass, d, sum, from, { op: -1, at: null, results: rest });
    });
    return { dy: d, sloped: false };
  }

  /** Calls a layer's own backward pass for each member. */
  #layer(
    run: Run,
    memory: readonly StagePass[],
    part: LayerPart,
  ): Pick<LayerPart, 'dy' | 'sloped'> {
    const { i, stage } = part;
    const lower = i > 0 ? stagesOf(this.#network)[i - 1]! : null;
    const below = lower && freshRows(this.#lowering, run, this.#rows, stage.inputs);
    for (const p of range(run.count)) {
      const one: Run = { from: run.from + p, count: 1 };
      const results = [
        ...this.#atTop(one, { ...part, dy: membersFrom(part.dy, p) }),
        ...(lower && below ? this.#atOutput(one, lower, membersFrom(below, p)) : []),
        ...this.#ofParameters(one, stage),
      ];
      const call = (dx: View | undefined): void => this.#call(one, p, memory, part, dx, results);
      if (below) call(memberView(below, p, this.#rows));
      else if (this.#dx)
        this.#dx.add((to) => call(flatView(to, this.#rows, stage.inputs, stage.inputs)));
      else call(undefined);
    }
    return { dy: below ?? part.dy, sloped: false };
  }

  #call(
    { from }: Run,
    p: number,
    memory: readonly StagePass[],
    { i, stage, dy }: LayerPart,
    dx: View | undefined,
    results: readonly LaunchResult[],
  ): void {
    const rows = this.#rows;
    const { layer, inputs } = stage;
    const gradients = this.#gradient ? parametersOf(vectorFrom(this.#gradient, from), stage) : [];
    const columns = layer.scratch?.(inputs) ?? 0;
    const scratch =
      columns > 0
        ? flatView(this.#lowering.fresh([rows, columns]), rows, columns, columns)
        : undefined;
    const { y, kept } = memory[i]!;
    const operands = named([
      ['dx', dx],
      ['scratch', scratch],
      ['dy', memberView(dy, p, rows)],
      [
        'x',
        i > 0
          ? memberView(memory[i - 1]!.y, p, rows)
          : memberView(this.#pass.source.first, 0, rows),
      ],
      ['y', memberView(y, p, rows)],
      ['kept', kept ? this.#copied(memberView(kept, p, rows)) : undefined],
    ]);
    const written = gradients.length + 1 + (dx ? 1 : 0) + (scratch ? 1 : 0);
    const [one, two] = [gradients.length, gradients.length + operands.views.length];
    this.#lowering.call(
      this.#node,
      `${layer.name} backward`,
      [...gradients, ...operands.views, ...parametersOf(vectorFrom(this.#vector, from), stage)],
      written,
      results,
      (stream, tensors) =>
        layer.backward(stream, {
          ...operands.pick(tensors.slice(one, two)),
          parameters: tensors.slice(two),
          gradients: gradients.length > 0 || this.#gradient ? tensors.slice(0, one) : undefined,
        }),
    );
  }

  /** A layer may overwrite what it kept, so each of several backward passes gets a copy. */
  #copied(view: View): View {
    if (!this.#again) return view;
    const [rows, columns] = view.shape as [number, number];
    const copy = this.#lowering.fresh(view.shape);
    this.#lowering.copyTo(this.#node, copy, view, view.shape);
    return flatView(copy, rows, columns, columns);
  }
}

/**
 * Lowers the backward passes of the members whose gradient may differ from 0, and adds up their
 * gradients at the input.
 */
export function lowerNetworkSlope(lowering: Lowering, node: SlopeNode): null {
  const { network, members } = node.attributes;
  const [above, , input] = node.inputs as [Node, Node, Node];
  const [rows] = input.shape as [number];
  const kind = linearOf(stagesOf(network).at(-1)!.layer);
  // An activation at the end, a normalization of one member or another layer overwrites the gradient.
  const reads = kind && (kind.epsilon === null ? kind.op < 0 : lowering.rules.batches);
  const [value, { shape }] = [lowering.value(above), above];
  const dy = reads
    ? lowering.dense(node as Node, value, shape)
    : lowering.spent(node as Node, value, shape);
  const size = network.parameterCount;
  const gradient: ParameterVector | null = lowering.wants(node as Node, 1)
    ? { value: lowering.fresh([members * size]), batch: size }
    : null;
  const columns = columnsRead(lowering, node);
  const dx = columns.width > 0 ? new InputGradient(lowering, node as Node, rows, columns) : null;
  const pass = new BackwardPass(lowering, node, gradient, dx);
  const within = membersWithin(lowering, above, members);
  if (gradient)
    for (const { from, count } of runsOf(
      new Set(range(members).filter((j) => !within.has(j))),
      true,
    ))
      lowering.fill(node as Node, vectorFrom(gradient, from).value, [count * size], 0);
  for (const run of runsOf(within, lowering.rules.batches))
    pass.run(run, runOf(dy, run, rows, network.outputs));
  // Slices of the gradient read the columns that it has.
  const { from, width } = columns;
  const shown = dx && { ...dx.value, offset: -from, strides: [width, 1] };
  lowering.setTuple(node as Node, [shown, gradient?.value] as Value[]);
  return null;
}
