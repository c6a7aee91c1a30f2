/**
 * What a transformer does, as strided copies between arrays and its dense buffer. A rotation costs
 * nothing: it turns the order in which the array is walked, so it is folded into signed steps. The
 * buffer is filled in row-major order of the rotated part.
 */

import { rangeError } from '../../base/errors.ts';
import { nativeHalos } from '../../device/native.ts';
import type { Components } from './descriptors.ts';
import {
  type HaloExchangeSpec,
  type HaloRange,
  type QuantityHaloSpec,
  quarterTurns,
} from './spec.ts';

/** One array's part of the buffer. */
export interface Move {
  /** which array: all x in order, or x and y of each descriptor in turn */
  readonly array: number;
  /** elements from the buffer's start */
  readonly buffer: number;
  /** elements from the array's start to the part's first one */
  readonly base: number;
  /**
   * elements along each dimension of the part, and the signed distance between neighbours in the
   * array
   */
  readonly extents: readonly number[];
  readonly steps: readonly number[];
  /** of every element, on its way into the buffer */
  readonly negate: boolean;
}

/**
 * Arrays → buffer: each descriptor's x part, then its y part. An odd turn of a vector puts y's
 * elements in x's place.
 */
export function packMoves(descriptors: readonly Components[]): Move[] {
  return listed(descriptors, (components, first) => {
    const turns = quarterTurns(components[0].packClockwiseRotation);
    const signs = [turns === 2 || turns === 3, turns === 1 || turns === 2];
    return components.map((_, place) => {
      const from = components.length === 2 && turns % 2 === 1 ? 1 - place : place;
      const { specification, packSlices } = components[from] as HaloExchangeSpec;
      const negate = components.length === 2 && (signs[place] as boolean);
      return { ...walk(specification, packSlices, turns), array: first + from, negate };
    });
  });
}

/**
 * Buffer → arrays, as it comes. Throws RangeError for a part that has two elements in one place:
 * either could stay.
 */
export function unpackMoves(descriptors: readonly Components[]): Move[] {
  const moves = listed(descriptors, (components, first) =>
    components.map(({ specification, unpackSlices }, place) => ({
      ...walk(specification, unpackSlices, 0),
      array: first + place,
      negate: false,
    })),
  );
  if (moves.length === 0) return moves;
  const table = encode(moves, 'unpack');
  let m = 0;
  for (const [i, components] of descriptors.entries())
    for (const [place, { specification }] of components.entries()) {
      const { dims, strides } = specification;
      if (nativeHalos().haloMeets(table, m, m))
        throw rangeError(
          `${'xy'[place]}[${i}]: strides [${strides}] of [${dims}] put two elements of unpackSlices in one place`,
        );
      m++;
    }
  return moves;
}

function listed(
  descriptors: readonly Components[],
  of: (components: Components, first: number) => Omit<Move, 'buffer'>[],
): Move[] {
  let [array, buffer] = [0, 0];
  return descriptors.flatMap((components) => {
    const moves = of(components, array).map((move) => {
      const placed = { ...move, buffer };
      buffer += count(move);
      return placed;
    });
    array += components.length;
    return moves;
  });
}

/**
 * A part of an array in the order in which it lies in the buffer: turned, and with what is one run
 * taken together.
 */
function walk(
  { dims, strides, xDim, yDim }: QuantityHaloSpec,
  slices: readonly HaloRange[],
  turns: 0 | 1 | 2 | 3,
): Pick<Move, 'base' | 'extents' | 'steps'> {
  const extents = slices.map(([start, stop]) => stop - start);
  const steps = [...strides];
  let base = slices.reduce((sum, [start], d) => sum + start * (strides[d] as number), 0);
  const flip = (d: number) => {
    if (d < 0 || (extents[d] as number) === 0) return;
    base += ((extents[d] as number) - 1) * (steps[d] as number);
    steps[d] = -(steps[d] as number);
  };
  if (turns === 1 || turns === 2) flip(xDim);
  if (turns === 3 || turns === 2) flip(yDim);
  if (turns % 2 === 1 && xDim >= 0 && yDim >= 0) {
    for (const each of [extents, steps])
      [each[xDim], each[yDim]] = [each[yDim] as number, each[xDim] as number];
  }
  const runs: { extent: number; step: number }[] = [];
  extents.forEach((extent, d) => {
    const step = steps[d] as number;
    const before = runs.at(-1);
    if (extent === 1) return;
    if (before && before.step === extent * step)
      runs[runs.length - 1] = { extent: before.extent * extent, step };
    else runs.push({ extent, step });
  });
  const { maxRank } = nativeHalos().layout;
  if (runs.length > maxRank)
    throw rangeError(
      `a part of [${dims}] has ${runs.length} dimensions that lie apart, at most ${maxRank} can be moved`,
    );
  return { base, extents: runs.map(({ extent }) => extent), steps: runs.map(({ step }) => step) };
}

export function count({ extents }: Pick<Move, 'extents'>): number {
  return extents.reduce((n, extent) => n * extent, 1);
}

/**
 * As native code and kernels read it: a HaloMove of native/kernels/halo.hpp for each move. Places
 * in the buffer count from the first's.
 */
export function encode(moves: readonly Move[], direction: 'pack' | 'unpack'): BigInt64Array {
  const { words, unpacks, negates } = nativeHalos().layout;
  const table = new BigInt64Array(moves.length * words);
  const { buffer } = moves[0] as Move;
  moves.forEach((move, m) => {
    const flags = (direction === 'unpack' ? unpacks : 0) | (move.negate ? negates : 0);
    const head = [
      move.array,
      flags,
      move.buffer - buffer,
      count(move),
      move.base,
      move.extents.length,
    ];
    const row = [
      ...head,
      ...move.extents.flatMap((extent, d) => [extent, move.steps[d] as number]),
    ];
    table.set(row.map(BigInt), m * words);
  });
  return table;
}

/**
 * The same for a launch whose moves go into arrays, followed by three words for each move, as
 * native/device/addon/halo.cpp reads them: the first element of the array that it writes, one more
 * than its last, and a bit for each other move that writes an element of it if both are given the
 * same memory.
 */
export function encodeWritten(table: BigInt64Array, moves: readonly Move[]): BigInt64Array {
  const written = moves.flatMap((move, m) => {
    const low = move.extents.reduce(
      (sum, extent, d) => sum + Math.min(0, (extent - 1) * (move.steps[d] as number)),
      move.base,
    );
    const high = move.extents.reduce(
      (sum, extent, d) => sum + Math.max(0, (extent - 1) * (move.steps[d] as number)),
      move.base,
    );
    const meets = moves.map((_, other) => other !== m && nativeHalos().haloMeets(table, m, other));
    return [
      low,
      count(move) === 0 ? low : high + 1,
      meets.reduce((bits, each, other) => bits + (each ? 2 ** other : 0), 0),
    ];
  });
  return BigInt64Array.from([...table, ...written.map(BigInt)]);
}
