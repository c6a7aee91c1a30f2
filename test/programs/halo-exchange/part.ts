/**
 * One part of the field in a thread of its own: its cells, and around them a halo of two cells that
 * the neighbors send.
 */
import { HaloUpdater } from '../../../src/entries/halo.ts';
import { advance, type Field, newField, REACH, STAGES, sides, windBetween } from './advection.ts';
import { domainOf } from './domain.ts';
import { keep, type Plan } from './plan.ts';

/** The result of a part, and the milliseconds that its thread spent in all steps. */
export interface PartResult {
  steps: number;
  /** time of packing what is sent */
  start: number;
  /** time of computing the interior while the halo is on its way */
  meanwhile: number;
  /** time of waiting for the rest of the halo, and of unpacking it */
  wait: number;
  /** number of exchanges whose halo had arrived when the interior was done */
  early: number;
  massBefore: number;
  massAfter: number;
}

export function runPart(plan: Plan, rank: number): PartResult {
  using wind = new HaloUpdater(plan.wind, rank);
  using tracer = new HaloUpdater(plan.tracer, rank);
  try {
    const part = makePart(plan, rank);
    fillWinds(part, wind);
    return runSteps(plan, rank, part, tracer);
  } catch (error) {
    // The neighbors wait for this part. fail() passes the error to them.
    for (const each of [wind, tracer]) each.fail(error);
    throw error;
  }
}

interface Part {
  readonly field: Field;
  /** wind of each cell, along i and along j */
  readonly wind: readonly [Float64Array, Float64Array];
  /** distance in elements from a cell to the next one along i and along j */
  readonly strides: readonly [number, number];
  /**
   * indices of the cells outside of the halo, row by row: all, those that need no halo, and the
   * others
   */
  readonly cells: Int32Array;
  readonly interior: Int32Array;
  readonly rim: Int32Array;
}

function makePart({ mode, size }: Plan, rank: number): Part {
  const domain = domainOf(mode, size);
  const row = size + 2 * REACH;
  const field = newField(row * row);
  const wind = [new Float64Array(row * row), new Float64Array(row * row)] as const;
  const strides = [1, row] as const;
  const [cells, interior, rim]: [number[], number[], number[]] = [[], [], []];
  for (let j = 0; j < size; j++) {
    for (let i = 0; i < size; i++) {
      const at = (REACH + j) * row + REACH + i;
      cells.push(at);
      (Math.min(i, j, size - 1 - i, size - 1 - j) < REACH ? rim : interior).push(at);
      const cell = domain.cell(rank, i, j);
      field.areas[at] = cell.area;
      field.tracer[at] = cell.tracer;
      [wind[0][at], wind[1][at]] = cell.wind;
      for (const [k, { axis, step }] of sides.entries())
        for (const far of [1, 2])
          field.beside[8 * at + 2 * k + far - 1] = at + far * step * strides[axis];
    }
  }
  return {
    field,
    wind,
    strides,
    cells: Int32Array.from(cells),
    interior: Int32Array.from(interior),
    rim: Int32Array.from(rim),
  };
}

/**
 * Exchanges the winds as a vector. Over an edge to a rotated face, the i component of one is the j
 * component of the other, perhaps with reversed sign.
 */
function fillWinds({ field, wind, strides, cells }: Part, updater: HaloUpdater): void {
  updater.updateSync([{ data: wind[0] }], [{ data: wind[1] }]);
  for (const at of cells)
    for (const [k, { axis, step }] of sides.entries())
      field.winds[4 * at + k] = windBetween(
        wind[axis][at]!,
        wind[axis][at + step * strides[axis]]!,
      );
}

function runSteps(
  plan: Plan,
  rank: number,
  { field, cells, interior, rim }: Part,
  updater: HaloUpdater,
): PartResult {
  const times = { steps: 0, start: 0, meanwhile: 0, wait: 0, early: 0 };
  const mass = () => cells.reduce((sum, cell) => sum + field.tracer[cell]! * field.areas[cell]!, 0);
  const massBefore = mass();
  const progress = new Int32Array(plan.progress);
  const quantities = [[{ data: field.tracer }], [{ data: field.between }]] as const;
  const write = (to: Float64Array) => {
    to.set(
      Float64Array.from(cells, (cell) => field.tracer[cell]!),
      rank * cells.length,
    );
  };
  keep(plan, plan.parts, 0, write);
  for (let step = 1; step <= plan.steps; step++) {
    for (let stage = 0; stage < STAGES; stage++) {
      const begun = performance.now();
      updater.start(quantities[stage]!);
      const started = performance.now();
      advance(field, stage, interior);
      const computed = performance.now();
      if (updater.waitSync({ timeoutMs: 0 })) times.early++;
      else updater.waitSync();
      const arrived = performance.now();
      advance(field, stage, rim);
      times.start += started - begun;
      times.meanwhile += computed - started;
      times.wait += arrived - computed;
      times.steps += performance.now() - begun;
    }
    keep(plan, plan.parts, step, write);
    Atomics.store(progress, rank, step);
  }
  return { ...times, massBefore, massAfter: mass() };
}
