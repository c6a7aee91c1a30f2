/**
 * Packs a requested tick's rows into the slot's host buffer: Requested → Packed. Pack waits until
 * the buffer has as many rows as the request needs, then draws from the rows that exist and gathers
 * them.
 *
 * Pack's thread also runs the requester. If rows live on the device, it runs the ingest too.
 *
 * If draws are by priorities, pack owns the priority tree. Before pack draws sequence s, it applies
 * the priorities that the learner wrote for s − depth, the previous sequence of this slot.
 */
import { nowMs } from '../src/base/clock.ts';
import type { Actor } from '../src/engine/pipeline/actors.ts';
import { type Packer, Packing } from '../src/engine/pipeline/packer.ts';
import { Gate, Mode } from '../src/engine/ring/header.ts';
import type { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field, PACKED, Param, SlotState } from '../src/engine/ring/slot.ts';
import { SlotCursor } from '../src/engine/ring/slot-cursor.ts';
import type { Ingest } from './ingest.ts';
import { Requester } from './requester.ts';

export class PackActor implements Actor {
  readonly role = 'pack';
  readonly #cursor: SlotCursor;
  readonly #ring: Ring;
  readonly #requester: Requester;
  readonly #packer: Packer;
  readonly #hostBuffers: HostBuffers;
  /** null if rows travel with each batch */
  readonly #ingest: Ingest | null;

  constructor({
    ring,
    packer,
    hostBuffers,
    ingest,
  }: { ring: Ring; packer: Packer; hostBuffers: HostBuffers; ingest: Ingest | null }) {
    this.#ingest = ingest;
    this.#ring = ring;
    this.#requester = new Requester(ring, packer);
    this.#packer = packer;
    this.#hostBuffers = hostBuffers;
    this.#cursor = new SlotCursor(ring, SlotState.Requested);
  }

  get slot(): number {
    return this.#cursor.slot;
  }

  work(): number {
    const made = (this.#ingest?.work() ?? 0) + this.#requester.work();
    const ring = this.#ring;
    if (!this.#cursor.waits) return made;
    const { slot } = this.#cursor;
    const record = ring.record(slot);
    if (record[Field.minPtr] === PACKED && !this.#packer.packsAgain)
      return made + this.#packedBefore(slot, record);
    const packing = this.#packer.pack(slot, record);
    if (packing === Packing.waits) {
      ring.header.setGate(Gate.rows);
      // If the run is paused, for example to end, pack does not wait for rows. The requester takes
      // back this request, because no batch can be drawn for it.
      return made + (ring.header.mode === Mode.paused ? this.#requester.takeBack(slot) : 0);
    }
    if (packing === Packing.more) return made + 1;
    const params = this.#hostBuffers.params(slot);
    params[Param.tick] = record[Field.tick] as number;
    params[Param.sequence] = (record[Field.sequence] as number) + 1;
    params[Param.rows] = record[Field.rows] as number;
    params[Param.snapshotPtr] = record[Field.snapshotPtr] as number;
    params[Param.snapshotSize] = record[Field.snapshotSize] as number;
    params[Param.seed] = record[Field.seed] as number;
    this.#pass(slot);
    return made + 1;
  }

  /** Hands over a batch that an earlier run drew, without drawing it again. */
  #packedBefore(slot: number, record: Float64Array): number {
    const params = this.#hostBuffers.params(slot);
    record[Field.snapshotPtr] = params[Param.snapshotPtr] as number;
    record[Field.snapshotSize] = params[Param.snapshotSize] as number;
    record[Field.packBegin] = record[Field.packEnd] = nowMs();
    record[Field.drawnAgain] = record[Field.stale] = record[Field.maxPriority] = 0;
    this.#pass(slot);
    return 1;
  }

  #pass(slot: number): void {
    this.#ring.handOver(slot, SlotState.Packed, 'submit');
    this.#cursor.next();
  }

  close(): void {}
}
