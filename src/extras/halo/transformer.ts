/**
 * Packs parts of many arrays into one buffer, which a rank sends to a neighbor. Unpacks the buffer
 * that the rank receives from that neighbor into the arrays. This is the counterpart of NDSL's
 * HaloDataTransformer. NDSL's CPU and GPU classes are named `…Host` and `…Device` here.
 */
import { answered } from '../../base/addon.ts';
import { describeValue } from '../../base/checks.ts';
import { type DType, dtypes, type TypedArray } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { checkDevice } from '../../device/checks.ts';
import type { Device, DeviceEvent, Tensor } from '../../device/device.ts';
import type { CacheCounts } from '../../device/facts.ts';
import { nativeHalos, nativeShared } from '../../device/native.ts';
import { waitEventSync } from '../../device/open.ts';
import { OwnedParts } from '../../device/owner.ts';
import { LentStream } from '../../device/stream.ts';
import { refuseMainThread } from '../../shm/wait.ts';
import { bufferCounts, giveBuffer, takeBuffer } from './cpu-buffers.ts';
import { type Components, components } from './descriptors.ts';
import { HaloLaunches } from './launches.ts';
import { encode, type Move, packMoves, unpackMoves } from './moves.ts';
import { checkQuantities, type HaloQuantities } from './quantity.ts';
import type { HaloExchangeSpec } from './spec.ts';

type Specs = readonly HaloExchangeSpec[];

/**
 * Counts of the caches from which new transformers get buffers, streams and tables. A device's
 * caches exist until no thread has the device open. For 'cpu', each thread has its own caches.
 */
export interface HaloStats {
  /** cache of freed buffers */
  readonly buffers: CacheCounts;
  readonly streams: CacheCounts;
  /**
   * cache of tables of moves. Transformers share a table if dimensions, strides, ranges, rotation
   * and direction are equal
   */
  readonly descriptors: CacheCounts;
}

/**
 * Packs parts of arrays into one buffer, and unpacks another buffer into parts of the same arrays.
 * get() creates the transformer for a device.
 * @example
 * const transformer = HaloDataTransformer.get('cpu', [east]);
 * transformer.asyncPack([{ data: new Float64Array(36) }]);
 * transformer.finalize();
 */
export abstract class HaloDataTransformer implements Disposable {
  /** Name of the arrays' device, such as 'host:0', or 'cpu'. */
  readonly deviceName: string;
  readonly dtype: DType;
  /** Number of elements in each of the two buffers. */
  readonly length: number;
  protected readonly descriptors: readonly Components[];
  #finalized = false;

  /**
   * Creates a transformer for arrays on `device`, with one quantity per HaloExchangeSpec. With `y`,
   * the quantities are vectors, and the two components of a vector are adjacent in the buffer.
   *
   * @param device the arrays' device, or 'cpu' for arrays in process memory
   * @throws {TypeError} for mixed dtypes, and for anything but HaloExchangeSpecs
   * @throws {RangeError} for an empty list, for x and y of different length, and if the numbers of
   *   outgoing and incoming elements differ
   */
  static get(device: 'cpu', x: Specs, y?: Specs | null): HaloDataTransformerHost;
  static get(device: Device, x: Specs, y?: Specs | null): HaloDataTransformerDevice;
  static get(device: Device | 'cpu', x: Specs, y?: Specs | null): HaloDataTransformer;
  static get(device: Device | 'cpu', x: Specs, y: Specs | null = null): HaloDataTransformer {
    if (device === 'cpu') return new HaloDataTransformerHost(x, y);
    return new HaloDataTransformerDevice(device, x, y);
  }

  constructor(deviceName: string, x: Specs, y: Specs | null) {
    this.deviceName = deviceName;
    this.descriptors = components(x, y);
    const [[first]] = this.descriptors as [Components];
    this.dtype = first.specification.dtype;
    const total = (of: 'packSize' | 'unpackSize') =>
      this.descriptors.flat().reduce((sum, spec) => sum + spec[of], 0);
    this.length = total('packSize');
    if (this.length !== total('unpackSize'))
      throw rangeError(
        `${this.length} elements leave and ${total('unpackSize')} arrive: these have to be equal`,
      );
  }

