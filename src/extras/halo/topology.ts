/** Neighbors of ranks on a periodic plane and on the six faces of a cube, split over ranks. */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type Edge, edgeSteps, edges } from './edges.ts';

export interface HaloNeighbor {
  /** this rank's edge, over which data leaves for this neighbor and arrives from it */
  readonly edge: Edge;
  readonly rank: number;
  /** the neighbor's edge, at which this rank's data arrives and over which the neighbor sends */
  readonly edgeThere: Edge;
  /** packClockwiseRotation of the data that this rank sends, 0 to 3 */
  readonly clockwiseRotation: number;
}

/** @deprecated `HaloNeighbor`, until 0.5 */
export type HaloNeighbour = HaloNeighbor;

/** The position of a rank's part: columns count along x, rows along y. */
export interface HaloPlace {
  readonly face: number;
  readonly column: number;
  readonly row: number;
}

/**
 * Plain frozen data that can be posted to other threads. A rank's number is column + columns × (row
 * + rows × face).
 */
export interface HaloTopology {
  readonly ranks: number;
  /** columns and rows of each face */
  readonly layout: readonly [columns: number, rows: number];
  readonly places: readonly HaloPlace[];
  /**
   * neighbors of each rank, edges before corners. A rank can occur more than once, and can be its
   * own neighbor
   */
  readonly neighbors: readonly (readonly HaloNeighbor[])[];
  /** @deprecated `neighbors`, until 0.5: the same lists */
  readonly neighbours: readonly (readonly HaloNeighbor[])[];
}

export interface PeriodicTopologyOptions {
  /** one number is a ring along i, for arrays without j, with neighbors over E and W alone */
  layout: readonly [columns: number, rows: number] | readonly [columns: number];
  /** with diagonal neighbors (default: true) */
  corners?: boolean;
}

/**
 * Returns a doubly periodic plane, or a ring. Ranks of a row have equally many rows of cells, and
 * ranks of a column equally many columns.
 *
 * @param options `layout`: [columns, rows], or [columns] for a ring. `corners` (default true) adds
 *   diagonal neighbors
 * @throws {TypeError|RangeError} for a wrong layout, or more than 2²⁰ ranks
 * @example
 * const { ranks, neighbors } = periodicTopology({ layout: [3, 2] });
 */
export function periodicTopology(options: PeriodicTopologyOptions): HaloTopology {
  checkKeys('periodicTopology', options, ['layout', 'corners']);
  const { layout, corners } = options;
  const ring = Array.isArray(layout) && layout.length === 1;
  const [columns, rows] = checkLayout(
    ring ? [layout[0], 1] : (layout as readonly [number, number]),
  );
  const crossed = ring ? (['E', 'W'] as const) : crossedEdges(corners);
  return topology(1, [columns, rows], crossed, ({ face, column, row }, [x, y]) => ({
    place: { face, column: (column + x + columns) % columns, row: (row + y + rows) % rows },
    turns: 0,
  }));
}

export interface CubedSphereTopologyOptions {
  /** columns and rows of each face (default: [1, 1]) */
  layout?: readonly [columns: number, rows: number];
  corners?: boolean;
}

/**
 * Returns six faces, arranged as in `cubeFaces`. Neighbors across an edge between faces may be
 * turned relative to each other. At the cube's eight corners, where three faces meet, ranks have no
 * diagonal neighbor. Every rank has as many cells along x as along y, and all ranks have equally
 * many. The reason is that columns of one rank are adjacent to rows of the other where the axes
 * turn. For the same reason a scalar has both interface dimensions or neither, and the y component
 * of a vector has the interface dimension that x lacks.
 *
 * Throws RangeError for a layout that is not square.
 */
export function cubedSphereTopology(options: CubedSphereTopologyOptions = {}): HaloTopology {
  checkKeys('cubedSphereTopology', options, ['layout', 'corners']);
  const [columns, rows] = checkLayout(options.layout ?? [1, 1]);
  if (columns !== rows)
    throw rangeError(
      `the layout of a cube's faces is square, got [${columns}, ${rows}], because turned faces join columns to rows`,
    );
  return topology(cubeFaces.length, [columns, rows], crossedEdges(options.corners), (place, step) =>
    overCube(place, step, columns),
  );
}

type Vector = readonly [number, number, number];

/**
 * A cube's face in space, seen from outside: its outward normal, and the directions in which i and
 * j grow.
 */
export interface CubeFace {
  readonly normal: Vector;
  readonly x: Vector;
  readonly y: Vector;
}

/**
 * The six faces form a staircase: the next face is over E from an even one and over N from an odd
 * one, and neither is turned.
 */
export const cubeFaces: readonly CubeFace[] = staircase();

function staircase(): readonly CubeFace[] {
  const faces: CubeFace[] = [{ normal: [1, 0, 0], x: [0, 1, 0], y: [0, 0, 1] }];
  while (faces.length < 6) {
    const { normal, x, y } = faces.at(-1)!;
    faces.push(
      faces.length % 2 === 1
        ? { normal: x, x: times(-1, normal), y }
        : { normal: y, x, y: times(-1, normal) },
    );
  }
  for (const face of faces) {
    Object.values(face).forEach(Object.freeze);
    Object.freeze(face);
  }
  return Object.freeze(faces);
}

