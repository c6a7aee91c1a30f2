/**
 * Carries the halos of arrays on a device. The halo buffers are host memory that is lent to the
 * device. The rank has its own stream, which copies to and from the buffers.
 */

import type { TypedArray } from '../../base/dtype.ts';
import { stateError } from '../../base/errors.ts';
import { checkDevice } from '../../device/checks.ts';
import type { Device, DeviceEvent, HostMemory, Stream, Tensor } from '../../device/device.ts';
import { lendHost } from '../../device/lend.ts';
import { nativeEvents, nativeGraphs } from '../../device/native.ts';
import { waitEventSync } from '../../device/open.ts';
import { OwnedParts } from '../../device/owner.ts';
import { MAX_PARK_MS } from '../../shm/wait.ts';
import type { HaloCarrier, HaloRoute } from './carrier.ts';
import type { HaloQuantities } from './quantity.ts';
import {
  bufferView,
  exchangeSpecs,
  type HaloBuffer,
  type SharedHaloExchange,
} from './shared-exchange.ts';
import { HaloDataTransformerDevice } from './transformer.ts';

const warn = (text: string) => process.emitWarning(text, 'DeviceWarning');

interface Way {
  readonly transformer: HaloDataTransformerDevice;
  readonly outgoing: readonly Tensor[];
  readonly incoming: readonly Tensor[];
}

/**
 * Enqueues every copy to and from the buffers on one stream, in the order of the exchanges. `#left`
 * is recorded after the copies of exchange n + 1 into the neighbors' buffers. If `#left` is done,
 * the rank's earlier copies of exchange n out of its own buffers are done too. The caller may then
 * store that the halves of exchange n are empty (Exchange-1).
 */
export class DeviceHaloCarrier implements HaloCarrier {
  readonly deviceName: string;
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: Stream;
  readonly #left: DeviceEvent;
  /** event on the caller's stream, for which `#stream` waits before it unpacks */
  readonly #before: DeviceEvent;
  readonly #routes: readonly Way[];
  #awaited: Promise<unknown> | null = null;
  /** returns whether a rank may still write into this rank's buffers, set by close() */
  #isOpen: (rank: number) => boolean = () => false;

  constructor(
    device: Device,
    shared: SharedHaloExchange,
    rank: number,
    routes: readonly HaloRoute[],
  ) {
    this.#device = checkDevice('HaloUpdater', device);
    this.deviceName = device.name;
    const made = this.#made;
    const neighbors = shared.neighbors[rank] as SharedHaloExchange['neighbors'][number];
    const halves = (at: number, lend: (view: TypedArray) => HostMemory) => {
      const buffer = shared.buffers[at] as HaloBuffer;
      const memory = lend(bufferView(shared, buffer));
      return [0, 1].map((half) =>
        memory.tensor({
          shape: [buffer.length],
          dtype: shared.dtype,
          byteOffset: half * buffer.stride,
        }),
      );
    };
    sweep();
    using construction = made.construction();
    made.own({ close: sweep });
    this.#stream = made.own(device.createStream());
    this.#left = made.own(device.createEvent());
    this.#before = made.own(device.createEvent());
    this.#routes = routes.map(({ sender, outgoing, incoming }, k) => {
      const specs = exchangeSpecs(shared, neighbors[k] as (typeof neighbors)[number]);
      const transformer = new HaloDataTransformerDevice(device, ...specs);
      made.own({ close: () => transformer.finalize() });
      return {
        transformer,
        outgoing: halves(outgoing, (view) => made.own(device.registerHost(view, { pin: false }))),
        incoming: halves(incoming, (view) => {
          // Only the reader pins a buffer, because drivers reject memory that is already pinned.
          // The writer's copies use the same pinned memory.
          const [memory] = lendHost(device, 'halo buffers are', [view], warn) as [HostMemory];
          made.own({ close: () => void kept.push({ memory, inUse: () => this.#isOpen(sender) }) });
          return memory;
        }),
      };
    });
    construction.done();
  }

  /**
   * Enqueues the packing, and the copies to the neighbors' buffers. The caller's stream waits for
   * the packing, but not for the copies.
   */
  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void {
    const stream = this.#stream;
    this.caller();
    for (const { transformer } of this.#routes) {
      transformer.asyncPack(x, y);
      transformer.getPackBuffer();
    }
    this.#device.withStream(stream, () => {
      for (const { transformer, outgoing } of this.#routes)
        stream.copy(outgoing[exchange % 2] as Tensor, transformer.getPackBuffer());
    });
    stream.record(this.#left);
  }
  packed(): boolean {
    return !nativeGraphs().threadCaptures() && this.#left.query();
  }
  awaitPackedSync(ms: number): void {
    if (nativeGraphs().threadCaptures()) return;
    try {
      waitEventSync(this.#device, this.#left, Math.min(ms, MAX_PARK_MS));
    } catch {
      // packed() throws this error.
    }
  }
  async awaitPacked(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.min(ms, MAX_PARK_MS));
    });
    await (nativeGraphs().threadCaptures() ? over : Promise.race([this.#packing(), over]));
    clearTimeout(timer);
  }
  /**
   * Resolves after `#left` is done or has failed. Concurrent calls share one wait, which occupies
   * one thread of Node's thread pool. packed() throws the error of a failed `#left`.
   */
  #packing(): Promise<unknown> {
    const done = () => {
      this.#awaited = null;
    };
    this.#awaited ??= nativeEvents()
      .waitEventAsync(this.#device.handle, this.#left.handle)
      .then(done, done);
    return this.#awaited;
  }
  caller(): Stream {
    const { currentStream } = this.#device;
    this.check(currentStream);
    return currentStream;
  }
  check(caller: Stream): void {
    if (caller.capturing || nativeGraphs().threadCaptures())
      throw stateError(
        'CAPTURE',
        'a halo exchange needs work on the host, so a capture cannot contain it',
      );
  }
  unpack(
    route: number,
    exchange: number,
    x: HaloQuantities,
    y: HaloQuantities | null,
    caller: Stream,
  ): void {
    const { transformer, incoming } = this.#routes[route] as Way;
    const stream = this.#stream;
    caller.record(this.#before);
    stream.wait(this.#before);
    this.#device.withStream(stream, () => {
      stream.copy(transformer.getUnpackBuffer(), incoming[exchange % 2] as Tensor);
      transformer.asyncUnpack(x, y);
    });
  }
  finish(caller: Stream): void {
    this.#device.withStream(caller, () => {
      for (const { transformer } of this.#routes) transformer.getUnpackBuffer();
    });
  }
  /**
   * Closes the carrier. Copies under way complete, because the device keeps their memory allocated.
   * A neighbor that has not left the exchange may start another copy into a buffer, so that buffer
   * stays pinned. This thread unpins the buffer when it next creates or closes a HaloUpdater after
   * the neighbor has left, or when the thread ends.
   */
  close(isOpen: (rank: number) => boolean): void {
    this.#isOpen = isOpen;
    this.#made.close();
  }
}

/** Buffers of closed ranks of this thread that are still pinned. */
const kept: { memory: HostMemory; inUse: () => boolean }[] = [];

function sweep(): void {
  for (let i = kept.length; i-- > 0; ) {
    const { memory, inUse } = kept[i] as (typeof kept)[number];
    if (inUse()) continue;
    kept.splice(i, 1);
    memory.close();
  }
}
