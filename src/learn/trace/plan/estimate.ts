/**
 * Estimates how long launches run in a graph of a GPU. The numbers are those of one card, an H100, and
 * stand for every GPU. They decide only whether a section gets a side stream.
 *
 * Measured on 27 November 2026, partly by programs outside of this repository (`bench/results/h100`):
 * - A node of a chain of empty kernels took 0.95 µs.
 * - Small elementwise kernels took 2.7 to 3.5 µs, and sums and draws of random numbers 3.5 to 4.2 µs.
 *   With 3 MB each, `bias_act` took 5.7 µs.
 * - A product with bias and ReLU by a kernel of square tiles took 2.8 µs for 128 × 120 × 4. It took 4.4 µs
 *   for 128 × 84 × 120, and 5.5 µs for 256 × 256 × 98. It took 9.1 µs for 256 × 256 × 256, and 43 µs for
 *   2,048 × 512 × 98. The formula below differs by at most 21 % from nine such figures.
 * - Products of cuBLAS took 5 to 15 µs at 128 to 256 rows, and 11.5 µs at 2,048 rows on average.
 *
 * Assumed, because no card has run it:
 * - An edge between two streams costs 1.5 µs more than one within a stream.
 * - Launches run side by side without slowing each other if both fit on the device, and one after the
 *   other if not. A tile of a product fills one of 132 multiprocessors: twice the tiles took twice the
 *   time. Other kernels fill a multiprocessor with 2,048 elements. cuBLAS fills the device.
 * - A layer of a user takes as long as three small kernels.
 */
import type { Launch } from './launches.ts';

/** Microseconds that an edge between two streams takes. */
export const EDGE = 1.5;

const MULTIPROCESSORS = 132;
const THREADS = 2048;
/** Side of a tile of Hotslot's products. */
const TILE = 16;
/** Bytes that a device moves in a microsecond. */
const BYTES = 1.2e6;

/** Microseconds of a small launch. Names are the beginnings of kernels' names. */
const SMALL: readonly (readonly [name: string, time: number])[] = [
  ['random_', 3.5 + 2.7], // the launch that advances the generator follows
  ['reduce_rows', 4.2],
  ['sum_', 4.2],
  ['column_sums', 3.7],
  ['squashed_gaussian', 4.1],
  ['norm_act', 4],
  ['categorical', 5],
  ['', 3.2],
];

/** Time of a launch in microseconds, and the share of the device that it fills, at most 1. */
export interface Cost {
  readonly time: number;
  readonly share: number;
}

/** Returns the numbers of products, rows, columns and terms of a launch, or null for other kernels. */
function productOf({ kernel, wholes }: Launch): readonly number[] | null {
  const from = { gemm: 2, gemm_batched: 2, linear_act: 0, linear_gradients: 0, linear_backward: 0 };
  const at = from[kernel as keyof typeof from];
  if (at === undefined) return null;
  if (kernel === 'gemm') return [1, ...(wholes.slice(at, at + 3) as number[])];
  return wholes.slice(at, at + 4) as number[];
}

/** Whether cuBLAS may compute the launch, which takes memory of each stream with products. */
export const mayBeVendors = ({ kernel }: Launch): boolean => kernel.startsWith('gemm');

/** Estimates the time of a launch on a GPU that does nothing else. */
export function costOf(launch: Launch): Cost {
  const { kernel, views, call } = launch;
  if (call) return { time: 3 * 3.2, share: 1 };
  const product = productOf(launch);
  if (product) {
    const [batch, m, n, k] = product as [number, number, number, number];
    const millions = (batch * m * n * k) / 1e6;
    if (mayBeVendors(launch)) return { time: 5 + 0.04 * millions, share: 1 };
    const tiles = batch * Math.ceil(m / TILE) * Math.ceil(n / TILE);
    const time = 2.7 + Math.max(0.0146 * k, 0.38 * millions);
    return { time, share: Math.min(tiles / MULTIPROCESSORS, 1) };
  }
  const sizes = views.map(({ shape }) => shape.reduce((size, length) => size * length, 1));
  const bytes = 4 * sizes.reduce((sum, size) => sum + size, 0);
  const small = SMALL.find(([name]) => kernel.startsWith(name))![1];
  const share = Math.max(...sizes) / (MULTIPROCESSORS * THREADS);
  return { time: small + bytes / BYTES, share: Math.min(share, 1) };
}
