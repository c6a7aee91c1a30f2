/**
 * Packs parts of many arrays into one buffer, and what arrives in another buffer into them: what a
 * rank sends to one neighbour and gets from it. NDSL's HaloDataTransformer; `…Host` and `…Device`
 * are its CPU and GPU.
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
 * What is kept for the next transformer: by the device, until no thread has it open; on cpu by the
 * thread.
 */
export interface HaloStats {
  /** memory that is used again, also after another transformer */
  readonly buffers: CacheCounts;
  readonly streams: CacheCounts;
  /**
   * tables of what to copy, by their content: dimensions, strides, ranges, rotation and direction
   * are all in there
   */
  readonly descriptors: CacheCounts;
}

/**
 * Packs parts of arrays into a buffer and unpacks another one into them. NDSL's
 * HaloDataTransformer: get() makes the one for a device.
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
   * For arrays on `device`, one quantity per HaloExchangeSpec in this order; with `y`, for vectors
   * whose components lie side by side in the buffer. Throws TypeError for mixed dtypes and for
   * anything but HaloExchangeSpecs, RangeError for an empty list, x and y of different length, and
   * when the elements that leave and those that arrive differ in number.
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
   * Packs these into the pack buffer; on a device it enqueues and returns. One quantity per
   * HaloExchangeSpec.
   */
  abstract asyncPack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /** Unpacks the unpack buffer into these; likewise. */
  abstract asyncUnpack(x: HaloQuantities, y?: HaloQuantities | null): void;
  /**
   * Resolves when everything packed and unpacked so far is done; replays of a graph are their own
   * stream's.
   */
  abstract synchronize(): Promise<void>;
  /** The same, blocking; on a device ERR_HOTSLOT_STATE_MAIN_THREAD on the main thread. */
  abstract synchronizeSync(): void;
  /**
   * On a device: the current stream goes on behind everything packed and unpacked so far. The host
   * waits for nothing.
   */
  abstract join(): void;
  /**
   * The buffer, `length` elements, with what was packed. On a device it joins: toArray() and copies
   * on the current stream find it there.
   */
  abstract getPackBuffer(): TypedArray | Tensor;
  /**
   * The buffer to fill before asyncUnpack; what is enqueued on the current stream comes before
   * that.
   */
  abstract getUnpackBuffer(): TypedArray | Tensor;
  abstract stats(): HaloStats;
  /** May be called again: when it refused, and after it was done. */
  protected abstract release(): void;

  /** False after finalize(). */
  ready(): boolean {
    return !this.#finalized;
  }
  /** Gives the buffers back; twice is fine. Work under way goes on and ends as it would have. */
  finalize(): void {
    this.#finalized = true;
    this.release();
  }
  [Symbol.dispose](): void {
    this.finalize();
  }

  protected checkReady(what: string): void {
    if (this.#finalized)
      throw stateError('CLOSED', `${what} after finalize(): get another transformer`);
  }

  /** All arrays in the moves' order, each held against its specification. */
  protected arrays(
    what: string,
    x: HaloQuantities,
    y: HaloQuantities | null | undefined,
  ): (TypedArray | Tensor)[] {
    this.checkReady(what);
    return checkQuantities(what, this.descriptors, this.deviceName, x, y);
  }
}

/** Arrays in process memory: done when a call returns, large ones with the help of idle cores. */
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
   * As asyncPack, into a buffer of the caller's: `length` elements of the dtype, apart from the
   * quantities; shared memory too.
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
 * Arrays on a device. Kernels run on a pooled stream, behind what the caller's current stream has
 * been given; on the current stream itself while that captures, so that the graph has them and a
 * replay is in its stream's order. Make it before the capture.
 */
export class HaloDataTransformerDevice extends HaloDataTransformer {
  readonly #device: Device;
  readonly #made = new OwnedParts();
  readonly #stream: LentStream;
  /**
   * between this stream and the caller's, one way or the other: a wait is for the record there was
   */
  readonly #mark: DeviceEvent;
  /** work was enqueued that no stream of the caller's waits for */
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
   * The current stream goes on behind the work here. In a capture that is on the same stream;
   * nothing else can be waited for.
   */
  #join(what: string, captured = false): void {
    this.checkReady(what);
    const { currentStream } = this.#device;
    if (currentStream.capturing) {
      if (!captured)
        throw stateError('CAPTURE', `${what}: nothing can be waited for inside a capture`);
      this.#checkJoined();
    } else {
      this.#stream.record(this.#mark);
      currentStream.wait(this.#mark);
      this.#loose = false;
    }
  }

  /** What a graph is made of does not wait for what was enqueued here before. */
  #checkJoined(): void {
    if (!this.#loose) return;
    const next = 'call join() after the last asyncPack or asyncUnpack before a capture';
    throw stateError(
      'CAPTURE',
      `no stream waits for what this transformer was given before the capture: ${next}`,
    );
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
