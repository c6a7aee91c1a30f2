/** What a cell is, on the plane and on the sphere. */

export interface Cell {
  /** plane and sphere have 1 in all */
  readonly area: number;
  /** what the wind carries through it in a step, as an area: along +i and along +j */
  readonly wind: readonly [alongI: number, alongJ: number];
  /** at first */
  readonly tracer: number;
}

/** Steps after which everything is back where it began; a part has `size` cells along each side. */
export const onceAround = (size: number) => 12 * size;
