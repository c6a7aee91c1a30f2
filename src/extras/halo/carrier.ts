/**
 * Moves a rank's arrays into its neighbors' buffers and out of its own: synchronously in process
 * memory, or by a device.
 */

import type { TypedArray } from '../../base/dtype.ts';
import type { Stream } from '../../device/device.ts';
import type { HaloQuantities } from './quantity.ts';
import {
  bufferView,
  exchangeSpecs,
  type HaloBuffer,
  type SharedHaloExchange,
} from './shared-exchange.ts';
import { HaloDataTransformerHost } from './transformer.ts';

/** One rank's route to one neighbor. Buffers are named by their index in the exchange's list. */
export interface HaloRoute {
  readonly sender: number;
  readonly outgoing: number;
  readonly incoming: number;
}

/**
 * Moves data only. Its caller handles states and bells, and decides when a half may be written or
 * read.
 */
export interface HaloCarrier {
  readonly deviceName: string;
  /**
   * Packs the outgoing data into the outgoing half of every route, or begins to. Throws before it
   * begins if the quantities do not fit.
   */
  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void;
  /** Whether the last pack() and every unpack() before it are done. Throws the error of either. */
  packed(): boolean;
  /** Waits until packed() may be true, at most `ms`, and ignores errors. For workers only. */
  awaitPackedSync(ms: number): void;
  awaitPacked(ms: number): Promise<void>;
  /**
   * Returns the stream of the arrays' own work, or null if nothing is enqueued. Throws while it
   * captures.
   */
  caller(): Stream | null;
  /** Throws while the stream that caller() returned captures. */
  check(caller: Stream | null): void;
  /** Unpacks the route's incoming half into the arrays, or begins to. */
  unpack(
    route: number,
    exchange: number,
    x: HaloQuantities,
    y: HaloQuantities | null,
    caller: Stream | null,
  ): void;
  /** Orders the caller's next work after all unpacking. */
  finish(caller: Stream | null): void;
  /**
   * Closes the carrier. `isOpen` returns whether a rank is still in the exchange, and so may write
   * into this one's buffers. It is called now, and later from this thread.
   */
  close(isOpen: (rank: number) => boolean): void;
}

interface Way {
  readonly transformer: HaloDataTransformerHost;
  readonly outgoing: readonly TypedArray[];
  readonly incoming: readonly TypedArray[];
}

/** Carrier of typed arrays: packs directly into shared memory, and unpacks directly from it. */
export class HostHaloCarrier implements HaloCarrier {
  readonly deviceName = 'cpu';
  readonly #routes: readonly Way[];

  constructor(shared: SharedHaloExchange, rank: number, routes: readonly HaloRoute[]) {
    const neighbors = shared.neighbors[rank] as SharedHaloExchange['neighbors'][number];
    this.#routes = routes.map(({ outgoing, incoming }, k) => ({
      transformer: new HaloDataTransformerHost(
        ...exchangeSpecs(shared, neighbors[k] as (typeof neighbors)[number]),
      ),
      outgoing: halves(shared, shared.buffers[outgoing] as HaloBuffer),
      incoming: halves(shared, shared.buffers[incoming] as HaloBuffer),
    }));
  }

  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void {
    for (const { transformer, outgoing } of this.#routes)
      transformer.packInto(outgoing[exchange % 2] as TypedArray, x, y);
  }
  packed(): boolean {
    return true;
  }
  awaitPackedSync(): void {}
  async awaitPacked(): Promise<void> {}
  caller(): null {
    return null;
  }
  check(): void {}
  unpack(route: number, exchange: number, x: HaloQuantities, y: HaloQuantities | null): void {
    const { transformer, incoming } = this.#routes[route] as Way;
    transformer.unpackFrom(incoming[exchange % 2] as TypedArray, x, y);
  }
  finish(): void {}
  close(): void {
    for (const { transformer } of this.#routes) transformer.finalize();
  }
}

function halves(shared: SharedHaloExchange, buffer: HaloBuffer): TypedArray[] {
  const view = bufferView(shared, buffer);
  const second = view.length / 2;
  return [view.subarray(0, buffer.length), view.subarray(second, second + buffer.length)];
}
