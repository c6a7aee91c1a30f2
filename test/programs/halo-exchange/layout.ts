/** Where the parts are drawn: the plane as it is, the sphere's faces unfolded. */
import type { Mode } from './domain.ts';

export interface Layout {
  readonly columns: number;
  readonly rows: number;
  /** parts by which the next picture is further right: staircases stand close together */
  readonly stride: number;
  /** of each part, counted from the lower left one */
  readonly positions: readonly (readonly [column: number, row: number])[];
}

export const layouts: Record<Mode, Layout> = {
  plane: {
    columns: 2,
    rows: 2,
    stride: 2,
    positions: [
      [0, 0],
      [1, 0],
      [0, 1],
      [1, 1],
    ],
  },
  // From an even face the next one is on the right, from an odd one above, and none is turned.
  sphere: {
    columns: 4,
    rows: 3,
    stride: 2,
    positions: [
      [0, 0],
      [1, 0],
      [1, 1],
      [2, 1],
      [2, 2],
      [3, 2],
    ],
  },
};