  /**
   * Packs `x` and `y` into the pack buffer. Each list has one quantity per HaloExchangeSpec. On a
   * device, enqueues the work and returns at once.
   */
  abstract asyncPack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /**
   * Unpacks the unpack buffer into `x` and `y`. On a device, enqueues the work and returns at once.
   */
  abstract asyncUnpack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /**
   * Resolves after all packing and unpacking so far is done. This excludes packing and unpacking in
   * a captured graph, which runs on the stream that launches the graph.
   */
  abstract synchronize(): Promise<void>;
  /**
   * Blocks the thread until all packing and unpacking so far is done, like synchronize(). For
   * arrays on a device, throws ERR_HOTSLOT_STATE_MAIN_THREAD on the main thread.
   */
  abstract synchronizeSync(): void;
  /**
   * Makes the device's current stream wait for all packing and unpacking so far. The calling thread
   * never waits. Does nothing on 'cpu'.
   */
  abstract join(): void;
  /**
   * Returns the buffer with the packed data, `length` elements. Calls join(), so that toArray() and
   * copies on the current stream read that data.
   */
  abstract getPackBuffer(): TypedArray | Tensor;
  /**
   * Returns the buffer to fill before asyncUnpack(), `length` elements. On a device, asyncUnpack()
   * runs after all work that is already on the current stream.
   */
  abstract getUnpackBuffer(): TypedArray | Tensor;
  /** Returns the counts of the caches. */
  abstract stats(): HaloStats;
  /** Frees the resources. Every finalize() calls this, so it may run again after it succeeded. */
  protected abstract release(): void;

  /** Returns true before finalize(), and false after it. */
  ready(): boolean {
    return !this.#finalized;
  }
  /** Returns the buffers to their cache. Work that is already enqueued completes. Idempotent. */
  finalize(): void {
    this.#finalized = true;
    this.release();
  }
  [Symbol.dispose](): void {
    this.finalize();
  }

  protected checkReady(what: string): void {
    if (this.#finalized)
      throw stateError('CLOSED', `${what} was called after finalize(); get another transformer`);
  }

  /** Checks all quantities against their specifications, and returns their arrays in move order. */
  protected arrays(
    what: string,
    x: HaloQuantities,
    y: HaloQuantities | null | undefined,
  ): (TypedArray | Tensor)[] {
    this.checkReady(what);
    return checkQuantities(what, this.descriptors, this.deviceName, x, y);
  }
}

/**
 * Packs and unpacks arrays in process memory. A call returns after its work is done. For large
 * arrays, it uses idle CPU cores.
 */
export class HaloDataTransformerHost extends HaloDataTransformer {
  readonly #pack: BigInt64Array;
  readonly #unpack: BigInt64Array;
  readonly #itemsize: number;
  #buffers: { pack: TypedArray; unpack: TypedArray } | null = null;

  constructor(x: Specs, y: Specs | null = null) {
    super('cpu', x, y);
    this.#pack = encode(packMoves(this.descriptors), 'pack');
    this.#unpack = encode(unpackMoves(this.descriptors), 'unpack');
    this.#itemsize = dtypes[this.dtype].bytes;
  }

  override asyncPack(x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#move('asyncPack', this.#pack, this.#own('asyncPack').pack, x, y);
  }
  override asyncUnpack(x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#move('asyncUnpack', this.#unpack, this.#own('asyncUnpack').unpack, x, y);
  }
  /**
   * Packs like asyncPack(), but into the caller's buffer. The buffer has `length` elements of the
   * dtype, and must not overlap the quantities. It may be in shared memory.
   */
  packInto(buffer: TypedArray, x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#move('packInto', this.#pack, buffer, x, y);
  }
  unpackFrom(buffer: TypedArray, x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#move('unpackFrom', this.#unpack, buffer, x, y);
  }
  override async synchronize(): Promise<void> {
    this.checkReady('synchronize');
  }
  override synchronizeSync(): void {
    this.checkReady('synchronizeSync');
  }
  override join(): void {
    this.checkReady('join');
  }
  override getPackBuffer(): TypedArray {
    return this.#own('getPackBuffer').pack;
  }
  override getUnpackBuffer(): TypedArray {
    return this.#own('getUnpackBuffer').unpack;
  }
  override stats(): HaloStats {
    const none = { hits: 0, misses: 0, bytes: 0 };
    return { buffers: bufferCounts(), streams: none, descriptors: none };
  }
  protected override release(): void {
    const buffers = this.#buffers;
    this.#buffers = null;
    if (buffers) for (const each of Object.values(buffers)) giveBuffer(each);
  }

  #own(what: string): { pack: TypedArray; unpack: TypedArray } {
    this.checkReady(what);
    const { dtype, length } = this;
    this.#buffers ??= { pack: takeBuffer(dtype, length), unpack: takeBuffer(dtype, length) };
    return this.#buffers;
  }

