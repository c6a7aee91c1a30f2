/** Launches of a network's passes in a trace. Each layer enqueues its own launches. */

import { type Network, type Stage, stagesOf } from '../../network/network.ts';
import { binaries } from '../../ops/elementwise.ts';
import { type Shape, sizeOf } from '../shapes.ts';
import type { Node, NodeOfKind } from '../tape.ts';
import type { LayerPlace, View } from './launches.ts';
import { flatView, type Lowering, rowsOf, type Value } from './lowering.ts';

type Floats = Parameters<Stage['layer']['forward']>[1]['x'];

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** Returns the part of a dense value of shape [members, rows, columns] that is one member's. */
const memberOf = (value: Value, j: number, rows: number, columns: number): View =>
  flatView({ ...value, offset: value.offset + j * rows * columns }, rows, columns, columns);

/** Returns the parameters of a stage, in a dense vector of all members. */
function parametersOf(vector: Value, count: number, j: number, { parameters }: Stage): View[] {
  return parameters.map(({ shape, offset }) => ({
    buffer: vector.buffer,
    offset: vector.offset + j * count + offset,
    shape,
    strides: shape.map((_, d) => sizeOf(shape.slice(d + 1))),
  }));
}

/** The tensors of a layer's pass, except its parameters and their gradients. */
type Operands = Omit<Parameters<Stage['layer']['backward']>[1], 'parameters' | 'gradients'>;
const absent = { kept: undefined, dx: undefined, scratch: undefined };

/** Names the tensors of a call, in the order in which it was given their views. */
function named(views: readonly (readonly [string, View | undefined])[]): {
  views: View[];
  pick(tensors: readonly Floats[]): Operands;
} {
  const given = views.filter((each): each is readonly [string, View] => each[1] !== undefined);
  return {
    views: given.map(([, view]) => view),
    pick: (tensors) =>
      ({
        ...absent,
        ...Object.fromEntries(given.map(([name], i) => [name, tensors[i]])),
      }) as Operands,
  };
}

/** Names a tensor of a stage of a member. */
const placeOf = (network: Network, member: number, { index }: Stage, what: string): LayerPlace => ({
  member,
  layer: `${index}: ${network.layers[index]!.name}`,
  what,
});

type Members = ReadonlySet<number>;

/** Returns the members whose part of a gradient may differ from 0. */
function membersWithin(lowering: Lowering, given: Node, members: number): Members {
  const node = lowering.merged.of(given);
  const [input] = node.inputs as [Node];
  if (node.op === 'reshape' && input.shape[0] === members)
    return membersWithin(lowering, input, members);
  const padded = node.op === 'pad' && node.attributes.axis === 0;
  if (!padded || node.shape[0] !== members) return new Set(range(members));
  const { before } = node.attributes;
  return new Set(range(input.shape[0] as number).map((j) => before + j));
}

/**
 * Returns the members of a network's value that other ops read. An actor that maximizes the value of
 * the first of two critics reads only this one.
 */
function membersRead(lowering: Lowering, node: Node, members: number): Members {
  const all = new Set(range(members));
  const readers = members > 1 && node.shape[0] === members ? lowering.readersOf(node) : null;
  if (!readers) return all;
  const read = readers.map((reader): Members => {
    if (reader.op === 'reshape') return membersRead(lowering, reader, members);
    if (reader.op === 'slice' && reader.attributes.axis === 0) {
      const { from } = reader.attributes;
      return new Set(range(reader.shape[0] as number).map((j) => from + j));
    }
    if (reader.op !== 'networkSlope') return all;
    const [above, forward] = reader.inputs.map((input) => lowering.merged.of(input));
    return forward === node && above !== node
      ? membersWithin(lowering, above as Node, members)
      : all;
  });
  return new Set(read.flatMap((each) => [...each]));
}

/** Lowers the forward passes of the members that are read. Only the last outputs are the op's value. */
export function lowerNetwork(lowering: Lowering, node: NodeOfKind<'network'>): Value {
  const { network, members } = node.attributes;
  const [input, vector] = node.inputs as [Node, Node];
  const [rows] = input.shape as [number, number];
  const stages = stagesOf(network);
  const at = rowsOf(
    lowering,
    node as Node,
    lowering.value(input),
    input.shape,
    input.shape[1] as number,
  );
  const weights = lowering.value(vector);
  const result = lowering.fresh(node.shape);
  const read = membersRead(lowering, node as Node, members);
  const passes = range(members).map((j) => {
    if (!read.has(j)) return { outputs: [], kept: [] };
    let x = flatView(at.value, rows, network.inputs, at.distance);
    const kept: (View | undefined)[] = [];
    const outputs = stages.map((stage, i) => {
      const { layer, inputs, outputs: width } = stage;
      const y =
        i === stages.length - 1
          ? memberOf(result, j, rows, width)
          : flatView(lowering.fresh([rows, width]), rows, width, width);
      const keeps = layer.keeps?.(inputs) ?? 0;
      kept.push(
        keeps > 0 ? flatView(lowering.fresh([rows, keeps]), rows, keeps, keeps) : undefined,
      );
      const parameters = parametersOf(weights, network.parameterCount, j, stage);
      const operands = named([
        ['y', y],
        ['kept', kept[i]],
        ['x', x],
      ]);
      const from = operands.views.length;
      lowering.call(
        node as Node,
        layer.name,
        [...operands.views, ...parameters],
        [placeOf(network, j, stage, 'output'), ...(kept[i] ? [undefined] : [])],
        (stream, tensors) =>
          layer.forward(stream, {
            ...operands.pick(tensors),
            parameters: tensors.slice(from),
          }),
      );
      x = y;
      return y;
    });
    return { outputs, kept };
  });
  lowering.setPass(node as Node, {
    outputs: passes.map(({ outputs }) => outputs),
    kept: passes.map(({ kept }) => kept),
  });
  return result;
}

