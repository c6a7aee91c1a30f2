/**
 * Packs a requested tick's rows into the slot's host half. Requested → Packed. Takes the snapshot: waits until the buffer
 * holds what the request asks for, then draws and gathers from what is there. Hosts the requester.
 */
import { answered, loadAddon } from '../src/addon.ts';
import { insideOfBuffer, type ReplayBuffer } from '../src/buffer/replay-buffer.ts';
import { Gate } from '../src/ring/header.ts';
import type { HostHalves } from '../src/ring/host-halves.ts';
import type { Ring } from '../src/ring/ring.ts';
import { Field, Param, ROWS_AT, SlotState } from '../src/ring/slot.ts';
import type { Actor } from './actor.ts';
import { Requester } from './requester.ts';

/** What Packer.pack answers. */
const Packing = { waits: 0, done: 1, more: 2 } as const;

interface Packer {
  pack(slot: number, seed: number, rows: number, leastPtr: number): number;
}
type PackerClass = new (
  buffer: Float64Array,
  slots: Uint8Array,
  firstRow: number,
  stride: number,
  report: Float64Array,
) => Packer;

export class PackActor implements Actor {
  readonly role = 'pack';
  slot: number;
  readonly #ring: Ring;
  readonly #requester: Requester;
  readonly #packer: Packer;
  readonly #halves: HostHalves;
  /** snapshot ptr, snapshot size, begin, end */
  readonly #report = new Float64Array(4);

  constructor({ ring, buffer, halves }: { ring: Ring; buffer: ReplayBuffer; halves: HostHalves }) {
    this.#ring = ring;
    this.#requester = new Requester(ring, buffer);
    const { Packer } = loadAddon<{ Packer: PackerClass }>('pack');
    this.#packer = new Packer(insideOfBuffer(buffer).memory, halves.memory, ROWS_AT, halves.stride, this.#report);
    this.#halves = halves;
    this.slot = ring.seatOf(SlotState.Requested);
  }

  work(): number {
    const made = this.#requester.work();
    const ring = this.#ring;
    const { slot } = this;
    if (ring.state(slot) !== SlotState.Requested) return made;
    const record = ring.record(slot);
    const seed = record[Field.seed] as number;
    const rows = record[Field.rows] as number;
    const packing = answered(this.#packer.pack(slot, seed, rows, record[Field.leastPtr] as number));
    if (packing === Packing.waits) {
      ring.header.setGate(Gate.rows);
      return made;
    }
    if (packing === Packing.more) return made + 1;
    const [ptr, size, begin, end] = this.#report as unknown as [number, number, number, number];
    record[Field.snapshotPtr] = ptr;
    record[Field.snapshotSize] = size;
    record[Field.packBegin] = begin;
    record[Field.packEnd] = end;
    const params = this.#halves.params(slot);
    params[Param.tick] = record[Field.tick] as number;
    params[Param.sequence] = (record[Field.sequence] as number) + 1;
    params[Param.rows] = rows;
    params[Param.snapshotPtr] = ptr;
    params[Param.snapshotSize] = size;
    params[Param.seed] = seed;
    ring.handOver(slot, SlotState.Packed, 'submit');
    this.slot = (slot + 1) % ring.depth;
    return made + 1;
  }

  close(): void {}
}
