/**
 * Averages parameters behind a tick, in poll's thread: the graph has brought them to the host; they are told to the group, and when
 * all others' are there, their mean is written over them, and into the version that the tick publishes. The slot stays Replaying
 * until that is done on the device too, and replay launches nothing meanwhile.
 */
import { answered } from '../src/addon.ts';
import type { WeightVersions } from '../src/buffer/weight-versions.ts';
import { native } from '../src/device/native.ts';
import { LOOK_ELSEWHERE_MS } from '../src/halo/exchange-words.ts';
import type { SharedAveraging } from '../src/pipeline/averaging.ts';
import { GroupRank, Purpose } from '../src/ranks/group-rank.ts';
import type { Ring } from '../src/ring/ring.ts';
import { Field } from '../src/ring/slot.ts';

/** How long a thread looks for what is nearly there, and how long it sleeps between two looks then: an eighth of what it has waited. */
const LOOK_MS = 0.05;
const SHORTEST_NAP_MS = 0.05;
const LONGEST_NAP_MS = 1;

export class Averager {
  readonly #ring: Ring;
  readonly #rank: GroupRank;
  readonly #all: Float32Array;
  readonly #shared: SharedAveraging;
  readonly #device: number;
  readonly #stream: number;
  readonly #mailbox: WeightVersions | null;
  #values: Float32Array | null = null;
  /** the mean is on its way to the device */
  #written = false;
  #begin = 0;

  constructor(ring: Ring, shared: SharedAveraging, device: number, stream: number, mailbox: WeightVersions | null) {
    const { memory, offset } = shared.values;
    this.#ring = ring;
    this.#shared = shared;
    this.#rank = new GroupRank(shared.group, shared.rank);
    this.#all = new Float32Array(memory, offset, shared.group.parameters);
    this.#device = device;
    this.#stream = stream;
    this.#mailbox = mailbox;
  }

  /** It waits for others. */
  get underWay(): boolean {
    return this.#values !== null;
  }

  /** Whether there is nothing (more) to be averaged behind this update, which is over. */
  isDone(sequence: number): boolean {
    const { run } = this.#ring;
    return !run.averages(sequence) || run.averaged > sequence;
  }

  /** Tells, or looks what has been told. True: the mean is on its way to the device, and `spent` was recorded behind it. */
  advance(slot: number, sequence: number, spent: number): boolean {
    if (this.#values === null) {
      this.#values = this.#brought();
      this.#begin = performance.now();
      this.#rank.start(Purpose.average, this.#values, this.#ring.run.averageEvery);
    }
    const values = this.#values;
    if (!this.#written) {
      if (!this.#rank.look()) return false;
      this.#rank.average(values);
      // What goes wrong from here on is the end of the group: the others have this rank's part, and it would not have theirs.
      this.#rank.failing(() => this.#write(slot, spent));
      this.#written = true;
    }
    // Now and then it is what the device has of it that is compared.
    if (this.#rank.isCompared && !this.#rank.failing(() => this.#readBack(spent))) return false;
    this.#ring.run.setAveraged(sequence + 1);
    this.#values = null;
    this.#written = false;
    this.#rank.finish();
    this.#ring.bells.of('replay').ring();
    return true;
  }

  /** Looks for a moment whether all is there; else how long the thread may sleep. */
  soon(): number {
    if (this.#rank.lookFor(LOOK_MS, LOOK_ELSEWHERE_MS)) return 0;
    return Math.min(LONGEST_NAP_MS, Math.max(SHORTEST_NAP_MS, (performance.now() - this.#begin) / 8));
  }

  #brought(): Float32Array {
    const { homeHandle } = this.#shared;
    const { tensors } = this.#ring.run.averagedTensors;
    const values = this.#all.subarray(0, tensors.reduce((sum, { bytes }) => sum + bytes, 0) / 4);
    if (homeHandle !== 0)
      answered(native().copyOut(homeHandle, new Uint8Array(values.buffer, values.byteOffset, values.byteLength)));
    return values;
  }

  #write(slot: number, spent: number): void {
    const { run } = this.#ring;
    const device = native();
    const stream = this.#stream;
    let at = 0;
    for (const { handle, byteOffset, bytes } of run.averagedTensors.tensors) {
      answered(device.copy(stream, handle, byteOffset, this.#shared.valuesHandle, at, bytes));
      at += bytes;
    }
    const version = this.#ring.record(slot)[Field.version] as number;
    const { published } = run.learner;
    if (version > 0 && this.#mailbox && published) {
      const { byteOffset } = this.#mailbox.bytesOf(version);
      const { mailbox, weights, weightsOffset, weightsBytes } = published;
      answered(device.copy(stream, mailbox, byteOffset, weights, weightsOffset, weightsBytes));
    }
    if (this.#rank.isCompared) {
      const host = this.#shared.homeHandle || this.#shared.valuesHandle;
      at = 0;
      for (const { handle, byteOffset, bytes } of run.averagedTensors.tensors) {
        answered(device.copy(stream, host, at, handle, byteOffset, bytes));
        at += bytes;
      }
    }
    answered(device.record(stream, spent));
  }

  /** False while the device is at it. */
  #readBack(spent: number): boolean {
    if (!answered(native().waitEvent(this.#device, spent, LONGEST_NAP_MS))) return false;
    this.#rank.compare(this.#brought());
    return true;
  }
}
