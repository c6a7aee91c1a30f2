/**
 * Launches of concatenations. A concatenation may take over the memory of an earlier one, and write
 * only the parts that differ.
 */
import { denseStrides } from '../../../device/strides.ts';
import { memoryOf, type Node, type NodeOfKind } from '../tape.ts';
import { inputPlaces } from './input-places.ts';
import type { Value } from './launches.ts';
import type { Concatenation, Lowering, Part } from './lowering.ts';

/**
 * Returns whether a part is in the memory of an earlier concatenation, where it belongs. Memory of the
 * learner may have changed since.
 */
const shares = ({ parts }: Concatenation, { node, offset }: Part): boolean =>
  memoryOf(node) === null && parts.some((part) => part.node === node && part.offset === offset);

/** Returns the parts that need a copy in new memory, or in the memory of an earlier concatenation. */
function copiesOf(
  lowering: Lowering,
  parts: readonly Part[],
  strides: readonly number[],
  earlier?: Concatenation,
): number {
  const after = earlier ? lowering.lastUse(earlier.value.buffer) : -1;
  return parts.filter(
    (part) =>
      !(earlier && shares(earlier, part)) &&
      !lowering.movable(part.value, strides, part.shape, after),
  ).length;
}

/**
 * Returns an earlier concatenation whose memory saves copies. All ops have read that value, and a run
 * writes it whenever this section runs.
 */
function earlierOf(
  lowering: Lowering,
  { section, shape, value: { strides }, parts }: Concatenation,
): Concatenation | undefined {
  const most = copiesOf(lowering, parts, strides);
  return [...lowering.concatenations.values()].find(
    (each) =>
      each.value.buffer.readers === 0 &&
      lowering.merged.serves(each.section, section) &&
      String(each.shape) === String(shape) &&
      parts.some((part) => shares(each, part)) &&
      copiesOf(lowering, parts, strides, each) < most,
  );
}

/**
 * Lowers a concatenation: moves or copies its parts to new memory, or to that of an earlier one.
 * Returns null if its readers read the parts where they are.
 */
export function lowerConcat(lowering: Lowering, node: NodeOfKind<'concat'>): Value | null {
  if (inputPlaces(lowering, node as Node)) {
    lowering.readApart(node as Node);
    return null;
  }
  const { axis } = node.attributes;
  const { shape } = node;
  const step = denseStrides(shape)[axis]!;
  let at = 0;
  const parts = node.inputs.map((input): Part => {
    const offset = at;
    at += input.shape[axis]! * step;
    const value = lowering.value(input);
    return { node: lowering.merged.of(input), shape: input.shape, value, offset };
  });
  const section = lowering.merged.sectionOf(node as Node);
  const own: Concatenation = { section, shape, value: lowering.fresh(shape), parts };
  const earlier = earlierOf(lowering, own);
  const { value } = earlier ?? own;
  const after = earlier ? lowering.lastUse(value.buffer) : -1;
  lowering.forget(value.buffer);
  for (const part of parts) {
    if (earlier && shares(earlier, part)) continue;
    const region = { ...value, offset: part.offset };
    if (!lowering.moved(part.value, region, part.shape, after))
      lowering.copyTo(node as Node, region, part.value, part.shape);
  }
  lowering.concatenations.set(value.buffer, { ...own, value });
  return value;
}
