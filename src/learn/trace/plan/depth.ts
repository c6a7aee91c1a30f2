/** The dependencies between the launches of a plan, and the depth of the plan. */
import { isDraw } from './draws.ts';
import type { Buffer, Launch, View } from './launches.ts';

/** Memory of a buffer: a key that is equal for equal memory, and the buffer's first element in it. */
export interface Place {
  readonly memory: unknown;
  readonly offset: number;
}

/** Returns the place of a buffer, or null for memory that no launch writes. */
export type PlaceOf = (buffer: Buffer) => Place | null;

/** Elements that a launch reads or writes, as a range from its first element to its last. */
interface Access extends Place {
  readonly end: number;
  readonly writes: boolean;
}

/** Keys of states that launches change besides their operands. */
const states = { generator: 'the generator', layers: 'the memory of layers' };

/**
 * Returns the place of a buffer if buffers of the plan's memory share no places. An input is a memory of
 * its own.
 */
export function apart(buffer: Buffer): Place | null {
  const { kind, tensor, name } = buffer;
  if (tensor) return { memory: tensor.handle, offset: tensor.byteOffset / 4 };
  if (kind === 'constants') return null;
  return { memory: kind === 'input' ? name : buffer, offset: 0 };
}

/** Returns the places of buffers whose offsets in the plan's memory are known. */
export const laidOut =
  (offsets: ReadonlyMap<Buffer, number>): PlaceOf =>
  (buffer) => {
    const offset = offsets.get(buffer);
    return offset === undefined ? apart(buffer) : { memory: offsets, offset };
  };

function rangeOf({ shape, strides, offset }: View): readonly [from: number, end: number] {
  let [from, last] = [offset, offset];
  for (const [d, length] of shape.entries()) {
    const way = (length - 1) * strides[d]!;
    if (way < 0) from += way;
    else last += way;
  }
  return [from, last + 1];
}

/**
 * Returns the accesses of a launch. The memory of an input is one element here, because its
 * strides are unknown. A layer's own code may write each of its operands, and memory of its own.
 *
 * @param poisoned buffers that are filled after the launch
 */
function accessesOf(
  launch: Launch,
  placeOf: PlaceOf,
  poisoned: readonly Buffer[],
): readonly Access[] {
  const { views, writes: results, call } = launch;
  const accesses = views.flatMap((view, v): Access[] => {
    const place = placeOf(view.buffer);
    if (!place) return [];
    const { memory, offset } = place;
    const writes = call !== undefined || v < results;
    if (view.buffer.kind === 'input') return [{ memory, offset: 0, end: 1, writes }];
    const [from, end] = rangeOf(view);
    return [{ memory, offset: offset + from, end: offset + end, writes }];
  });
  for (const buffer of poisoned) {
    const { memory, offset } = placeOf(buffer) as Place;
    accesses.push({ memory, offset, end: offset + buffer.size, writes: true });
  }
  const state = call ? states.layers : isDraw(launch) ? states.generator : null;
  if (state) accesses.push({ memory: state, offset: 0, end: 1, writes: true });
  return accesses;
}

/**
 * Returns for each launch the indices of earlier launches on which it depends: both touch an element,
 * and at least one of them writes it. Dependencies that follow from others may be missing.
 *
 * @param poisoned buffers that are filled after each launch, by the launch's index
 */
export function dependenciesOf(
  launches: readonly Launch[],
  placeOf: PlaceOf,
  poisoned: readonly (readonly Buffer[])[] = [],
): readonly (readonly number[])[] {
  const memories = new Map<unknown, (Access & { readonly launch: number })[]>();
  return launches.map((each, launch) => {
    const needed = new Set<number>();
    for (const access of accessesOf(each, placeOf, poisoned[launch] ?? [])) {
      const { memory, offset, end, writes } = access;
      const before = memories.get(memory) ?? [];
      for (const other of before)
        if (
          other.launch !== launch &&
          (writes || other.writes) &&
          other.offset < end &&
          offset < other.end
        )
          needed.add(other.launch);
      // A launch that depends on a covered access depends on this write too.
      const rest = writes
        ? before.filter((other) => other.offset < offset || end < other.end)
        : before;
      memories.set(memory, [...rest, { ...access, launch }]);
    }
    return [...needed].sort((a, b) => a - b);
  });
}

/** Returns the largest sum of numbers over a chain of dependencies. */
export function longest(
  numbers: readonly number[],
  dependencies: readonly (readonly number[])[],
): number {
  const ends: number[] = [];
  for (const [i, needed] of dependencies.entries())
    ends.push(needed.reduce((most, j) => Math.max(most, ends[j]!), 0) + numbers[i]!);
  return ends.reduce((most, end) => Math.max(most, end), 0);
}
