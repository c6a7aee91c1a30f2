/** What the threads are given: plain data and shared memory, made once by the main thread. */
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
  /** cells along each side of a part */
  readonly size: number;
  readonly steps: number;
  readonly ranks: number;
  /** the tracer's halo before every stage; that of the wind, a vector, once */
  readonly tracer: SharedHaloExchange;
  readonly wind: SharedHaloExchange;
  /**
   * the field at first, after a third and after all of the steps: the parts' cells, row by row; the
   * undivided run's
   */
  readonly parts: SharedArrayBuffer;
  readonly undivided: SharedArrayBuffer;
  /** steps done, by each part and by the undivided run */
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

/** Steps after which the field is kept. */
export function framesAt(steps: number): readonly [first: number, underWay: number, last: number] {
  return [0, Math.round(steps / 3), steps];
}

/** All cells of a field that was kept: part after part, row after row. */
export function frame(
  { size, ranks }: Plan,
  frames: SharedArrayBuffer,
  index: number,
): Float64Array {
  const cells = ranks * size * size;
  return new Float64Array(frames, 8 * index * cells, cells);
}

/** Which cell is number `k` there. */
export function cellAt(size: number, k: number): { rank: number; i: number; j: number } {
  const row = Math.floor(k / size);
  return { rank: Math.floor(row / size), i: k % size, j: row % size };
}

/** Has `write` fill each frame that belongs to this step. */
export function keep(
  plan: Plan,
  frames: SharedArrayBuffer,
  step: number,
  write: (to: Float64Array) => void,
): void {
  for (const [index, at] of framesAt(plan.steps).entries())
    if (at === step) write(frame(plan, frames, index));
}
