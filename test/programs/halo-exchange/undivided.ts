/**
 * Computes the same advection in one piece and one thread. It derives each cell's neighbors from
 * positions on the plane and in space. It uses neither the halo exchange nor its topologies.
 */
import { advance, newField, STAGES, sides, windBetween } from './advection.ts';
import type { Cell } from './cell.ts';
import { cellAt, keep, type Plan } from './plan.ts';
import { planeCell } from './plane.ts';
import { dot, faces, sphereCell, sum, type Vector } from './sphere.ts';

/** A neighboring cell. `axis` and `sign` give the direction there that continues the axis here. */
interface Beside {
  cell: number;
  axis: 0 | 1;
  sign: 1 | -1;
}

interface Whole {
  cells: number;
  cell(index: number): Cell;
  /** returns the cell that is one or two steps away along an axis */
  beside(index: number, axis: 0 | 1, steps: number): Beside;
  /** returns the index of a part's cell */
  index(at: { rank: number; i: number; j: number }): number;
}

/** Runs all steps and returns their milliseconds. */
export function runUndivided(plan: Plan): number {
  const { mode, size, steps, ranks } = plan;
  const whole = mode === 'plane' ? plane(size) : sphere(size);
  const field = newField(whole.cells);
  const all = Int32Array.from({ length: whole.cells }, (_, index) => index);
  const given = Array.from(all, (index) => whole.cell(index));
  for (const [index, { area, tracer, wind }] of given.entries()) {
    field.areas[index] = area;
    field.tracer[index] = tracer;
    for (const [k, { axis, step }] of sides.entries()) {
      const [near, far] = [whole.beside(index, axis, step), whole.beside(index, axis, 2 * step)];
      field.beside.set([near.cell, far.cell], 8 * index + 2 * k);
      const windThere = near.sign * given[near.cell]!.wind[near.axis];
      field.winds[4 * index + k] = windBetween(wind[axis], windThere);
    }
  }
  const progress = new Int32Array(plan.progress);
  const write = (to: Float64Array) => {
    for (let k = 0; k < to.length; k++) to[k] = field.tracer[whole.index(cellAt(size, k))]!;
  };
  keep(plan, plan.undivided, 0, write);
  const begun = performance.now();
  for (let step = 1; step <= steps; step++) {
    for (let stage = 0; stage < STAGES; stage++) advance(field, stage, all);
    keep(plan, plan.undivided, step, write);
    Atomics.store(progress, ranks, step);
  }
  return performance.now() - begun;
}

/**
 * Describes the plane: all rows in one array. A neighbor beyond one side is on the opposite side.
 */
function plane(size: number): Whole {
  const row = 2 * size;
  return {
    cells: row * row,
    cell: (index) => planeCell(size, index % row, Math.floor(index / row)),
    beside(index, axis, steps) {
      const at = [index % row, Math.floor(index / row)] as [number, number];
      at[axis] = (at[axis] + steps + row) % row;
      return { cell: at[1] * row + at[0], axis, sign: 1 };
    },
    index: ({ rank, i, j }) => (Math.floor(rank / 2) * size + j) * row + (rank % 2) * size + i,
  };
}

/**
 * Describes the sphere. Cells have integer coordinates on a cube with edges of 2 × size. A position
 * beyond a face's edge is folded onto the next face.
 */
function sphere(size: number): Whole {
  const split = (index: number) =>
    [Math.floor(index / size ** 2), index % size, Math.floor(index / size) % size] as const;
  return {
    cells: 6 * size * size,
    cell: (index) => sphereCell(size, ...split(index)),
    beside(index, axis, steps) {
      const [face, i, j] = split(index);
      const mine = faces[face]!;
      const at = [2 * i + 1 - size, 2 * j + 1 - size] as [number, number];
      at[axis] += 2 * steps;
      const beyond = Math.abs(at[axis]) - size;
      if (beyond < 0) return { cell: index + steps * (axis === 0 ? 1 : size), axis, sign: 1 };
      const out = Math.sign(at[axis]);
      at[axis] = out * size;
      const folded = sum([size - beyond, mine.normal], [at[0], mine.i], [at[1], mine.j]);
      const onwards = sum([-out, mine.normal]);
      const there = faces.findIndex(({ normal }) => dot(folded, normal) === size);
      return { cell: cellOn(there, folded), ...direction(there, onwards) };
    },
    index: ({ rank, i, j }) => (rank * size + j) * size + i,
  };

  function cellOn(face: number, point: Vector): number {
    const [i, j] = [faces[face]!.i, faces[face]!.j].map(
      (axis) => (dot(point, axis) + size - 1) / 2,
    ) as [number, number];
    return (face * size + j) * size + i;
  }
}

/** Returns the axis of a face that points in this direction, and its sign. */
function direction(face: number, way: Vector): Pick<Beside, 'axis' | 'sign'> {
  const [alongI, alongJ] = [dot(faces[face]!.i, way), dot(faces[face]!.j, way)];
  return alongI !== 0 ? { axis: 0, sign: alongI as 1 | -1 } : { axis: 1, sign: alongJ as 1 | -1 };
}
