/** A cell of the plane or of the sphere. */

export interface Cell {
  /** area, as a fraction of the whole plane or sphere */
  readonly area: number;
  /** flow through the cell in a step, as an area: along +i and along +j */
  readonly wind: readonly [alongI: number, alongJ: number];
  /** value at step 0 */
  readonly tracer: number;
}

/**
 * Returns the number of steps after which the field is back where it began. A part has `size` cells
 * along each side.
 */
export const onceAround = (size: number) => 12 * size;
