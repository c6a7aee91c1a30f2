/**
 * The part of a halo exchange that its ranks share: which rank sends which data to which, and the
 * shared memory for it. The code that starts the threads makes it once. It is plain data, so it
 * passes through postMessage unchanged.
 */
import { randomUUID } from 'node:crypto';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { type DType, dtypes, type TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import {
  ExchangeControlBlock,
  exchangeControlBytes,
  type RanksElsewhere,
} from '../../shm/exchange-control.ts';
import {
  allocateShared,
  checkShared,
  PAGE,
  type Place,
  roundUp,
  STRIDE,
} from '../../shm/memory.ts';
import { type Components, components } from './descriptors.ts';
import { type Edge, edgeSlices, edgeSteps } from './edges.ts';
import { HaloExchangeSpec, type QuantityHaloOptions, QuantityHaloSpec } from './spec.ts';
import type { HaloNeighbor, HaloTopology } from './topology.ts';

const KIND = 'hotslot.HaloExchange';

export interface HaloExchangeOptions {
  /**
   * result of periodicTopology() or cubedSphereTopology(), or one of your own in which neighbors
   * are mutual
   */
  topology: Pick<HaloTopology, 'ranks' | 'neighbors'> | Pick<HaloTopology, 'ranks' | 'neighbours'>;
  /** one per quantity, the same for the arrays of every rank */
  x: readonly QuantityHaloOptions[];
  /** second components of vectors */
  y?: readonly QuantityHaloOptions[];
  /** halo points to exchange, counted from the compute domain (default: all of each quantity) */
  points?: number;
}

/** Buffer of the data that arrives at one rank over one edge: two halves in shared memory. */
export interface HaloBuffer {
  readonly rank: number;
  readonly edge: Edge;
  /** elements of a half */
  readonly length: number;
  /** bytes from the data's start to the first half, and from there to the second one */
  readonly byteOffset: number;
  readonly stride: number;
}

export interface SharedHaloExchange {
  readonly kind: typeof KIND;
  /** identifies the exchange, also after postMessage */
  readonly id: string;
  readonly ranks: number;
  readonly neighbors: readonly (readonly HaloNeighbor[])[];
  /** @deprecated `neighbors`, until 0.5: the same lists */
  readonly neighbours: readonly (readonly HaloNeighbor[])[];
  readonly x: readonly QuantityHaloOptions[];
  readonly y: readonly QuantityHaloOptions[] | null;
  readonly points: number | null;
  readonly dtype: DType;
  readonly buffers: readonly HaloBuffer[];
  /** separate from the data, because a thread that took a rank keeps the words until it ends */
  readonly words: Place;
  readonly data: Place;
  /** null if all ranks are in this process */
  readonly elsewhere: RanksElsewhere | null;
}

/**
 * Lays out a halo exchange between threads of this process. Post the result to the threads, and
 * create a HaloUpdater in each.
 *
 * @param options `topology`, the quantities `x` and, for vectors, `y`, and `points` (default: all
 *   halo points)
 * @throws {TypeError|RangeError} for quantities that cannot be exchanged together, and neighbors or
 *   edges that do not match. The text names ranks and edges
 * @throws {ERR_HOTSLOT_MEMORY} if the buffers cannot be allocated
 * @example
 * const topology = periodicTopology({ layout: [2, 1] });
 * const shared = shareHaloExchange({ topology, x: [quantity] });
 * const updater = new HaloUpdater(shared, 0);
 */
export function shareHaloExchange(options: HaloExchangeOptions): SharedHaloExchange {
  return layOutExchange(options, () => null);
}

/**
 * Does what shareHaloExchange() does. `place` gets the number of ranks and returns which of them
 * are elsewhere.
 */
export function layOutExchange(
  options: HaloExchangeOptions,
  place: (ranks: number) => RanksElsewhere | null,
): SharedHaloExchange {
  checkKeys('shareHaloExchange', options, ['topology', 'x', 'y', 'points']);
  const { topology, points = null } = options;
  const x = plainSpecs('x', options.x);
  const y = options.y === undefined ? null : plainSpecs('y', options.y);
  if (points !== null) checkCount('points', points, 1);
  const neighbors = checkTopology(topology);
  const plain = { x, y, points };
  const buffers: HaloBuffer[] = [];
  let [bytes, dtype]: [number, DType] = [
    0,
    (x[0] as QuantityHaloOptions | undefined)?.dtype ?? 'float32',
  ];
  for (const [rank, list] of neighbors.entries()) {
    for (const neighbor of list) {
      const specs = exchangeSpecs(plain, neighbor);
      checkCrossed(rank, neighbor.edge, specs);
      const arriving = components(...specs);
      const back = mirror(neighbors, rank, neighbor);
      const leaving = components(...exchangeSpecs(plain, back));
      checkFit(
        `rank ${neighbor.rank}'s edge ${back.edge} at rank ${rank}'s edge ${neighbor.edge}`,
        leaving,
        arriving,
      );
      dtype = (arriving[0] as Components)[0].specification.dtype;
      const length = arriving.flat().reduce((sum, spec) => sum + spec.unpackSize, 0);
      if (length === 0)
        throw rangeError(
          `over edge ${neighbor.edge} of rank ${rank} no element would be sent; exchange at least one point`,
        );
      const stride = roundUp(length * dtypes[dtype].bytes, STRIDE);
      buffers.push(Object.freeze({ rank, edge: neighbor.edge, length, byteOffset: bytes, stride }));
      // Each buffer has whole pages of its own, because drivers pin no less than a page.
      bytes += roundUp(2 * stride, PAGE);
    }
  }
  const elsewhere = place(topology.ranks);
  const words = exchangeControlBytes(topology.ranks, buffers.length);
  return Object.freeze({
    kind: KIND,
    id: randomUUID(),
    ranks: topology.ranks,
    neighbors,
    neighbours: neighbors,
    ...plain,
    dtype,
    buffers: Object.freeze(buffers),
    words: Object.freeze(allocateShared(`a halo exchange's words`, words, 64)),
    data: Object.freeze(
      allocateShared(`${buffers.length} halo buffers of two halves`, bytes, PAGE),
    ),
    elsewhere,
  });
}

/**
 * Throws RangeError if an array lacks the dimension that an edge crosses, because the whole compute
 * domain would arrive, not a halo.
 */
function checkCrossed(rank: number, edge: Edge, [x, y]: ReturnType<typeof exchangeSpecs>): void {
  const [alongX, alongY] = edgeSteps[edge];
  for (const [name, list] of Object.entries({ x, y: y ?? [] }))
    for (const [i, { specification }] of list.entries()) {
      const { xDim, yDim, dims } = specification;
      const missing = alongX !== 0 && xDim < 0 ? 'i' : alongY !== 0 && yDim < 0 ? 'j' : null;
      if (missing === null) continue;
      const lacks = `${name}[${i}] has neither '${missing}' nor '${missing}_interface' in [${dims}]`;
      throw rangeError(
        `${lacks}, and edge ${edge} of rank ${rank} crosses it: take a topology without such edges`,
      );
    }
}

/** Throws a TypeError unless shareHaloExchange() made it, in this thread or another. */
export function checkExchange(what: string, shared: SharedHaloExchange): void {
  for (const place of [shared?.data, shared?.words])
    checkShared(KIND, shared, place?.memory, `${what} takes the result of shareHaloExchange()`);
}

export function wordsOf({
  words,
  ranks,
  buffers,
  elsewhere,
}: SharedHaloExchange): ExchangeControlBlock {
  return new ExchangeControlBlock(words, ranks, buffers.length, elsewhere);
}

/**
 * Fails the exchange for a rank that never started: every rank that waits or calls throws. For the
 * code that started the threads. A rank itself calls fail() of its updater.
 *
 * @param error the cause that the ranks' errors have
 */
export function failHaloExchange(shared: SharedHaloExchange, error: unknown): void {
  checkExchange('failHaloExchange', shared);
  const words = wordsOf(shared);
  words.fail({ rank: -1, exchange: 0, error });
  words.ringAll();
}

/** Returns both halves of a buffer, for registration with a driver. */
export function bufferView(
  { data, dtype }: SharedHaloExchange,
  { byteOffset, stride }: HaloBuffer,
): TypedArray {
  const { array, bytes } = dtypes[dtype];
  return new array(
    data.memory as unknown as ArrayBuffer,
    data.offset + byteOffset,
    (2 * stride) / bytes,
  ) as TypedArray;
}

/**
 * Returns the specifications of a rank's transformer for one neighbor, with the ranges that leave
 * and arrive over the edge.
 */
export function exchangeSpecs(
  { x, y, points }: Pick<SharedHaloExchange, 'x' | 'y' | 'points'>,
  { edge, clockwiseRotation }: HaloNeighbor,
): [x: HaloExchangeSpec[], y: HaloExchangeSpec[] | null] {
  const specsOf = (list: readonly QuantityHaloOptions[]) =>
    list.map((options) => {
      const specification = new QuantityHaloSpec(options);
      const over = points === null ? {} : { points };
      return new HaloExchangeSpec({
        specification,
        packSlices: edgeSlices(specification, edge, { interior: true, ...over }),
        packClockwiseRotation: clockwiseRotation,
        unpackSlices: edgeSlices(specification, edge, { interior: false, ...over }),
      });
    });
  return [specsOf(x), y && specsOf(y)];
}

/**
 * Copies the options alone: after postMessage the other fields of a QuantityHaloSpec would be
 * unknown options.
 */
function plainSpecs(
  name: string,
  list: readonly QuantityHaloOptions[],
): readonly QuantityHaloOptions[] {
  if (!Array.isArray(list))
    throw typeError(
      `${name} is an array of quantities' specifications, got ${describeValue(list)}`,
    );
  return Object.freeze(
    list.map((each) => {
      const spec = each instanceof QuantityHaloSpec ? each : new QuantityHaloSpec(each);
      const { nPoints, shape, strides, itemsize, origin, extent, dims, dtype } = spec;
      return Object.freeze({ nPoints, shape, strides, itemsize, origin, extent, dims, dtype });
    }),
  );
}

function checkTopology(
  topology: HaloExchangeOptions['topology'],
): readonly (readonly HaloNeighbor[])[] {
  if (typeof topology !== 'object' || topology === null)
    throw typeError(
      `topology is { ranks, neighbors }, as periodicTopology() makes it; got ${describeValue(topology)}`,
    );
  const { ranks, neighbors, neighbours = neighbors } = topology as HaloTopology;
  if (neighbors !== undefined && neighbours !== neighbors)
    throw typeError(
      'topology: neighbours is the old name of neighbors, and both are given; give neighbors only',
    );
  checkCount('ranks', ranks);
  if (!Array.isArray(neighbours) || neighbours.length !== ranks)
    throw rangeError(
      `neighbors has a list for each of ${ranks} ranks, got ${describeValue(neighbours)}`,
    );
  const plain = neighbours.map((list: readonly HaloNeighbor[], rank) => {
    if (!Array.isArray(list))
      throw typeError(`neighbors of rank ${rank} is an array, got ${describeValue(list)}`);
    return Object.freeze(
      list.map(({ edge, rank: other, edgeThere, clockwiseRotation }, at) => {
        checkCount(`rank beyond edge ${edge} of rank ${rank}`, other, 0, ranks - 1);
        if (list.findIndex((each) => each.edge === edge) !== at)
          throw rangeError(
            `rank ${rank} has two neighbors over edge ${edge}: a buffer has one sender`,
          );
        return Object.freeze({ edge, rank: other, edgeThere, clockwiseRotation });
      }),
    );
  });
  for (const [rank, list] of plain.entries()) for (const each of list) mirror(plain, rank, each);
  return Object.freeze(plain);
}

/**
 * Returns the neighbor's own view of this edge. Exchange-2 depends on it. Throws RangeError if the
 * neighbors are not mutual.
 */
function mirror(
  all: readonly (readonly HaloNeighbor[])[],
  rank: number,
  to: HaloNeighbor,
): HaloNeighbor {
  const back = all[to.rank]?.find(({ edge }) => edge === to.edgeThere);
  const turns = to.clockwiseRotation + (back?.clockwiseRotation ?? 0);
  if (back?.rank === rank && back.edgeThere === to.edge && turns % 4 === 0) return back;
  const reported = back
    ? `rank ${back.rank}'s edge ${back.edgeThere}, turned ${back.clockwiseRotation} times`
    : 'nobody';
  throw rangeError(
    `neighbors are mutual: over edge ${to.edge} rank ${rank} meets rank ${to.rank}'s edge ${to.edgeThere}, turned ` +
      `${to.clockwiseRotation} times, but that edge meets ${reported}`,
  );
}

/**
 * Throws RangeError unless the outgoing part there has the shape of the incoming part here, array
 * by array. Equal sums of elements would not be enough, because they could mix quantities up.
 */
function checkFit(
  which: string,
  leaving: readonly Components[],
  arriving: readonly Components[],
): void {
  arriving.forEach((into, d) => {
    const from = leaving[d] as Components;
    into.forEach((spec, place) => {
      // An odd turn puts y's elements in x's place.
      const turned = spec.packClockwiseRotation % 2 !== 0;
      const source = from[turned && from.length === 2 ? 1 - place : place] as HaloExchangeSpec;
      const sent = extents(source.packSlices);
      const { xDim, yDim } = source.specification;
      if (turned && xDim >= 0 && yDim >= 0)
        [sent[xDim], sent[yDim]] = [sent[yDim] as number, sent[xDim] as number];
      const room = extents(spec.unpackSlices);
      if (sent.length === room.length && sent.every((n, i) => n === room[i])) return;
      throw rangeError(
        `${which}: ${'xy'[place]}[${d}] arrives as [${sent}], its halo there is [${room}] of [${spec.specification.dims}]`,
      );
    });
  });
}

function extents(slices: HaloExchangeSpec['packSlices']): number[] {
  return slices.map(([start, stop]) => stop - start);
}
