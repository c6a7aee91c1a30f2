/** Gives the buffers of a plan their places in one block of device memory. */
import type { Buffer, Launch, View } from './launches.ts';

/** Places of a plan's buffers in its memory, in elements. */
export interface Layout {
  readonly offsets: ReadonlyMap<Buffer, number>;
  /** number of elements of the memory */
  readonly size: number;
  /** number of elements that buffers without shared places would need */
  readonly unshared: number;
  /** buffers that no launch after a launch uses, by the launch's index */
  readonly freed: readonly (readonly Buffer[])[];
}

/** Each buffer begins at a multiple of this many elements, so that devices load whole lines. */
const ALIGNMENT = 32;
const aligned = (size: number): number => Math.ceil(size / ALIGNMENT) * ALIGNMENT;

const sameView = (a: View, b: View): boolean =>
  a.offset === b.offset &&
  a.buffer.size === b.buffer.size &&
  a.shape.every((length, d) => length === b.shape[d]) &&
  a.strides.every((stride, d) => a.shape[d] === 1 || stride === b.strides[d]);

/**
 * Lays buffers out by their live ranges. A buffer lives from the first launch that writes it to the
 * last launch that uses it. Each new buffer takes the smallest free gap that fits. The result of an
 * elementwise launch takes over the place of an operand that the launch reads last.
 *
 * @param over whether all other uses of a buffer are over when a launch begins, if a launch does not
 *   come after all launches before it
 */
export function layOut(
  launches: readonly Launch[],
  over?: (buffer: Buffer, launch: number) => boolean,
): Layout {
  const last = new Map<Buffer, number>();
  for (const [i, { views }] of launches.entries())
    for (const { buffer } of views) if (buffer.kind === 'arena') last.set(buffer, i);
  const offsets = new Map<Buffer, number>();
  const live = new Map<Buffer, { from: number; to: number }>();
  /** buffers after the last launch that uses them, which may not be over yet */
  const ending = new Map<Buffer, { from: number; to: number }>();
  let [size, unshared] = [0, 0];
  const place = (length: number, launch: number): number => {
    const taken = [...live.values()];
    for (const [buffer, each] of ending) if (!over?.(buffer, launch)) taken.push(each);
    taken.sort((a, b) => a.from - b.from);
    let [best, room, end] = [-1, Number.POSITIVE_INFINITY, 0];
    for (const { from, to } of taken) {
      if (from - end >= length && from - end < room) [best, room] = [end, from - end];
      end = Math.max(end, to);
    }
    return best < 0 ? end : best;
  };
  const freed = launches.map(({ views, writes, inPlace }, i) => {
    for (const [v, view] of views.slice(0, writes).entries()) {
      const { buffer } = view;
      if (buffer.kind !== 'arena' || buffer.tensor || offsets.has(buffer)) continue;
      const length = aligned(buffer.size);
      unshared += length;
      // An operand that reads the memory in another order would read elements that the launch has
      // already written.
      const taken = (each: View) =>
        views.every(
          (other, o) =>
            other.buffer !== each.buffer || (inPlace.includes(o) && sameView(view, other)),
        );
      const operands = v === 0 ? inPlace.map((operand) => views[operand]!) : [];
      const old = operands.find(
        (each) =>
          live.has(each.buffer) &&
          last.get(each.buffer) === i &&
          !each.buffer.output &&
          (!over || over(each.buffer, i)) &&
          taken(each),
      );
      const from = old ? offsets.get(old.buffer)! : place(length, i);
      if (old) live.delete(old.buffer);
      offsets.set(buffer, from);
      live.set(buffer, { from, to: from + length });
      size = Math.max(size, from + length);
    }
    const ended = [...live.keys()].filter((buffer) => last.get(buffer) === i && !buffer.output);
    for (const buffer of ended) {
      if (over) ending.set(buffer, live.get(buffer)!);
      live.delete(buffer);
    }
    return ended;
  });
  return { offsets, size, unshared, freed };
}
