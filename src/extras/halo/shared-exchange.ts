/**
 * Describes what the ranks of a halo exchange share: who sends which data to whom, and the shared
 * memory for the data. The code that starts the threads creates the description once. It is plain
 * data, so postMessage does not change it.
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
   * result of periodicTopology() or cubedSphereTopology(), or your own topology. Neighbors must be
   * mutual
   */
  topology: Pick<HaloTopology, 'ranks' | 'neighbors'> | Pick<HaloTopology, 'ranks' | 'neighbours'>;
  /** one specification per quantity, which applies to the arrays of every rank */
  x: readonly QuantityHaloOptions[];
  /** specifications of the second components of vectors */
  y?: readonly QuantityHaloOptions[];
  /**
   * number of halo points to exchange, counted from the compute domain (default: all points of each
   * quantity)
   */
  points?: number;
}

/** The buffer for the data that one rank receives over one edge: two halves in shared memory. */
export interface HaloBuffer {
  readonly rank: number;
  readonly edge: Edge;
  /** number of elements of a half */
  readonly length: number;
  /** offset in bytes of the first half in the exchange's `data` */
  readonly byteOffset: number;
  /** distance in bytes from the first half to the second half */
  readonly stride: number;
}

export interface SharedHaloExchange {
  readonly kind: typeof KIND;
  /** UUID of the exchange, equal in all threads */
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
  /**
   * control words, in memory that is separate from `data`. A thread that claims a rank keeps the
   * control words allocated until the thread ends
   */
  readonly words: Place;
  readonly data: Place;
  /** location of ranks in other processes, null if all ranks are in this process */
  readonly elsewhere: RanksElsewhere | null;
}

/**
 * Lays out a halo exchange between threads of this process. Post the result to the threads, and
 * create a HaloUpdater for each rank.
 *
 * @param options `topology`, the quantities `x` and, for vectors, `y`, and `points` (default: all
 *   halo points)
 * @throws {TypeError|RangeError} for quantities that cannot be exchanged together, and for
 *   neighbors or edges that do not match. The text names ranks and edges
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
 * Does what shareHaloExchange() does, and supports ranks in other processes. `place` gets the
 * number of ranks. It returns the location of the ranks, or null if all ranks are in this process.
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
      // Begins each buffer on a new page. Drivers pin whole pages, and reject a page that is
      // already pinned.
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
 * Throws RangeError if an array lacks the dimension that an edge crosses. Otherwise the rank would
 * receive a whole compute domain over this edge, instead of a halo.
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

/** Throws TypeError unless `shared` is a result of shareHaloExchange(), from any thread. */
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
 * Fails the exchange on behalf of a rank that never started. A rank that waits for missing data
 * then throws at once, and every other rank throws at its next call. Call this function in the code
 * that started the threads. A rank that started calls fail() of its HaloUpdater instead.
 * @param error `cause` of the errors that the ranks throw
 */
export function failHaloExchange(shared: SharedHaloExchange, error: unknown): void {
  checkExchange('failHaloExchange', shared);
  const words = wordsOf(shared);
  words.fail({ rank: -1, exchange: 0, error });
  words.ringAll();
}

/** Returns a typed array over both halves of a buffer. */
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
 * Returns the specifications for a rank's transformer that serves one neighbor. They have the
 * outgoing and incoming ranges of the edge to that neighbor.
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
 * Returns the specifications as plain options. A QuantityHaloSpec has more fields than its options.
 * After postMessage it is a plain object, whose additional fields the constructor would reject.
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
 * Returns the entry for this edge in the neighbor's list. Throws RangeError if the neighbors are
 * not mutual. A rank learns from a neighbor's data that the neighbor has emptied the rank's own
 * earlier data (Exchange-2). So it must receive from each rank to which it sends.
 */
function mirror(
  all: readonly (readonly HaloNeighbor[])[],
  rank: number,
  to: HaloNeighbor,
): HaloNeighbor {
  const back = all[to.rank]?.find(({ edge }) => edge === to.edgeThere);
  const turns = to.clockwiseRotation + (back?.clockwiseRotation ?? 0);
  if (back?.rank === rank && back.edgeThere === to.edge && turns % 4 === 0) return back;
  const met = back
    ? `rank ${back.rank}'s edge ${back.edgeThere}, turned ${back.clockwiseRotation} times`
    : 'nobody';
  throw rangeError(
    `neighbors are mutual: over edge ${to.edge} rank ${rank} meets rank ${to.rank}'s edge ${to.edgeThere}, turned ` +
      `${to.clockwiseRotation} times, but that edge meets ${met}`,
  );
}

/**
 * Throws RangeError unless each array's outgoing part at the neighbor has the shape of its incoming
 * part here. Equal totals of elements would not suffice, because elements of one quantity could
 * arrive in another one.
 */
function checkFit(
  which: string,
  leaving: readonly Components[],
  arriving: readonly Components[],
): void {
  arriving.forEach((into, d) => {
    const from = leaving[d] as Components;
    into.forEach((spec, place) => {
      // An odd number of quarter turns swaps the components x and y of a vector.
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
