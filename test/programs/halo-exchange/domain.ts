/** The domain that is divided into parts: the neighbors of each part, and its cells. */
import {
  cubedSphereTopology,
  type HaloTopology,
  periodicTopology,
} from '../../../src/entries/halo.ts';
import type { Cell } from './cell.ts';
import { planeCell } from './plane.ts';
import { sphereCell } from './sphere.ts';

export const modes = ['plane', 'sphere'] as const;
export type Mode = (typeof modes)[number];

export interface Domain {
  /**
   * neighbors without corners, because a cell depends only on cells to its left and right, and
   * below and above it
   */
  readonly topology: HaloTopology;
  cell(rank: number, i: number, j: number): Cell;
}

/** Returns a domain whose parts have `size` × `size` cells. */
export function domainOf(mode: Mode, size: number): Domain {
  if (mode === 'sphere')
    return {
      topology: cubedSphereTopology({ corners: false }),
      cell: (face, i, j) => sphereCell(size, face, i, j),
    };
  const topology = periodicTopology({ layout: [2, 2], corners: false });
  return {
    topology,
    cell(rank, i, j) {
      const { column, row } = topology.places[rank]!;
      return planeCell(size, column * size + i, row * size + j);
    },
  };
}
