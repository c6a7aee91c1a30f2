/**
 * The arithmetic of a cell: a limited second-order scheme in flux form, with Heun's two stages per
 * step. It reads two cells in each direction along each axis. The parts and the undivided run share
 * this arithmetic. Each of them finds the neighbors of a cell in its own way.
 */

/**
 * Number of cells that the scheme reads in each direction, and so the number of halo points of a
 * part.
 */
export const REACH = 2;
export const STAGES = 2;
/**
 * The sides of a cell in the order of `winds`. `beside` holds two cells for each side, the nearer
 * one first.
 */
export const sides = [
  { axis: 0, step: -1 },
  { axis: 0, step: 1 },
  { axis: 1, step: -1 },
  { axis: 1, step: 1 },
] as const;

export interface Field {
  readonly tracer: Float64Array;
  /** the tracer after the first stage */
  readonly between: Float64Array;
  readonly areas: Float64Array;
  /** four per cell: the flow through its W, E, S and N side in a step, positive along +i and +j */
  readonly winds: Float64Array;
  /** eight per cell: the indices of W, WW, E, EE, S, SS, N, NN */
  readonly beside: Int32Array;
}

export function newField(cells: number): Field {
  return {
    tracer: new Float64Array(cells),
    between: new Float64Array(cells),
    areas: new Float64Array(cells),
    winds: new Float64Array(4 * cells),
    beside: new Int32Array(8 * cells),
  };
}

/**
 * Returns the wind through the side between two cells, which is their mean. The order of the cells
 * does not matter.
 */
export const windBetween = (one: number, other: number) => (one + other) / 2;

/**
 * Returns the monotonized central limiter of two slopes. If both signs are reversed, only the sign
 * of the result changes.
 */
function limited(a: number, b: number): number {
  if (a * b <= 0) return 0;
  const mean = (a + b) / 2;
  return a > 0 ? Math.min(2 * a, 2 * b, mean) : Math.max(2 * a, 2 * b, mean);
}

/**
 * Returns what the wind carries through a side, from the two cells before it and the two cells
 * after it. If the order of cells and the sign of the wind are reversed, only the result's sign
 * changes, bit for bit. So no mass is lost between two parts with different axes.
 */
export function flux(
  wind: number,
  before2: number,
  before: number,
  behind: number,
  behind2: number,
): number {
  return wind >= 0
    ? wind * (before + limited(before - before2, behind - before) / 2)
    : wind * (behind - limited(behind2 - behind, behind - before) / 2);
}

/**
 * Computes one stage of a step in these cells. Stage 0 computes `between` from `tracer`, and stage
 * 1 computes `tracer` from `between`.
 */
export function advance(
  { tracer, between, areas, winds, beside }: Field,
  stage: number,
  cells: Int32Array,
): void {
  const [from, to] = stage === 0 ? [tracer, between] : [between, tracer];
  const at = (neighbor: number) => from[beside[neighbor]!]!;
  for (let k = 0; k < cells.length; k++) {
    const cell = cells[k]!;
    const here = from[cell]!;
    const [side, near] = [4 * cell, 8 * cell];
    const [w, e, s, n] = [at(near), at(near + 2), at(near + 4), at(near + 6)];
    const west = flux(winds[side]!, at(near + 1), w, here, e);
    const east = flux(winds[side + 1]!, w, here, e, at(near + 3));
    const south = flux(winds[side + 2]!, at(near + 5), s, here, n);
    const north = flux(winds[side + 3]!, s, here, n, at(near + 7));
    const stepped = here - (east - west + (north - south)) / areas[cell]!;
    to[cell] = stage === 0 ? stepped : (to[cell]! + stepped) / 2;
  }
}
