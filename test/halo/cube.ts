/**
 * The geometry of a cube: what lies at each index of its faces, also beyond the edges of a face.
 */
import type { QuantityHaloSpec } from '../../src/extras/halo/spec.ts';
import type { HaloTopology } from '../../src/extras/halo/topology.ts';
import { fromOrigin, level } from './plain-exchange.ts';

type Vector = readonly [number, number, number];
const plus = (...terms: [number, Vector][]) =>
  [0, 1, 2].map((d) =>
    terms.reduce((sum, [factor, v]) => sum + factor * (v[d] as number), 0),
  ) as unknown as Vector;
const dot = (a: Vector, b: Vector) => a.reduce((sum, at, d) => sum + at * (b[d] as number), 0);

/** The cube's faces as seen from outside, written by hand: outward normal, x, y. */
export const faces: readonly (readonly [Vector, Vector, Vector])[] = [
  [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  [
    [0, 1, 0],
    [-1, 0, 0],
    [0, 0, 1],
  ],
  [
    [0, 0, 1],
    [-1, 0, 0],
    [0, -1, 0],
  ],
  [
    [-1, 0, 0],
    [0, 0, -1],
    [0, -1, 0],
  ],
  [
    [0, -1, 0],
    [0, 0, -1],
    [1, 0, 0],
  ],
  [
    [0, 0, -1],
    [0, 1, 0],
    [1, 0, 0],
  ],
] as const;

/**
 * The cells of a cube in space. Coordinates are in half cells. A cell is 2 half cells wide, and the
 * center of a face is at (0, 0).
 */
export class Cube {
  readonly topology: HaloTopology;
  readonly cells: number;
  readonly half: number;
  constructor(topology: HaloTopology, cells: number) {
    this.topology = topology;
    this.cells = cells;
    this.half = topology.layout[0] * cells;
  }
  /**
   * Returns the position of an index and the directions of its axes. An index beyond one edge of
   * the face is folded onto the neighboring face. Returns null beyond two edges.
   */
  at(
    spec: QuantityHaloSpec,
    rank: number,
    index: number[],
  ): { position: Vector; axes: Vector[] } | null {
    const { face, column, row } = this.topology.places[rank] as HaloTopology['places'][number];
    const u = 2 * (column * this.cells + fromOrigin(spec, index, spec.xDim)) - this.half;
    const v = 2 * (row * this.cells + fromOrigin(spec, index, spec.yDim)) - this.half;
    const [normal, x, y] = faces[face] as (typeof faces)[number];
    const beyond = [u, v].map((at) => Math.max(0, Math.abs(at) - this.half)) as [number, number];
    if (beyond[0] > 0 && beyond[1] > 0) return null;
    const into = (at: number, axis: Vector, out: number) =>
      out > 0 ? plus([-Math.sign(at), normal]) : axis;
    return {
      position: plus(
        [this.half - beyond[0] - beyond[1], normal],
        [Math.sign(u) * (Math.abs(u) - beyond[0]), x],
        [Math.sign(v) * (Math.abs(v) - beyond[1]), y],
      ),
      axes: [into(u, x, beyond[0]), into(v, y, beyond[1])],
    };
  }
  inSubdomain(spec: QuantityHaloSpec, index: number[]): boolean {
    const inside = (d: number) =>
      (index[d] as number) >= (spec.origin[d] as number) &&
      (index[d] as number) < (spec.origin[d] as number) + (spec.extent[d] as number);
    return inside(spec.xDim) || inside(spec.yDim);
  }
  scalar(spec: QuantityHaloSpec): (rank: number, _: number, index: number[]) => unknown {
    return (rank, _, index) => {
      const there = this.at(spec, rank, index);
      return there === null ? undefined : `${there.position} level ${level(spec, index)}`;
    };
  }
  /**
   * Returns the components, along the axes at each index, of a vector field that differs everywhere
   * in space.
   */
  vector(specs: QuantityHaloSpec[]): (rank: number, component: number, index: number[]) => unknown {
    return (rank, component, index) => {
      const spec = specs[component] as QuantityHaloSpec;
      const there = this.at(spec, rank, index);
      if (there === null) return undefined;
      const k = level(spec, index);
      const field = [1, 2, 3].map((d) => scatter([...there.position, k, d])) as unknown as Vector;
      return dot(field, there.axes[component] as Vector);
    };
  }
}
/** Returns a hash of the numbers. */
export function scatter(numbers: number[]): number {
  const mixed = numbers.reduce(
    (hash, at) => Math.imul(hash ^ (at + 0x9e37), 0x01000193) ^ (hash >>> 15),
    0x811c9dc5,
  );
  return 1 + (mixed >>> 2);
}
