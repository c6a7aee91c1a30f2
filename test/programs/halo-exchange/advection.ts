/**
 * What happens in a cell: a limited scheme of second order in flux form, with Heun's two stages per
 * step. It looks two cells far along each axis. The parts and the undivided run share this
 * arithmetic; each finds a cell's neighbors itself.
 */

/** Cells that it looks far: the halo points that a part needs. */
export const REACH = 2;
export const STAGES = 2;
/**
 * A cell's sides in the order of `winds`, and in `beside` two cells beyond each, the nearer one
 * first.
 */
export const sides = [
  { axis: 0, step: -1 },
  { axis: 0, step: 1 },
  { axis: 1, step: -1 },
  { axis: 1, step: 1 },
] as const;

export interface Field {
  readonly tracer: Float64Array;
  /** what the first stage makes of it */
  readonly between: Float64Array;
  readonly areas: Float64Array;
  /** four per cell: what goes through its W, E, S and N side in a step, along +i and +j */
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

/** The wind through the side of two cells: their mean, the same from either of them. */
export const windBetween = (one: number, other: number) => (one + other) / 2;

/**
 * The monotonised central mean of two slopes. With both signs turned it is the same with its sign
 * turned.
 */
function limited(a: number, b: number): number {
  if (a * b <= 0) return 0;
  const mean = (a + b) / 2;
  return a > 0 ? Math.min(2 * a, 2 * b, mean) : Math.max(2 * a, 2 * b, mean);
}

/**
 * What the wind carries through a side, from the two cells before it and the two behind it. With
 * the cells' order and the wind's sign turned, only its sign turns, bit for bit. So nothing gets
 * lost between two parts with different axes.
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
 * One stage of a step in these cells: 0 fills `between` from `tracer`, 1 `tracer` from `between`.
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
