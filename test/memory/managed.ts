/**
 * Helpers of the tests of managed memory: a pool on the tested device, or the reason why there is
 * none.
 */

import {
  compileAllocator,
  createUnifiedMempool,
  type UnifiedMempool,
} from '../../src/entries/memory.ts';
import type { Stream, Tensor } from '../../src/index.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

/**
 * Opens a pool before the suite's tests and closes it after them. If the driver has no managed
 * memory, skips the tests.
 */
export function pooled(): () => UnifiedMempool {
  let pool: UnifiedMempool | undefined;
  before(async function () {
    await compileAllocator();
    try {
      pool = createUnifiedMempool(TESTED);
    } catch (error) {
      if (ON_HOST || (error as { code?: string }).code !== 'ERR_HOTSLOT_UNAVAILABLE') throw error;
      this.skip(); // the tested driver has no managed memory. The CPU device always has
    }
  });
  after(() => pool?.close());
  return () => pool as UnifiedMempool;
}

/** Wraps a stream and records its prefetches as [byteOffset, bytes, device]. */
export function noted(stream: Stream): { stream: Stream; asked: number[][] } {
  const asked: number[][] = [];
  const { device } = stream;
  const prefetch = (tensor: Tensor, to: number) => {
    asked.push([tensor.byteOffset, tensor.bytes, to]);
    stream.prefetch(tensor, to);
  };
  return { stream: { device, prefetch } as Stream, asked };
}
