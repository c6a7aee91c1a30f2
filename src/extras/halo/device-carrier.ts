/**
 * Halo buffers of arrays on a device: host memory lent to it, and copies on a stream of the rank's
 * own.
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
 * Every copy to and from the buffers is on one stream, in the order of the exchanges. `#left` is
 * recorded after the copies of exchange n+1 to the neighbors. When it is done, so are the copies
 * of exchange n out of this rank's buffers, and their halves may be emptied (Exchange-1).
 */
export class DeviceHaloCarrier implements HaloCarrier {
  readonly deviceName: string;
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: Stream;
  readonly #left: DeviceEvent;
  /** recorded on the caller's stream when data has arrived */
  readonly #before: DeviceEvent;
  readonly #routes: readonly Way[];
  #awaited: Promise<unknown> | null = null;
  /** whether a rank may still write into our buffers */
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
          // Only the reader pins it, which serves its writer's copies as well: drivers reject
          // pinning memory twice.
          const [memory] = lendHost(device, 'halo buffers are', [view], warn) as [HostMemory];
          made.own({ close: () => void kept.push({ memory, inUse: () => this.#isOpen(sender) }) });
          return memory;
        }),
      };
    });
    construction.done();
  }

  /** Packs and copies. The caller's stream waits for the packing, but not for the copies. */
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
      // packed() throws it
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
  /** Waits in one thread of Node's pool, however often it is called. packed() throws the error. */
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
   * Closes the carrier. Copies under way complete, because the device keeps the memory that they
   * use. A neighbor that is still open may begin another copy into a buffer, so the buffer stays
   * pinned until that neighbor has left. It is unpinned when this thread next makes or closes a
   * HaloUpdater, or ends.
   */
  close(isOpen: (rank: number) => boolean): void {
    this.#isOpen = isOpen;
    this.#made.close();
  }
}

/** Memory that closed ranks of this thread left pinned. */
const kept: { memory: HostMemory; inUse: () => boolean }[] = [];

function sweep(): void {
  for (let i = kept.length; i-- > 0; ) {
    const { memory, inUse } = kept[i] as (typeof kept)[number];
    if (inUse()) continue;
    kept.splice(i, 1);
    memory.close();
  }
}
