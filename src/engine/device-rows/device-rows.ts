/**
 * Rows that live on the device: their memory, the batch that a graph's first kernels gather from
 * this memory, and the copy stream for new rows. Only the opener creates and frees these objects.
 * Actors use them through control-block.ts and actors/ingest.ts.
 */
import { ThreadEnding } from '../../base/addon.ts';
import { stateError } from '../../base/errors.ts';
import type { Device, DeviceEvent, HostMemory, Stream, Tensor } from '../../device/device.ts';
import { lendHost } from '../../device/lend.ts';
import { blockOnEvent } from '../../device/open.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { internalsOfBuffer, type ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { SharedDeviceRows } from './attached.ts';
import { DeviceRowsControl, MAX_IN_FLIGHT } from './control-block.ts';
import type { CheckedRing } from './options.ts';
import type { DeviceStore, RingStatistics } from './statistics.ts';

/** Milliseconds for which close() waits for copies in flight before it throws. */
const DRAIN_MS = 5000;

export class DeviceRows extends Owner implements DeviceStore {
  readonly warnings: string[] = [];
  /** uint8 [sampleCount × stride]: the tick's rows */
  readonly batch: Tensor;
  /** int32 [sampleCount]: index in the ring of each of the tick's rows */
  readonly places: Tensor<'int32'>;
  readonly checked: CheckedRing;
  readonly #ring: Tensor<'uint32'>;
  readonly #stream: Stream;
  // The initial value is for close(), which reads the events even if the constructor failed.
  readonly #events: readonly DeviceEvent[] = [];
  readonly #host: HostMemory;
  readonly #words: DeviceRowsControl;
  readonly #buffer: ReplayBuffer;
  readonly #device: Device;
  readonly #sampleCount: number;
  readonly #baseSeed: number;
  readonly #heads: readonly Tensor<'int32'>[];

  constructor(options: {
    device: Device;
    buffer: ReplayBuffer;
    checked: CheckedRing;
    sampleCount: number;
    baseSeed: number;
    /** the head of each slot, which determines what its tick draws */
    heads: readonly Tensor<'int32'>[];
  }) {
    super('the rows on the device');
    const { device, buffer, checked, sampleCount } = options;
    this.checked = checked;
    this.#device = device;
    this.#buffer = buffer;
    this.#sampleCount = sampleCount;
    this.#baseSeed = options.baseSeed;
    this.#heads = options.heads;
    using construction = guardConstruction(this);
    this.#ring = own(this, device.allocate({ shape: [checked.ringBytes / 4], dtype: 'uint32' }));
    this.batch = own(
      this,
      device.allocate({ shape: [sampleCount * checked.stride], dtype: 'uint8' }),
    );
    this.places = own(this, device.allocate({ shape: [sampleCount], dtype: 'int32' }));
    const { memory } = internalsOfBuffer(buffer);
    const [host] = lendHost(device, "the replay buffer's memory is", [memory], (text) =>
      this.warnings.push(text),
    );
    this.#host = own(this, host as HostMemory);
    this.#stream = own(this, device.createStream());
    this.#events = Array.from({ length: MAX_IN_FLIGHT }, () =>
      own(this, device.createEvent({ timing: false })),
    );
    this.#words = DeviceRowsControl.create();
    construction.done();
  }

  share(): SharedDeviceRows {
    const { places, guard, rowsPerSpan, stride } = this.checked;
    return {
      places,
      guard,
      rowsPerSpan,
      stride,
      words: this.#words.place,
      buffer: this.#buffer.share(),
      stream: this.#stream.handle,
      events: this.#events.map((event) => event.handle),
      ring: this.#ring.handle,
      host: this.#host.handle,
      rowsAt: internalsOfBuffer(this.#buffer).rowsAt,
      baseSeed: this.#baseSeed,
    };
  }

  /**
   * Enqueues the start of a tick: the draw by the head in its slot's parameters, and the gather
   * into the batch.
   */
  draw(stream: Stream, slot: number): void {
    const head = this.#heads[slot] as Tensor<'int32'>;
    const { stride, places } = this.checked;
    const words = stride / 4;
    const n = this.#sampleCount;
    stream.launch('draw_places', { tensors: [this.places, head], wholes: [n] });
    // Each row is copied by 2^shift neighboring threads, at most a warp of 32. If there are enough
    // threads, each copies one piece of 16 bytes.
    const shift = Math.min(5, Math.ceil(Math.log2(words / 4)));
    const out = this.batch.view({ shape: [n * words], dtype: 'uint32' });
    stream.launch('gather_places', {
      tensors: [out, this.#ring, this.places],
      wholes: [n, words, places, shift],
    });
  }

  get statistics(): RingStatistics {
    const { visible, low, dropped, whole } = this.#words.readReach();
    const { places, guard, stride } = this.checked;
    return {
      visible,
      low,
      ingestedRows: whole,
      ingestedBytes: whole * stride,
      droppedRows: dropped,
      drawable: visible - Math.max(low, visible - (places - guard)),
    };
  }

  /**
   * Waits for copies in flight, then frees the memory (DeviceRows-8).
   *
   * @throws {ERR_HOTSLOT_STATE_BUSY} if copies still run after DRAIN_MS
   */
  override close(): void {
    if (this.closed) return;
    const over = this.#events.every((event) => {
      try {
        return blockOnEvent(this.#device, event, DRAIN_MS);
      } catch (error) {
        if (error instanceof ThreadEnding) throw error;
        return true;
      }
    });
    if (!over)
      throw stateError(
        'BUSY',
        `rows on their way to ${this.#device.name} are still copied after ${DRAIN_MS} ms; close again later`,
      );
    super.close();
  }
}
