/**
 * A halo exchange without shared memory and threads, which follows the rules of packing alone. It
 * compares every halo cell with the value that geometry says.
 */
import { expect } from 'chai';
import { type Edge, edgeSlices } from '../../src/extras/halo/edges.ts';
import { type HaloRange, QuantityHaloSpec } from '../../src/extras/halo/spec.ts';
import type { HaloTopology } from '../../src/extras/halo/topology.ts';

/**
 * One component of a rank's data: values in row-major order. A value is undefined if it is unknown.
 */
interface Component {
  spec: QuantityHaloSpec;
  values: unknown[];
}
interface Block {
  shape: number[];
  values: unknown[];
}

/** Returns every index of the box, with the last dimension fastest. */
export function indices(box: readonly HaloRange[]): number[][] {
  return box.reduce<number[][]>(
    (all, [start, stop]) =>
      all.flatMap((index) =>
        Array.from({ length: stop - start }, (_, at) => [...index, start + at]),
      ),
    [[]],
  );
}
const offset = (shape: readonly number[], index: readonly number[]) =>
  index.reduce((sum, at, d) => sum * (shape[d] as number) + at, 0);
const whole = (shape: readonly number[]) => shape.map((n) => [0, n] as const);

function block(shape: number[], valueAt: (index: number[]) => unknown): Block {
  return { shape, values: indices(whole(shape)).map(valueAt) };
}
function flip({ shape, values }: Block, d: number): Block {
  return block(
    shape,
    (index) =>
      values[
        offset(
          shape,
          index.map((at, each) => (each === d ? (shape[d] as number) - 1 - at : at)),
        )
      ],
  );
}
function swap({ shape, values }: Block, a: number, b: number): Block {
  const other = <T>(list: T[]) =>
    list.map((at, d) => (d === a ? list[b] : d === b ? list[a] : at) as T);
  return block(other(shape), (index) => values[offset(shape, other(index))]);
}

/**
 * Packs by the packer's rules: n = −rotation mod 4 quarter turns, first of the arrays, then of the
 * vector's components.
 */
function pack(components: Component[], edge: Edge, rotation: number): unknown[][] {
  const n = (4 - rotation) % 4;
  const turned = components.map(({ spec, values }) => {
    const slices = edgeSlices(spec, edge, { interior: true });
    const shape = slices.map(([start, stop]) => stop - start);
    const out = {
      shape,
      values: indices(slices).map((index) => values[offset(spec.shape, index)]),
    };
    if (n === 1) return swap(flip(out, spec.xDim), spec.xDim, spec.yDim).values;
    if (n === 3) return swap(flip(out, spec.yDim), spec.xDim, spec.yDim).values;
    return n === 2 ? flip(flip(out, spec.xDim), spec.yDim).values : out.values;
  });
  const [x, y] = turned as [unknown[], unknown[]];
  if (components.length === 1 || n === 0) return turned;
  const minus = (values: unknown[]) => values.map((value) => 0 - (value as number));
  if (n === 1) return [y, minus(x)];
  return n === 3 ? [minus(y), x] : [minus(x), minus(y)];
}

function unpack(components: Component[], edge: Edge, parts: unknown[][]): void {
  components.forEach(({ spec, values }, c) => {
    const into = indices(edgeSlices(spec, edge, { interior: false }));
    const from = parts[c] as unknown[];
    expect(from.length, `${spec.dims} at ${edge}`).to.equal(into.length);
    into.forEach((index, at) => {
      const to = offset(spec.shape, index);
      if (values[to] !== undefined)
        throw new Error(`[${index}] of [${spec.dims}] is written twice`);
      values[to] = from[at];
    });
  });
}

function exchange(topology: HaloTopology, ranks: Component[][]): void {
  const sent = topology.neighbors.flatMap((neighbors, rank) =>
    neighbors.map((to) => ({
      ...to,
      parts: pack(ranks[rank] as Component[], to.edge, to.clockwiseRotation),
    })),
  );
  for (const { rank, edgeThere, parts } of sent)
    unpack(ranks[rank] as Component[], edgeThere, parts);
}

/**
 * Returns a specification with this number of cells along x and y. The array has a margin outside
 * its halo, which an exchange must not change.
 */
export function specOf(
  dims: string[],
  cells: { i: number; j: number },
  nPoints: number,
): QuantityHaloSpec {
  const widths = dims.map((name) => {
    if (name.startsWith('k')) return 2;
    return cells[name[0] as 'i' | 'j'] + (name.endsWith('_interface') ? 1 : 0);
  });
  const before = dims.map((name) => (name.startsWith('k') ? 1 : nPoints + 1));
  const shape = widths.map((width, d) => width + 2 * (before[d] as number));
  return new QuantityHaloSpec({
    nPoints,
    dims,
    shape,
    origin: before,
    extent: widths,
    dtype: 'float64',
  });
}

/**
 * Returns the distance in cells from the rank's first cell. A point that is not on an interface is
 * half a cell further.
 */
export function fromOrigin(spec: QuantityHaloSpec, index: number[], d: number): number {
  const half = (spec.dims[d] as string).endsWith('_interface') ? 0 : 0.5;
  return (index[d] as number) - (spec.origin[d] as number) + half;
}
export const level = (spec: QuantityHaloSpec, index: number[]) =>
  index[spec.dims.indexOf('k')] ?? 0;

/**
 * Returns the compute domain, extended by `points` in each horizontal dimension. Other dimensions
 * are complete.
 */
export function around(spec: QuantityHaloSpec, points: number): HaloRange[] {
  return spec.origin.map((start, d) => {
    const grown = d === spec.xDim || d === spec.yDim ? points : 0;
    return [start - grown, start + (spec.extent[d] as number) + grown] as const;
  });
}

/** Sets every index of the compute domain, exchanges, and checks halo and margin. */
export function check(
  topology: HaloTopology,
  specs: QuantityHaloSpec[],
  valueAt: (rank: number, component: number, index: number[]) => unknown,
): number {
  const ranks = topology.places.map((_, rank) =>
    specs.map((spec, component) => {
      const held: Component = {
        spec,
        values: new Array(spec.shape.reduce((n, d) => n * d, 1)).fill(undefined),
      };
      for (const index of indices(around(spec, 0)))
        held.values[offset(spec.shape, index)] = valueAt(rank, component, index);
      return held;
    }),
  );
  exchange(topology, ranks);
  let found = 0;
  ranks.forEach((components, rank) => {
    components.forEach(({ spec, values }, component) => {
      const expected = new Array(values.length).fill(undefined);
      for (const index of indices(around(spec, spec.nPoints)))
        expected[offset(spec.shape, index)] = valueAt(rank, component, index);
      found += expected.filter((value) => value !== undefined).length;
      if (values.every((value, at) => value === expected[at])) return;
      expect(values, `rank ${rank}, [${spec.dims}], ${spec.nPoints} points`).to.deep.equal(
        expected,
      );
    });
  });
  return found;
}
