/**
 * Steps of a view that live on the device: their places, and the batch that a tick's graph gathers
 * from them. The rules of what travels with a tick, and why each step travels once, are in
 * native/rows/mirror.hpp. Only the opener creates and frees them.
 */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import type { DeviceBatchLayout } from '../../store/views/device-columns.ts';
import type { CheckedRing } from './options.ts';
import type { DeviceStore, RingStatistics } from './statistics.ts';

/** Arguments of a kernel launch, which every tick of a slot repeats. */
interface Gather {
  readonly tensors: readonly [Tensor, Tensor, Tensor, Tensor];
  readonly wholes: readonly [number, number, number, number, number, number, number, number];
}

/**
 * Returns `shift`: 2^shift neighboring threads copy a row of `pieces` pieces, at most a warp. Each
 * thread copies one piece if there are as many threads as pieces.
 */
const shiftOf = (pieces: number): number => Math.min(5, Math.ceil(Math.log2(pieces)));

export class DeviceSteps extends Owner implements DeviceStore {
  readonly warnings: readonly string[] = [];
  /** uint8: the columns of fields, at the offsets of the layout */
  readonly batch: Tensor;
  readonly checked: CheckedRing;
  readonly #ring: Tensor;
  readonly #layout: DeviceBatchLayout;
  readonly #rows: number;
  readonly #statistics: () => RingStatistics;
  /** per slot: the launches that gather, the steps that travel, and the head */
  readonly #gathers: readonly (readonly Gather[])[];
  readonly #brings: readonly { readonly fresh: Tensor; readonly head: Tensor<'int32'> }[];

  constructor(options: {
    device: Device;
    checked: CheckedRing;
    layout: DeviceBatchLayout;
    rows: number;
    /**
     * the device memory of each slot for the data that travels with its tick, and each slot's head
     */
    slots: readonly Tensor[];
    heads: readonly Tensor<'int32'>[];
    statistics: () => RingStatistics;
  }) {
    super('the steps on the device');
    const { device, checked, layout, rows, slots, heads, statistics } = options;
    this.checked = checked;
    this.#layout = layout;
    this.#rows = rows;
    this.#statistics = statistics;
    using construction = guardConstruction(this);
    this.#ring = own(this, device.allocate({ shape: [checked.ringBytes], dtype: 'uint8' }));
    this.batch = own(this, device.allocate({ shape: [checked.batchBytes], dtype: 'uint8' }));
    this.#gathers = slots.map((slot) => this.#gathersOf(slot));
    this.#brings = slots.map((slot, i) => {
      const shape = [(layout.most * (checked.stride + 4)) / 4];
      const fresh = slot.view({ shape, offset: layout.freshAt / 4, dtype: 'uint32' });
      return { fresh, head: heads[i] as Tensor<'int32'> };
    });
    construction.done();
  }

  #gathersOf(slot: Tensor): Gather[] {
    const { stride, places: ringRows } = this.checked;
    const { most, freshAt, gathered } = this.#layout;
    const fresh = slot.view({ shape: [most * stride], offset: freshAt });
    return [...gathered.values()].flatMap(({ field, places, at, list, instead }) => {
      const count = this.#rows * places;
      const out = this.batch.view({ shape: [count * field.bytes], offset: at });
      const from = (
        of: { offset: number; bytes: number },
        listed: number,
        rows: number,
      ): Gather => {
        const unit = [16, 4, 1].find(
          (bytes) => of.bytes % bytes === 0 && of.offset % bytes === 0,
        ) as number;
        const lists = slot.view({ shape: [rows], offset: listed / 4, dtype: 'int32' });
        const shift = shiftOf(of.bytes / unit);
        const wholes = [rows, of.bytes, of.offset, stride, ringRows, most, unit, shift] as const;
        return { tensors: [out, this.#ring, fresh, lists], wholes };
      };
      // The first launch gathers the field of each row's own step. With hindsight goals, the second
      // launch then writes the goals that another step achieved.
      return [
        from(field, list, count),
        ...(instead ? [from(instead.field, instead.list, count)] : []),
      ];
    });
  }

  /**
   * Enqueues the start of a tick: gathers the batch's columns, then copies the steps that the tick
   * brought to their places (Mirror-4).
   */
  draw(stream: Stream, slot: number): void {
    const { stride, places } = this.checked;
    const { most } = this.#layout;
    for (const gather of this.#gathers[slot] as readonly Gather[])
      stream.launch('gather_fields', gather);
    const { fresh, head } = this.#brings[slot] as { fresh: Tensor; head: Tensor<'int32'> };
    const wholes = [most, stride / 4, places, shiftOf(stride / 16)] as const;
    stream.launch('put_places', { tensors: [this.#ring, fresh, head], wholes });
  }

  get statistics(): RingStatistics {
    return this.#statistics();
  }
}
