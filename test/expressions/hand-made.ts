/** Launches of plans that tests make by hand. They are never enqueued. */
import type { Buffer, Launch, View } from '../../src/learn/trace/plan/launches.ts';

/** Returns memory of a plan. */
export const arena = (size: number, more: object = {}): Buffer => ({
  kind: 'arena',
  size,
  name: '',
  dtype: 'float32',
  tensor: null,
  output: false,
  readers: 1,
  ...more,
});
/** Returns a view of a whole buffer, as one row. */
export const all = (buffer: Buffer): View => ({
  buffer,
  offset: 0,
  shape: [1, buffer.size],
  strides: [buffer.size, 1],
});
/** Returns a launch that writes its first view. */
export const launch = (
  kernel: string,
  views: readonly View[],
  more: Partial<Launch> = {},
): Launch => ({
  kernel,
  views,
  writes: 1,
  inPlace: [],
  wholes: [],
  reals: [],
  node: {} as Launch['node'],
  section: 0,
  ...more,
});
