/**
 * The doubly periodic plane, 1 × 1. The wind crosses it twice along x while it crosses it once
 * along y.
 */
import type { Cell } from './cell.ts';

const BELL = 0.24;
const CYLINDER = 0.22;
/** half the slot's width, and its depth from the cylinder's center */
const SLOT = [0.045, 0.09] as const;

/** Returns a cell. Columns and rows count over all 2 × 2 parts. */
export function planeCell(size: number, column: number, row: number): Cell {
  const side = 1 / (2 * size);
  const [x, y] = [(column + 0.5) * side, (row + 0.5) * side];
  const area = side * side;
  return {
    area,
    wind: [area / 3, area / 6],
    tracer: bell(x, y) + slottedCylinder(x - 0.5, y - 0.5),
  };
}

/** Returns the value of the bell, whose center is where the corners of the plane meet. */
function bell(x: number, y: number): number {
  const distance = Math.hypot(Math.min(x, 1 - x), Math.min(y, 1 - y));
  return distance < BELL ? (1 + Math.cos((Math.PI * distance) / BELL)) / 2 : 0;
}

function slottedCylinder(x: number, y: number): number {
  return Math.hypot(x, y) < CYLINDER && !(Math.abs(x) < SLOT[0] && y < SLOT[1]) ? 1 : 0;
}
