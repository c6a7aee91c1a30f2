/**
 * Packs a rank's arrays into its neighbors' buffers, and unpacks its own buffers into its arrays.
 * HostHaloCarrier does this synchronously in process memory, and DeviceHaloCarrier on a device.
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

/**
 * The two buffers between one rank and one neighbor, as indices in the exchange's `buffers`. The
 * rank packs into `outgoing`, and unpacks from `incoming`. `sender` is the neighbor's rank.
 */
export interface HaloRoute {
  readonly sender: number;
  readonly outgoing: number;
  readonly incoming: number;
}

/**
 * Moves the data of one rank between its arrays and the buffers, which have two halves each. The
 * caller stores the control words and rings the bells, and decides when the carrier may write or
 * read a half.
 */
export interface HaloCarrier {
  readonly deviceName: string;
  /**
   * Packs the data for each neighbor into half `exchange % 2` of the outgoing buffer. On a device,
   * enqueues this work and returns. If a quantity does not match its specification, throws before
   * it packs anything.
   */
  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void;
  /**
   * Returns whether the last pack() and every unpack() before it are done. Throws the error of a
   * failed pack() or unpack().
   */
  packed(): boolean;
  /**
   * Blocks the thread until the last pack() is done or has failed, for at most `ms` milliseconds.
   * May return earlier, so call packed() afterwards, which throws the error of a failed pack().
   * Call this in workers only.
   */
  awaitPackedSync(ms: number): void;
  awaitPacked(ms: number): Promise<void>;
  /**
   * Returns the device's current stream, or null for arrays in process memory. Throws if the stream
   * captures.
   */
  caller(): Stream | null;
  /** Throws if `caller`, a result of caller(), captures. */
  check(caller: Stream | null): void;
  /**
   * Unpacks half `exchange % 2` of the route's incoming buffer into the arrays. On a device,
   * enqueues this work and returns.
   */
  unpack(
    route: number,
    exchange: number,
    x: HaloQuantities,
    y: HaloQuantities | null,
    caller: Stream | null,
  ): void;
  /** Makes the later work on `caller` wait for all unpacking. */
  finish(caller: Stream | null): void;
  /**
   * Closes the carrier. `isOpen` returns whether a rank is still in the exchange, and so may write
   * into this carrier's buffers. After close(), the carrier may call `isOpen` again in this thread,
   * before it unpins a buffer.
   */
  close(isOpen: (rank: number) => boolean): void;
}

interface Way {
  readonly transformer: HaloDataTransformerHost;
  readonly outgoing: readonly TypedArray[];
  readonly incoming: readonly TypedArray[];
}

/** Packs typed arrays directly into shared memory, and unpacks them directly from it. */
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
