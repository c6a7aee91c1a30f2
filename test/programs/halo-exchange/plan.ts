/**
 * The data that the main thread creates once and passes to all threads: plain values and shared
 * memory.
 */
import type {
  HaloExchangeOptions,
  QuantityHaloOptions,
  SharedHaloExchange,
} from '../../../src/entries/halo.ts';
import { shareHaloExchange } from '../../../src/entries/halo.ts';
import { REACH } from './advection.ts';
import { domainOf, type Mode } from './domain.ts';

export interface Plan {
  readonly mode: Mode;
  /** number of cells along each side of a part */
  readonly size: number;
  readonly steps: number;
  readonly ranks: number;
  /**
   * exchange of the tracer's halo, before every stage, and of the wind's halo, once at the start
   */
  readonly tracer: SharedHaloExchange;
  readonly wind: SharedHaloExchange;
  /**
   * kept fields at the start, after a third of the steps and at the end, from the parts and from
   * the undivided run. Cells are in order of parts and rows
   */
  readonly parts: SharedArrayBuffer;
  readonly undivided: SharedArrayBuffer;
  /** number of finished steps of each part, and last of the undivided run */
  readonly progress: SharedArrayBuffer;
}

export function planOf(
  mode: Mode,
  size: number,
  steps: number,
  share: (options: HaloExchangeOptions) => SharedHaloExchange = shareHaloExchange,
): Plan {
  const { topology } = domainOf(mode, size);
  const { ranks } = topology;
  const quantity: QuantityHaloOptions = {
    nPoints: REACH,
    shape: [size + 2 * REACH, size + 2 * REACH],
    origin: [REACH, REACH],
    extent: [size, size],
    dims: ['j', 'i'],
    dtype: 'float64',
  };
  const frames = () => new SharedArrayBuffer(8 * framesAt(steps).length * ranks * size * size);
  return {
    mode,
    size,
    steps,
    ranks,
    tracer: share({ topology, x: [quantity] }),
    wind: share({ topology, x: [quantity], y: [quantity], points: 1 }),
    parts: frames(),
    undivided: frames(),
    progress: new SharedArrayBuffer(4 * (ranks + 1)),
  };
}

/** Returns the steps after which the field is kept. */
export function framesAt(steps: number): readonly [first: number, underWay: number, last: number] {
  return [0, Math.round(steps / 3), steps];
}

/** Returns all cells of a kept field, in order of parts and rows. */
export function frame(
  { size, ranks }: Plan,
  frames: SharedArrayBuffer,
  index: number,
): Float64Array {
  const cells = ranks * size * size;
  return new Float64Array(frames, 8 * index * cells, cells);
}

/** Returns the position of the cell with index `k` in a kept field. */
export function cellAt(size: number, k: number): { rank: number; i: number; j: number } {
  const row = Math.floor(k / size);
  return { rank: Math.floor(row / size), i: k % size, j: row % size };
}

/** Calls `write` for each kept field that belongs to this step. */
export function keep(
  plan: Plan,
  frames: SharedArrayBuffer,
  step: number,
  write: (to: Float64Array) => void,
): void {
  for (const [index, at] of framesAt(plan.steps).entries())
    if (at === step) write(frame(plan, frames, index));
}
