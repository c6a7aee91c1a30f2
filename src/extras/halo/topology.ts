/** Computes each rank's neighbors. The ranks share a periodic plane, or the six faces of a cube. */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type Edge, edgeSteps, edges } from './edges.ts';

export interface HaloNeighbor {
  /** this rank's edge, over which it sends to and receives from the neighbor */
  readonly edge: Edge;
  readonly rank: number;
  /** the neighbor's edge, over which the neighbor sends to and receives from this rank */
  readonly edgeThere: Edge;
  /** packClockwiseRotation for the data that this rank sends to the neighbor, 0 to 3 */
  readonly clockwiseRotation: number;
}

/** @deprecated `HaloNeighbor`, until 0.5 */
export type HaloNeighbour = HaloNeighbor;

/** The position of a rank's part of the domain. Columns count along x, and rows along y. */
export interface HaloPlace {
  readonly face: number;
  readonly column: number;
  readonly row: number;
}

/**
 * The ranks of an exchange and their neighbors, as frozen plain data that can be posted to other
 * threads. A rank's number is column + columns × (row + rows × face).
 */
export interface HaloTopology {
  readonly ranks: number;
  /** columns and rows of each face */
  readonly layout: readonly [columns: number, rows: number];
  readonly places: readonly HaloPlace[];
  /**
   * neighbors of each rank, over edges first and then over corners. A list can contain a rank more
   * than once, and even the rank itself
   */
  readonly neighbors: readonly (readonly HaloNeighbor[])[];
  /** @deprecated `neighbors`, until 0.5: the same lists */
  readonly neighbours: readonly (readonly HaloNeighbor[])[];
}

export interface PeriodicTopologyOptions {
  /**
   * columns and rows of ranks. [columns] alone is a ring along i, for arrays without dimension j.
   * The ranks of a ring have neighbors over E and W only
   */
  layout: readonly [columns: number, rows: number] | readonly [columns: number];
  /** whether ranks have diagonal neighbors (default: true) */
  corners?: boolean;
}

/**
 * Returns the topology of a plane that is periodic in both dimensions, or of a ring. All ranks of a
 * row must have the same number of rows of cells. All ranks of a column must have the same number
 * of columns of cells.
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
 * Returns the topology of a cube's six faces, arranged as in `cubeFaces`. Neighbors on different
 * faces may be turned relative to each other. Ranks have no diagonal neighbor at the cube's eight
 * corners, where three faces meet.
 *
 * If two neighbors are turned, columns of one are adjacent to rows of the other. All ranks must
 * therefore have the same number of cells, with as many along x as along y. For the same reason, a
 * scalar must have both interface dimensions or neither. The y component of a vector must have the
 * interface dimension that its x component lacks.
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
 * A face of a cube in space. `normal` points outward. `x` and `y` are the directions in which i and
 * j grow.
 */
export interface CubeFace {
  readonly normal: Vector;
  readonly x: Vector;
  readonly y: Vector;
}

/**
 * The six faces, which form a staircase. Face n + 1 is across edge E of face n if n is even, and
 * across edge N if n is odd. Face n + 1 is not turned relative to face n.
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
 * The part of the domain that is one step away from another part, or null across a corner of the
 * cube. `turns` is the number of clockwise quarter turns from the other part's axes to the axes of
 * this part.
 */
type NextPart = { place: HaloPlace; turns: number } | null;

function overCube({ face, column, row }: HaloPlace, [stepX, stepY]: Step, n: number): NextPart {
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
  // The direction of this face's x axis after it is folded over the edge onto the other face. An
  // axis along the edge does not change. An axis that points across the edge then points into the
  // cube, against `normal`. An axis that points away from the edge then points along `normal`.
  const folded = outX === 0 ? x : times(-outX, normal);
  const turns = [there.x, there.y, times(-1, there.x), times(-1, there.y)].findIndex(
    (axis) => dot(axis, folded) === 1,
  );
  // The other part's position relative to the other face's center, in this face's axes. The other
  // face is unfolded into this face's plane. The unit is half a part, so all values are integers.
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
  neighborOf: (place: HaloPlace, step: Step) => NextPart,
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
        const found = neighborOf(place, [x, y]);
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

/** Maximum number of ranks. It bounds a topology's memory, which grows with each rank. */
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
  return [factor * a + 0, factor * b + 0, factor * c + 0]; // + 0 turns −0 into 0
}

function dot([a, b, c]: Vector, [d, e, f]: Vector): number {
  return a * d + b * e + c * f;
}
