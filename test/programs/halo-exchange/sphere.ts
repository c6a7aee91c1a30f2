/**
 * The cubed sphere: six faces, whose cells have equal angles as seen from the center. The wind
 * rotates the whole sphere around one axis.
 */
import { type Cell, onceAround } from './cell.ts';

export type Vector = readonly [number, number, number];

/** A face's outward normal, and the directions of its i and j. */
export interface Face {
  readonly normal: Vector;
  readonly i: Vector;
  readonly j: Vector;
}

/**
 * The faces in the order of cubedSphereTopology(). The next face is over edge E of an even face,
 * and over edge N of an odd face, without a rotation.
 */
export const faces: readonly Face[] = [
  { normal: [1, 0, 0], i: [0, 1, 0], j: [0, 0, 1] },
  { normal: [0, 1, 0], i: [-1, 0, 0], j: [0, 0, 1] },
  { normal: [0, 0, 1], i: [-1, 0, 0], j: [0, -1, 0] },
  { normal: [-1, 0, 0], i: [0, 0, -1], j: [0, -1, 0] },
  { normal: [0, -1, 0], i: [0, 0, -1], j: [1, 0, 0] },
  { normal: [0, 0, -1], i: [0, 1, 0], j: [1, 0, 0] },
];

/**
 * The cylinder starts on face 0 and passes the corner of faces 0, 1 and 2 at a distance of 3°. The
 * bell is on the opposite side.
 */
const HEADING = 0.85;
const start: Vector = [1, 0, 0];
const east: Vector = [0, Math.cos(HEADING), Math.sin(HEADING)];
export const axis: Vector = [0, -Math.sin(HEADING), Math.cos(HEADING)];

/**
 * Radii of the bell and the cylinder. Below them half the slot's width, and its depth from the
 * cylinder's center.
 */
const BELL = 0.7;
const CYLINDER = 0.66;
const SLOT = [0.13, 0.25] as const;

export const dot = (a: Vector, b: Vector) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const sum = (...parts: readonly (readonly [factor: number, of: Vector])[]): Vector =>
  [0, 1, 2].map((d) =>
    parts.reduce((all, [factor, of]) => all + factor * of[d]!, 0),
  ) as unknown as Vector;
const cross = ([a, b, c]: Vector, [d, e, f]: Vector): Vector => [
  b * f - c * e,
  c * d - a * f,
  a * e - b * d,
];

/**
 * Returns a point on the unit sphere. Integer i and j are corners of cells, and halves are centers.
 */
export function pointAt(size: number, face: number, i: number, j: number): Vector {
  const { normal, i: right, j: up } = faces[face]!;
  const [x, y] = [i, j].map((at) => Math.tan((Math.PI / 4) * ((2 * at) / size - 1))) as [
    number,
    number,
  ];
  const length = Math.sqrt(1 + x * x + y * y);
  return sum([1 / length, normal], [x / length, right], [y / length, up]);
}

/**
 * Returns the cylinder's center after `step` steps, and the direction of the wind there, which is
 * to the right.
 */
export function cylinderAt(step: number, size: number): { centre: Vector; right: Vector } {
  const angle = (2 * Math.PI * step) / onceAround(size);
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return { centre: sum([cos, start], [sin, east]), right: sum([-sin, start], [cos, east]) };
}

export function sphereCell(size: number, face: number, i: number, j: number): Cell {
  const corner = (right: number, up: number) => pointAt(size, face, i + right, j + up);
  const [southWest, southEast, northEast, northWest] = [
    corner(0, 0),
    corner(1, 0),
    corner(1, 1),
    corner(0, 1),
  ];
  // The flow of a rotation through a line is its angle times the difference in height of the line's
  // ends. It is scaled so that the whole sphere, 4π, is 1.
  const angle = (2 * Math.PI) / onceAround(size);
  const between = (from: Vector, to: Vector) =>
    (angle * (dot(axis, to) - dot(axis, from))) / (4 * Math.PI);
  const alongI = (between(southWest, northWest) + between(southEast, northEast)) / 2;
  const alongJ = (between(southEast, southWest) + between(northEast, northWest)) / 2;
  const area =
    triangle(southWest, southEast, northEast) + triangle(southWest, northEast, northWest);
  return { area: area / (4 * Math.PI), wind: [alongI, alongJ], tracer: tracer(corner(0.5, 0.5)) };
}

/** Returns the solid angle of a spherical triangle. */
function triangle(a: Vector, b: Vector, c: Vector): number {
  return 2 * Math.atan2(dot(a, cross(b, c)), 1 + dot(a, b) + dot(b, c) + dot(c, a));
}

function tracer(point: Vector): number {
  const fromBell = Math.acos(Math.max(-1, Math.min(1, -dot(point, start))));
  if (fromBell < BELL) return (1 + Math.cos((Math.PI * fromBell) / BELL)) / 2;
  if (dot(point, start) < Math.cos(CYLINDER)) return 0;
  return Math.abs(dot(point, east)) < SLOT[0] && dot(point, axis) < SLOT[1] ? 0 : 1;
}
