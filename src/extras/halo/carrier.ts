/**
 * How a rank's arrays get into its neighbours' buffers and out of its own: at once from process
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

/** One rank's route to one neighbour: buffers by their place in the exchange's list. */
export interface HaloRoute {
  readonly sender: number;
  readonly outgoing: number;
  readonly incoming: number;
}

/** Knows no states and no bells: its caller says when a half may be written or read. */
export interface HaloCarrier {
  readonly deviceName: string;
  /**
   * Puts what leaves into the outgoing half of every route, or begins to; throws before it began
   * for other quantities.
   */
  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void;
  /**
   * Whether what pack() began is done, and with it every unpack() before: throws what went wrong
   * with either.
   */
  packed(): boolean;
  /**
   * Waits for that for some time, at most `ms`, and says nothing of what went wrong; in workers
   * only.
   */
  awaitPackedSync(ms: number): void;
  awaitPacked(ms: number): Promise<void>;
  /**
   * The stream that the arrays' own work is on; null where nothing is enqueued. Throws while it
   * captures.
   */
  caller(): Stream | null;
  /** Throws while what caller() gave captures. */
  check(caller: Stream | null): void;
  /** Puts the route's incoming half into the arrays, or begins to. */
  unpack(
    route: number,
    exchange: number,
    x: HaloQuantities,
    y: HaloQuantities | null,
    caller: Stream | null,
  ): void;
  /** What the caller enqueues next finds everything unpacked. */
  finish(caller: Stream | null): void;
  /**
   * A rank that is still in the exchange may go on writing into this one's buffers: asked now, and
   * later from this thread.
   */
  close(isOpen: (rank: number) => boolean): void;
}

interface Way {
  readonly transformer: HaloDataTransformerHost;
  readonly outgoing: readonly TypedArray[];
  readonly incoming: readonly TypedArray[];
}

/** Typed arrays: packed straight into shared memory, unpacked straight out of it. */
export class HostHaloCarrier implements HaloCarrier {
  readonly deviceName = 'cpu';
  readonly #ways: readonly Way[];

  constructor(shared: SharedHaloExchange, rank: number, routes: readonly HaloRoute[]) {
    const neighbours = shared.neighbours[rank] as SharedHaloExchange['neighbours'][number];
    this.#ways = routes.map(({ outgoing, incoming }, k) => ({
      transformer: new HaloDataTransformerHost(
        ...exchangeSpecs(shared, neighbours[k] as (typeof neighbours)[number]),
      ),
      outgoing: halves(shared, shared.buffers[outgoing] as HaloBuffer),
      incoming: halves(shared, shared.buffers[incoming] as HaloBuffer),
    }));
  }

  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void {
    for (const { transformer, outgoing } of this.#ways)
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
    const { transformer, incoming } = this.#ways[route] as Way;
    transformer.unpackFrom(incoming[exchange % 2] as TypedArray, x, y);
  }
  finish(): void {}
  close(): void {
    for (const { transformer } of this.#ways) transformer.finalize();
  }
}

function halves(shared: SharedHaloExchange, buffer: HaloBuffer): TypedArray[] {
  const view = bufferView(shared, buffer);
  const second = view.length / 2;
  return [view.subarray(0, buffer.length), view.subarray(second, second + buffer.length)];
}
