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
 * Every copy to and from the buffers is on one stream, in the order of the exchanges. So when
 * `#left`, which is recorded behind the copies of exchange n+1 to the neighbours, is done, the
 * copies of exchange n out of this rank's buffers are too: their halves may be emptied
 * (Exchange-1).
 */
export class DeviceHaloCarrier implements HaloCarrier {
  readonly deviceName: string;
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: Stream;
  readonly #left: DeviceEvent;
  /** what the caller's stream had been given when something arrived */
  readonly #before: DeviceEvent;
  readonly #ways: readonly Way[];
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
    const neighbours = shared.neighbours[rank] as SharedHaloExchange['neighbours'][number];
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
    this.#ways = routes.map(({ sender, outgoing, incoming }, k) => {
      const specs = exchangeSpecs(shared, neighbours[k] as (typeof neighbours)[number]);
      const transformer = new HaloDataTransformerDevice(device, ...specs);
      made.own({ close: () => transformer.finalize() });
      return {
        transformer,
        outgoing: halves(outgoing, (view) => made.own(device.registerHost(view, { pin: false }))),
        incoming: halves(incoming, (view) => {
          // The reader pins it, which serves its writer's copies as well: drivers pin no memory
          // twice.
          const [memory] = lendHost(device, 'halo buffers are', [view], warn) as [HostMemory];
          made.own({ close: () => void kept.push({ memory, inUse: () => this.#isOpen(sender) }) });
          return memory;
        }),
      };
    });
    construction.done();
  }

  /** The caller's stream goes on behind the packing, not behind the copies. */
  pack(exchange: number, x: HaloQuantities, y: HaloQuantities | null): void {
    const stream = this.#stream;
    this.caller();
    for (const { transformer } of this.#ways) {
      transformer.asyncPack(x, y);
      transformer.getPackBuffer();
    }
    this.#device.withStream(stream, () => {
      for (const { transformer, outgoing } of this.#ways)
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
  /**
   * One thread of Node's pool waits, however often it is asked; packed() throws what went wrong.
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
        "a halo exchange is the host's work too: it cannot be part of a capture",
      );
  }
  unpack(
    route: number,
    exchange: number,
    x: HaloQuantities,
    y: HaloQuantities | null,
    caller: Stream,
  ): void {
    const { transformer, incoming } = this.#ways[route] as Way;
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
      for (const { transformer } of this.#ways) transformer.getUnpackBuffer();
    });
  }
  /**
   * Copies under way go on and end as they would have: the device keeps what they touch. A
   * neighbour that is still there may begin another copy into a buffer, which therefore stays
   * pinned until it has left: it is unpinned when this thread makes or closes another HaloUpdater
   * then, or ends.
   */
  close(isOpen: (rank: number) => boolean): void {
    this.#isOpen = isOpen;
    this.#made.close();
  }
}

/** What ranks of this thread left pinned. */
const kept: { memory: HostMemory; inUse: () => boolean }[] = [];

function sweep(): void {
  for (let i = kept.length; i-- > 0; ) {
    const { memory, inUse } = kept[i] as (typeof kept)[number];
    if (inUse()) continue;
    kept.splice(i, 1);
    memory.close();
  }
}
