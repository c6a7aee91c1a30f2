/** The members of an ensemble that a network's launches compute, and their rows and parameters. */
import type { Network, Stage } from '../../network/network.ts';
import { sizeOf } from '../shapes.ts';
import type { Node } from '../tape.ts';
import type { LayerPlace, ParameterVector, Rows, Run, Value, View } from './launches.ts';
import { flatView, type Lowering } from './lowering.ts';

type Floats = Parameters<Stage['layer']['forward']>[1]['x'];

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** The tensors of a layer's pass, except its parameters and their gradients. */
type Operands = Omit<Parameters<Stage['layer']['backward']>[1], 'parameters' | 'gradients'>;
const absent = { kept: undefined, dx: undefined, scratch: undefined };

/** Names the tensors of a call, in the order in which it was given their views. */
export function named(views: readonly (readonly [string, View | undefined])[]): {
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
export const placeOf = (
  network: Network,
  member: number,
  { index }: Stage,
  what: string,
): LayerPlace => ({
  member,
  layer: `${index}: ${network.layers[index]!.name}`,
  what,
});

export type Members = ReadonlySet<number>;

/** Returns the members whose part of a gradient may differ from 0. */
export function membersWithin(lowering: Lowering, given: Node, members: number): Members {
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
export function membersRead(lowering: Lowering, node: Node, members: number): Members {
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

/** Returns a set of members as runs of neighbors, or as one run for each member. */
export function runsOf(members: Members, together: boolean): Run[] {
  const runs: { from: number; count: number }[] = [];
  for (const j of [...members].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (together && last && last.from + last.count === j) last.count++;
    else runs.push({ from: j, count: 1 });
  }
  return runs;
}

/** Returns the rows of members from `by` on. */
export const membersFrom = (rows: Rows, by: number): Rows => ({
  ...rows,
  value: { ...rows.value, offset: rows.value.offset + by * rows.batch },
});
/** Returns the rows from `by` on of each member. */
export const rowsFrom = (rows: Rows, by: number): Rows => ({
  ...rows,
  value: { ...rows.value, offset: rows.value.offset + by * rows.distance },
});
/** Returns the rows of one member as a view. */
export const memberView = (rows: Rows, p: number, count: number): View =>
  flatView(membersFrom(rows, p).value, count, rows.columns, rows.distance);

export const vectorFrom = ({ value, batch }: ParameterVector, member: number): ParameterVector => ({
  value: { ...value, offset: value.offset + member * batch },
  batch,
});
/** Returns the parameters of a stage of the first member of a vector. */
export const parametersOf = ({ value }: ParameterVector, { parameters }: Stage): View[] =>
  parameters.map(({ shape, offset }) => ({
    buffer: value.buffer,
    offset: value.offset + offset,
    shape,
    strides: shape.map((_, d) => sizeOf(shape.slice(d + 1))),
  }));

/** Returns new rows of all members of a run. */
export function freshRows(lowering: Lowering, { count }: Run, rows: number, columns: number): Rows {
  const value = lowering.fresh([count, rows, columns]);
  return { value, columns, distance: columns, batch: rows * columns };
}

/** Returns the part of a dense value [members, rows, columns] that belongs to a run. */
export const runOf = (value: Value, { from }: Run, rows: number, columns: number): Rows => ({
  value: { ...value, offset: value.offset + from * rows * columns },
  columns,
  distance: columns,
  batch: rows * columns,
});