type Step = readonly [x: number, y: number];
/**
 * The part one step away. Its axes are `turns` counter-clockwise quarter turns from those of the
 * first part.
 */
type NeighborOf = { place: HaloPlace; turns: number } | null;

function overCube({ face, column, row }: HaloPlace, [stepX, stepY]: Step, n: number): NeighborOf {
  const [toColumn, toRow] = [column + stepX, row + stepY];
  const [outX, outY] = [toColumn, toRow].map((at) => (at < 0 ? -1 : at < n ? 0 : 1)) as [
    number,
    number,
  ];
  if (outX === 0 && outY === 0) return { place: { face, column: toColumn, row: toRow }, turns: 0 };
  if (outX !== 0 && outY !== 0) return null;
  const { normal, x, y } = cubeFaces[face]!;
  const out = outX === 0 ? times(outY, y) : times(outX, x);
  const faceThere = cubeFaces.findIndex((each) => dot(each.normal, out) === 1);
  const there = cubeFaces[faceThere]!;
  // Folded over the edge, a direction along the edge stays, and the direction out of the face
  // becomes the one into the cube.
  const folded = outX === 0 ? x : times(-outX, normal);
  const turns = [there.x, there.y, times(-1, there.x), times(-1, there.y)].findIndex(
    (axis) => dot(axis, folded) === 1,
  );
  // Unfolded into this face's plane, the other face's center is a whole face away. The unit is half
  // a part, so that all numbers are integers.
  const fromCentre = [
    2 * toColumn + 1 - n - 2 * n * outX,
    2 * toRow + 1 - n - 2 * n * outY,
  ] as const;
  const [columnThere, rowThere] = turned(fromCentre, turns).map((at) => (at + n - 1) / 2) as [
    number,
    number,
  ];
  return { place: { face: faceThere, column: columnThere, row: rowThere }, turns };
}

function topology(
  faces: number,
  [columns, rows]: readonly [number, number],
  crossed: readonly Edge[],
  sibling: (place: HaloPlace, step: Step) => NeighborOf,
): HaloTopology {
  const ranks = faces * columns * rows;
  const rankAt = ({ face, column, row }: HaloPlace) => (face * rows + row) * columns + column;
  const places = Array.from({ length: ranks }, (_, rank) =>
    Object.freeze({
      face: Math.floor(rank / (columns * rows)),
      column: rank % columns,
      row: Math.floor(rank / columns) % rows,
    }),
  );
  const neighbors = places.map((place) =>
    Object.freeze(
      crossed.flatMap((edge): HaloNeighbor[] => {
        const [x, y] = edgeSteps[edge];
        const found = sibling(place, [x, y]);
        if (found === null) return [];
        const edgeThere = edgeOf(turned([-x, -y], found.turns));
        return [
          Object.freeze({
            edge,
            rank: rankAt(found.place),
            edgeThere,
            clockwiseRotation: found.turns,
          }),
        ];
      }),
    ),
  );
  return Object.freeze({
    ranks,
    layout: Object.freeze([columns, rows] as const),
    places: Object.freeze(places),
    neighbors: Object.freeze(neighbors),
    neighbours: neighbors,
  });
}

function crossedEdges(corners: boolean | undefined): readonly Edge[] {
  if (corners !== undefined && typeof corners !== 'boolean')
    throw typeError(`corners is true or false, got ${describeValue(corners)}`);
  return corners === false ? edges.filter((edge) => edge.length === 1) : edges;
}

/** Bounds the memory of a topology, which has a place and a list of neighbors for each rank. */
const MAX_RANKS = 2 ** 20;

function checkLayout(layout: readonly [number, number]): readonly [number, number] {
  if (!Array.isArray(layout) || layout.length !== 2)
    throw typeError(
      `layout is [columns, rows], got ${Array.isArray(layout) ? `[${layout.map(describeValue).join()}]` : describeValue(layout)}`,
    );
  const [columns, rows] = [
    checkCount('columns of the layout', layout[0]),
    checkCount('rows of the layout', layout[1]),
  ];
  if (columns * rows > MAX_RANKS)
    throw rangeError(`a layout has ${MAX_RANKS} ranks at most, got ${columns} × ${rows}`);
  return [columns, rows];
}

function turned([x, y]: Step, turns: number): Step {
  return turns === 0 ? [x, y] : turned([-y, x], turns - 1);
}

function edgeOf([x, y]: Step): Edge {
  return edges.find((edge) => edgeSteps[edge][0] === x && edgeSteps[edge][1] === y) as Edge;
}

function times(factor: number, [a, b, c]: Vector): Vector {
  return [factor * a + 0, factor * b + 0, factor * c + 0]; // + 0: no -0 in what others may compare
}

function dot([a, b, c]: Vector, [d, e, f]: Vector): number {
  return a * d + b * e + c * f;
}
