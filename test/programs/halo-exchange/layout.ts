/**
 * The positions of the parts in a picture. The plane is drawn as it is, and the faces of the sphere
 * are unfolded.
 */
import type { Mode } from './domain.ts';

export interface Layout {
  readonly columns: number;
  readonly rows: number;
  /**
   * distance in parts to the picture on the right, which may be less than the width, because
   * staircases fit into each other
   */
  readonly stride: number;
  /** position of each part, counted from the lower left */
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
  // The neighbor over an even face's E edge is drawn to its right. The neighbor over an odd face's
  // N edge is drawn above it. Neither is rotated.
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
