/** What the tests of managed memory share: a pool on the tested device, or why there is none. */

import {
  compileAllocator,
  createUnifiedMempool,
  type UnifiedMempool,
} from '../../src/entries/memory.ts';
import type { Stream, Tensor } from '../../src/index.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

/**
 * Opens the pool before the suite's tests, and closes it behind them; a driver without managed
 * memory skips them.
 */
export function pooled(): () => UnifiedMempool {
  let pool: UnifiedMempool | undefined;
  before(async function () {
    await compileAllocator();
    try {
      pool = createUnifiedMempool(TESTED);
    } catch (error) {
      if (ON_HOST || (error as { code?: string }).code !== 'ERR_HOTSLOT_UNAVAILABLE') throw error;
      this.skip(); // the tested driver has none; the host device always has
    }
  });
  after(() => pool?.close());
  return () => pool as UnifiedMempool;
}

/**
 * A stream that does what `stream` does and keeps what it was asked to prefetch: [byteOffset,
 * bytes, device].
 */
export function noted(stream: Stream): { stream: Stream; asked: number[][] } {
  const asked: number[][] = [];
  const { device } = stream;
  const prefetch = (tensor: Tensor, to: number) => {
    asked.push([tensor.byteOffset, tensor.bytes, to]);
    stream.prefetch(tensor, to);
  };
  return { stream: { device, prefetch } as Stream, asked };
}
