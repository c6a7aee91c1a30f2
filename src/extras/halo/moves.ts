/**
 * Describes a transformer's work as strided copies between arrays and its dense buffer. The buffer
 * has the rotated part in row-major order. A rotation costs nothing, because it only changes the
 * order and the signs of the steps through the array.
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

/** A strided copy between a part of one array and a range of the buffer. */
export interface Move {
  /** index of the array. Arrays are numbered in descriptor order, x before y in each descriptor */
  readonly array: number;
  /** offset of the range in the buffer, in elements */
  readonly buffer: number;
  /** offset of the part's first element in the array, in elements */
  readonly base: number;
  /** number of elements along each dimension of the part */
  readonly extents: readonly number[];
  /** signed distance in the array between neighbors along each dimension, in elements */
  readonly steps: readonly number[];
  /** whether packing negates every element */
  readonly negate: boolean;
}

/**
 * Returns the moves from the arrays to the buffer: each descriptor's x part, then its y part. An
 * odd number of quarter turns swaps the components x and y of a vector.
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
 * Returns the moves from the buffer to the arrays, without rotation. Throws RangeError if two
 * elements of a part have the same address, because the result would depend on the order of writes.
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
 * Returns how a copy steps through a part of an array, in the order of the elements in the buffer.
 * Turns the part by `turns` clockwise quarter turns. Merges adjacent dimensions if one step size
 * covers both. Throws RangeError if more dimensions remain than a move can have.
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
      `a part of [${dims}] has ${runs.length} dimensions that are not contiguous; at most ${maxRank} can be moved`,
    );
  return { base, extents: runs.map(({ extent }) => extent), steps: runs.map(({ step }) => step) };
}

export function count({ extents }: Pick<Move, 'extents'>): number {
  return extents.reduce((n, extent) => n * extent, 1);
}

/**
 * Encodes each move as a HaloMove of native/kernels/halo.hpp, for native code and kernels. Offsets
 * in the buffer are relative to that of the first move.
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
 * Returns the table with three words added for each move, for a launch that writes into arrays.
 * Native code (native/device/addon/halo.cpp) reads these words, to find moves of one launch that
 * would write the same element.
 *
 * The first word is the index of the first element that the move writes. The second is the index
 * after the last one. The third has a bit for each other move. The bit is set if both moves would
 * write a common element when their arrays have the same memory.
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
