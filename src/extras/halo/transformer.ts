/**
 * Packs parts of many arrays into one buffer, which a rank sends to one neighbor, and unpacks
 * another buffer, which it gets from that neighbor, into them. NDSL's HaloDataTransformer, whose
 * CPU and GPU classes are `…Host` and `…Device`.
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
 * Caches for the next transformer. The device keeps them until no thread has it open, and on cpu
 * the thread keeps them.
 */
export interface HaloStats {
  /** memory that is reused, also by another transformer */
  readonly buffers: CacheCounts;
  readonly streams: CacheCounts;
  /**
   * tables of copies, keyed by their content: dimensions, strides, ranges, rotation and direction
   */
  readonly descriptors: CacheCounts;
}

/**
 * Packs parts of arrays into a buffer, and unpacks another buffer into them: NDSL's
 * HaloDataTransformer. get() creates the transformer of a device.
 * @example
 * const transformer = HaloDataTransformer.get('cpu', [east]);
 * transformer.asyncPack([{ data: new Float64Array(36) }]);
 * transformer.finalize();
 */
export abstract class HaloDataTransformer implements Disposable {
  /** 'cpu', 'host:0', … */
  readonly deviceName: string;
  readonly dtype: DType;
  /** Elements in each of the two buffers. */
  readonly length: number;
  protected readonly descriptors: readonly Components[];
  #finalized = false;

  /**
   * Creates a transformer for arrays on `device`, one quantity per HaloExchangeSpec in this order.
   * With `y` it is for vectors, whose components are adjacent in the buffer.
   *
   * @param device 'cpu' for arrays in process memory
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
   * Packs `x` and `y` into the pack buffer, one quantity per HaloExchangeSpec. On a device it
   * enqueues and returns.
   */
  abstract asyncPack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /** Unpacks the unpack buffer into `x` and `y`. On a device it enqueues and returns. */
  abstract asyncUnpack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /**
   * Resolves when all packing and unpacking so far is done. It does not cover replays of a graph,
   * which run on the stream that replays.
   */
  abstract synchronize(): Promise<void>;
  /**
   * Does what synchronize() does and blocks. On a device it throws ERR_HOTSLOT_STATE_MAIN_THREAD on
   * the main thread.
   */
  abstract synchronizeSync(): void;
  /**
   * On a device, lets the current stream wait for all packing and unpacking so far. The host never
   * waits.
   */
  abstract join(): void;
  /**
   * Returns the buffer of `length` elements that holds the packed data. On a device it joins, so
   * that toArray() and copies on the current stream read that data.
   */
  abstract getPackBuffer(): TypedArray | Tensor;
  /**
   * Returns the buffer to fill before asyncUnpack, which runs after all work already enqueued on
   * the current stream.
   */
  abstract getUnpackBuffer(): TypedArray | Tensor;
  /** Returns counts of calls, elements and launches. */
  abstract stats(): HaloStats;
  /** Frees the resources. It may be called again, after it threw and after it succeeded. */
  protected abstract release(): void;

  /** False after finalize(). */
  ready(): boolean {
    return !this.#finalized;
  }
  /** Returns the buffers to the pool. Work under way completes. Idempotent. */
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

  /** Returns all arrays in the moves' order, each checked against its specification. */
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
 * Transformer of arrays in process memory. A call returns when its work is done, and uses idle
 * cores for large arrays.
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
   * Packs as asyncPack does, into a buffer of the caller's: `length` elements of the dtype, also in
   * shared memory, that do not overlap the quantities.
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
 * Transformer of arrays on a device. Kernels run on a pooled stream, after all work already
 * enqueued on the caller's current stream. While the current stream captures, they run on it, so
 * that the graph contains them and a replay is in its stream's order. Create the transformer before
 * the capture.
 */
export class HaloDataTransformerDevice extends HaloDataTransformer {
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: LentStream;
  /** orders this stream and the caller's, in either direction: a wait is for the latest record */
  readonly #mark: DeviceEvent;
  /** whether work was enqueued that no stream of the caller's waits for */
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
   * Lets the current stream wait for the work here. In a capture that work is on the same stream,
   * and waiting for other work throws.
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
   * Throws if work from before the capture is not joined, because the kernels of a graph do not
   * wait for it.
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