/**
 * Lowers the backward passes of the members whose gradient may differ from 0, and adds up their
 * gradients at the input.
 */
export function lowerNetworkSlope(lowering: Lowering, node: NodeOfKind<'networkSlope'>): null {
  const { network, members } = node.attributes;
  const [above, forward, input, vector] = node.inputs as [Node, Node, Node, Node];
  const [rows, columns] = input.shape as [number, number];
  const stages = stagesOf(network);
  const count = network.parameterCount;
  const given = rowsOf(lowering, node as Node, lowering.value(input), input.shape, columns);
  const first = flatView(given.value, rows, columns, given.distance);
  const weights = lowering.value(vector);
  const pass = lowering.pass(forward);
  // A layer may overwrite what it kept, so each of several backward passes gets a copy.
  const { nodes, of } = lowering.merged;
  const passes = nodes.filter(
    ({ op, inputs: [, other] }) => op === 'networkSlope' && of(other as Node) === of(forward),
  );
  const keptFor = (view: View | undefined): View | undefined => {
    if (view === undefined || passes.length === 1) return view;
    const copy = lowering.fresh(view.shape);
    lowering.copyTo(node as Node, copy, view, view.shape);
    return flatView(copy, rows, view.shape[1] as number, view.shape[1] as number);
  };
  const dy = lowering.spent(node as Node, lowering.value(above), above.shape);
  const gradient = lowering.wants(node as Node, 1) ? lowering.fresh([members * count]) : null;
  const dx = lowering.wants(node as Node, 0) ? lowering.fresh([rows, columns]) : null;
  const within = membersWithin(lowering, above, members);
  const [start] = within;
  for (const j of range(members)) {
    if (!within.has(j)) {
      const own = gradient && { ...gradient, offset: j * count };
      if (own) lowering.fill(node as Node, own, [count], 0);
      continue;
    }
    let arriving = memberOf(dy, j, rows, network.outputs);
    const part = dx && (j === start ? dx : lowering.fresh([rows, columns]));
    for (let i = stages.length - 1; i >= 0; i--) {
      const stage = stages[i] as Stage;
      const { layer, inputs } = stage;
      const below: View | undefined =
        i > 0
          ? flatView(lowering.fresh([rows, inputs]), rows, inputs, inputs)
          : (part ?? undefined) && flatView(part as Value, rows, columns, columns);
      if (below === undefined && gradient === null) break;
      const gradients = gradient ? parametersOf(gradient, count, j, stage) : [];
      const scratch = layer.scratch?.(inputs) ?? 0;
      const operands = named([
        ['dx', below],
        [
          'scratch',
          scratch > 0
            ? flatView(lowering.fresh([rows, scratch]), rows, scratch, scratch)
            : undefined,
        ],
        ['dy', arriving],
        ['x', i > 0 ? pass.outputs[j]![i - 1]! : first],
        ['y', pass.outputs[j]![i]!],
        ['kept', keptFor(pass.kept[j]![i])],
      ]);
      const written = operands.views.indexOf(arriving) + 1;
      const places = [
        ...(gradient
          ? stage.parameters.map(({ name }) => placeOf(network, j, stage, `gradient of ${name}`))
          : []),
        ...range(written).map((k) => {
          const at = k === written - 1 ? i : below && k === 0 ? i - 1 : -1;
          // The gradient at the output of an inner layer is a result of the layer above it.
          const known = at === stages.length - 1 || (at >= 0 && k < written - 1);
          return known
            ? placeOf(network, j, stages[at] as Stage, 'gradient at the output')
            : undefined;
        }),
      ];
      const [one, two] = [gradients.length, gradients.length + operands.views.length];
      lowering.call(
        node as Node,
        `${layer.name} backward`,
        [...gradients, ...operands.views, ...parametersOf(weights, count, j, stage)],
        places,
        (stream, tensors) =>
          layer.backward(stream, {
            ...operands.pick(tensors.slice(one, two)),
            parameters: tensors.slice(two),
            gradients: gradient ? tensors.slice(0, one) : undefined,
          }),
      );
      if (below) arriving = below;
    }
    if (dx && part && part !== dx) addTo(lowering, node as Node, dx, part, [rows, columns]);
  }
  lowering.setTuple(node as Node, [dx, gradient] as Value[]);
  return null;
}

/** Adds a dense value to another one where it is. */
function addTo(lowering: Lowering, node: Node, to: Value, from: Value, shape: Shape): void {
  const size = sizeOf(shape);
  const [sum, part] = [flatView(to, 1, size, size), flatView(from, 1, size, size)];
  lowering.launch({
    kernel: 'binary',
    views: [sum, sum, part],
    writes: 1,
    wholes: [1, size, size, size, 1, size, 1, binaries.add],
    node,
  });
}
