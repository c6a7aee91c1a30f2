/**
 * A transformer's work as strided copies between arrays and its dense buffer. A rotation is free:
 * it turns the order in which the array is walked, so it is folded into signed steps. The buffer is
 * filled in row-major order of the rotated part.
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
  /** index of the array: all x in order, or x and y of each descriptor in turn */
  readonly array: number;
  /** elements from the buffer's start */
  readonly buffer: number;
  /** elements from the array's start to the part's first one */
  readonly base: number;
  /**
   * elements along each dimension of the part, and the signed distance between neighbors in the
   * array
   */
  readonly extents: readonly number[];
  readonly steps: readonly number[];
  /** whether every element is negated on its way into the buffer */
  readonly negate: boolean;
}

/**
 * Returns the moves arrays → buffer: each descriptor's x part, then its y part. An odd turn of a
 * vector puts y's elements in x's place.
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
 * Returns the moves buffer → arrays, without rotation. Throws RangeError for a part with two
 * elements in one place, because either could remain.
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
 * Describes a part of an array in the order in which it lies in the buffer: turned, and with
 * dimensions that form one run merged.
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
 * Encodes the moves for native code and kernels: a HaloMove of native/kernels/halo.hpp each. Places
 * in the buffer count from that of the first move.
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
 * Extends the table for a launch whose moves write into arrays by three words for each move, as
 * native/device/addon/halo.cpp reads them. These are the first element of the array that it writes,
 * one more than its last, and a bit for each other move. A bit is set if that move writes one of
 * the same elements when both get the same memory.
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