  #move(
    what: string,
    table: BigInt64Array,
    buffer: TypedArray,
    x: HaloQuantities,
    y: HaloQuantities | null | undefined,
  ): void {
    const arrays = this.arrays(what, x, y) as TypedArray[];
    const { array } = dtypes[this.dtype];
    if (!(buffer instanceof array) || buffer.length !== this.length)
      throw typeError(
        `${what} takes a ${array.name} of ${this.length} elements (${this.dtype}), got ${describeValue(buffer)}`,
      );
    answered(nativeHalos().moveHalo(table, this.#itemsize, buffer, arrays));
  }
}

/**
 * Packs and unpacks arrays on a device. The kernels run on a stream from the device's stream pool,
 * after all work that is already on the caller's current stream.
 *
 * If the current stream captures, the transformer enqueues the kernels on the current stream
 * instead. The graph then contains the kernels, which run in order on the stream that launches the
 * graph. Create the transformer before the capture.
 */
export class HaloDataTransformerDevice extends HaloDataTransformer {
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: LentStream;
  /**
   * event for waits between `#stream` and the caller's stream, in both directions. One event is
   * enough, because a wait refers to the event's latest record
   */
  readonly #mark: DeviceEvent;
  /** whether `#stream` has work for which no stream of the caller waits yet */
  #loose = false;
  readonly #buffers: { pack: Tensor; unpack: Tensor };
  readonly #pack: HaloLaunches;
  readonly #unpack: HaloLaunches;

  constructor(device: Device, x: Specs, y: Specs | null = null) {
    super(checkDevice('HaloDataTransformer', device).name, x, y);
    this.#device = device;
    const { dtype, length } = this;
    const made = this.#made;
    using construction = made.construction();
    this.#stream = made.own(new LentStream(device));
    this.#mark = made.own(device.createEvent());
    const buffer = () => made.own(device.allocate({ shape: [length], dtype, zeroed: false }));
    this.#buffers = { pack: buffer(), unpack: buffer() };
    const launches = (direction: 'pack' | 'unpack', moves: readonly Move[]) =>
      made.own(
        new HaloLaunches(
          device,
          this.descriptors.flat(),
          moves,
          direction,
          this.#buffers[direction],
        ),
      );
    this.#pack = launches('pack', packMoves(this.descriptors));
    this.#unpack = launches('unpack', unpackMoves(this.descriptors));
    construction.done();
  }

  override asyncPack(x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#run('asyncPack', this.#pack, x, y);
  }
  override asyncUnpack(x: HaloQuantities, y?: HaloQuantities | null): void {
    this.#run('asyncUnpack', this.#unpack, x, y);
  }
  override async synchronize(): Promise<void> {
    this.#join('synchronize');
    await this.#stream.synchronize();
  }
  override synchronizeSync(): void {
    this.checkReady('synchronizeSync');
    refuseMainThread('synchronize()');
    this.#join('synchronizeSync');
    waitEventSync(this.#device, this.#mark);
  }
  override join(): void {
    this.#join('join', true);
  }
  override getPackBuffer(): Tensor {
    this.#join('getPackBuffer', true);
    return this.#buffers.pack;
  }
  override getUnpackBuffer(): Tensor {
    this.#join('getUnpackBuffer', true);
    return this.#buffers.unpack;
  }
  override stats(): HaloStats {
    const { buffers, streams, tables } = nativeShared().caches(this.#device.handle);
    return { buffers, streams, descriptors: tables };
  }
  protected override release(): void {
    this.#made.close();
  }

  /**
   * Makes the current stream wait for the work on `#stream`. If the current stream captures,
   * nothing is to wait for, because the kernels of the capture are on the current stream. In a
   * capture, throws unless `captured` is true and all earlier work is joined.
   */
  #join(what: string, captured = false): void {
    this.checkReady(what);
    const { currentStream } = this.#device;
    if (currentStream.capturing) {
      if (!captured) throw stateError('CAPTURE', `${what}: a capture cannot contain a wait`);
      this.#checkJoined();
    } else {
      this.#stream.record(this.#mark);
      currentStream.wait(this.#mark);
      this.#loose = false;
    }
  }

  /**
   * Throws if work that was enqueued before the capture is not joined. The captured kernels would
   * not wait for that work, because a graph contains no wait for it.
   */
  #checkJoined(): void {
    if (!this.#loose) return;
    const next = 'call join() after the last asyncPack or asyncUnpack before a capture';
    throw stateError('CAPTURE', `work enqueued before the capture has not been joined: ${next}`);
  }

  #run(
    what: string,
    launches: HaloLaunches,
    x: HaloQuantities,
    y: HaloQuantities | null | undefined,
  ): void {
    const arrays = this.arrays(what, x, y) as Tensor[];
    const { currentStream } = this.#device;
    if (currentStream.capturing) {
      this.#checkJoined();
      launches.run(currentStream, null, this.#mark, arrays);
    } else {
      this.#loose = true;
      launches.run(this.#stream, currentStream, this.#mark, arrays);
    }
  }
}
