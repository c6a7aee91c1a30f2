/**
 * Which rank is whose neighbour: a periodic plane and the six faces of a cube, split over ranks.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type Edge, edgeSteps, edges } from './edges.ts';

export interface HaloNeighbour {
  /** my edge, over which data leaves for this neighbour and arrives from it */
  readonly edge: Edge;
  readonly rank: number;
  /** the neighbour's edge at which mine arrives, and over which it sends to me */
  readonly edgeThere: Edge;
  /** 0 to 3: packClockwiseRotation of what I send */
  readonly clockwiseRotation: number;
}

/** Where a rank's part lies: columns count along x, rows along y. */
export interface HaloPlace {
  readonly face: number;
  readonly column: number;
  readonly row: number;
}

/**
 * Plain frozen data, to be posted to other threads. A rank is column + columns × (row + rows ×
 * face).
 */
export interface HaloTopology {
  readonly ranks: number;
  /** columns and rows of each face */
  readonly layout: readonly [columns: number, rows: number];
  readonly places: readonly HaloPlace[];
  /**
   * of each rank, edges before corners; the same rank can be there more than once, and a rank can
   * be its own neighbour
   */
  readonly neighbours: readonly (readonly HaloNeighbour[])[];
}

export interface PeriodicTopologyOptions {
  /** one number is a ring along i, for arrays without j: neighbours over E and W alone */
  layout: readonly [columns: number, rows: number] | readonly [columns: number];
  /** with diagonal neighbours; true when left out */
  corners?: boolean;
}

/**
 * A doubly periodic plane, or a ring. Ranks of a row have equal rows of cells, ranks of a column
 * equal columns.
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
  /** of each face; [1, 1] when left out */
  layout?: readonly [columns: number, rows: number];
  corners?: boolean;
}

/**
 * Six faces, arranged as in `cubeFaces`. Neighbours across an edge between faces may lie turned to
 * each other; at the cube's eight corners, where three faces meet, there is no diagonal neighbour.
 * Every rank has as many cells along x as along y, all ranks equally many: where the axes turn,
 * one's columns lie beside the other's rows. For the same reason a scalar has both interface
 * dimensions or none; of a vector, y has the dimension on an interface that x has not.
 *
 * Throws RangeError for a layout that is not square.
 */
export function cubedSphereTopology(options: CubedSphereTopologyOptions = {}): HaloTopology {
  checkKeys('cubedSphereTopology', options, ['layout', 'corners']);
  const [columns, rows] = checkLayout(options.layout ?? [1, 1]);
  if (columns !== rows)
    throw rangeError(
      `the layout of a cube's faces is square, got [${columns}, ${rows}]: turned faces would join ${columns} ranks to ${rows}`,
    );
  return topology(cubeFaces.length, [columns, rows], crossedEdges(options.corners), (place, step) =>
    overCube(place, step, columns),
  );
}

type Vector = readonly [number, number, number];

/**
 * A cube's face in space, seen from outside: the outward normal, and the directions in which i and
 * j grow.
 */
export interface CubeFace {
  readonly normal: Vector;
  readonly x: Vector;
  readonly y: Vector;
}

/**
 * The six faces are a staircase: from an even face the next one is over E, from an odd one over N,
 * and neither turns.
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
 * The part one step away; `turns` quarter turns counter-clockwise lie between its axes and mine.
 */
type Beside = { place: HaloPlace; turns: number } | null;

function overCube({ face, column, row }: HaloPlace, [stepX, stepY]: Step, n: number): Beside {
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
  // Folded over the edge, a direction along the edge stays and the one out of the face becomes the
  // one into the cube.
  const folded = outX === 0 ? x : times(-outX, normal);
  const turns = [there.x, there.y, times(-1, there.x), times(-1, there.y)].findIndex(
    (axis) => dot(axis, folded) === 1,
  );
  // Unfolded into my plane, the other face's centre is a whole face away. In half parts, to stay
  // among whole numbers.
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
  beside: (place: HaloPlace, step: Step) => Beside,
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
  const neighbours = places.map((place) =>
    Object.freeze(
      crossed.flatMap((edge): HaloNeighbour[] => {
        const [x, y] = edgeSteps[edge];
        const found = beside(place, [x, y]);
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
    neighbours: Object.freeze(neighbours),
  });
}

function crossedEdges(corners: boolean | undefined): readonly Edge[] {
  if (corners !== undefined && typeof corners !== 'boolean')
    throw typeError(`corners is true or false, got ${describeValue(corners)}`);
  return corners === false ? edges.filter((edge) => edge.length === 1) : edges;
}

/** Every rank has a place and a list of neighbours here. */
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
