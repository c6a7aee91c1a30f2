/**
 * Averages parameters after a tick, in poll's thread. The graph has brought them to the host, and
 * they are sent to the group. When all others' are there, their mean is written over them, and into
 * the version that the tick publishes. The slot stays Replaying until that is done on the device
 * too, and replay launches nothing meanwhile.
 */
import { answered } from '../src/base/addon.ts';
import { nativeEvents, nativeMemory, nativeStreams } from '../src/device/native.ts';
import { GroupRank } from '../src/engine/group/group-rank.ts';
import { Purpose } from '../src/engine/group/letter.ts';
import type { Ended } from '../src/engine/group/verdict.ts';
import type { SharedAveraging } from '../src/engine/pipeline/averaging.ts';
import { Pause } from '../src/engine/ring/header.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field } from '../src/engine/ring/slot.ts';
import { Ending } from '../src/shm/ending.ts';
import { LOOK_ELSEWHERE_MS } from '../src/shm/exchange-control.ts';
import type { WeightVersions } from '../src/store/weights/weight-versions.ts';

/**
 * How long a thread looks for what is nearly there. Between two looks it sleeps an eighth of what
 * it has waited, within these bounds.
 */
const LOOK_MS = 0.05;
const MIN_NAP_MS = 0.05;
const MAX_NAP_MS = 1;

export class Averager {
  readonly #ring: Ring;
  readonly #rank: GroupRank;
  readonly #all: Float32Array;
  readonly #shared: SharedAveraging;
  readonly #device: number;
  readonly #stream: number;
  readonly #mailbox: WeightVersions | null;
  #values: Float32Array | null = null;
  /** this rank's part was sent */
  #started = false;
  /** the mean is on its way to the device */
  #written = false;
  /** who ends the run with the mean */
  #ended: Ended | null = null;
  #begin = 0;

  constructor(
    ring: Ring,
    shared: SharedAveraging,
    device: number,
    stream: number,
    mailbox: WeightVersions | null,
  ) {
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

  /** Whether there is nothing (more) to be averaged after this update, which is over. */
  isDone(sequence: number): boolean {
    const { run, header } = this.#ring;
    return !run.averages(sequence) || header.isAveraged(sequence);
  }

  /**
   * Sends, or looks what has been sent. True: the mean is on its way to the device, and `spent` was
   * recorded after it.
   */
  advance(slot: number, sequence: number, spent: number): boolean {
    const rank = this.#rank;
    if (this.#values === null) {
      this.#values = this.#brought();
      this.#begin = performance.now();
    }
    if (!this.#started) {
      const settled = this.#settle();
      if (settled === false) return false;
      if (settled !== true) return this.#endWithout(sequence, settled);
      rank.start(
        Purpose.average,
        this.#values,
        this.#ring.run.averageEvery,
        this.#endsAt(sequence),
      );
      this.#started = true;
    }
    if (!this.#written) {
      if (!rank.advance()) return false;
      const outcome = rank.outcome();
      if (!outcome.averages) return this.#endWithout(sequence, outcome.ended as Ended);
      rank.average(this.#values);
      // A failure from here on is the end of the group: the others have this rank's part, and it
      // would not have theirs.
      rank.failing(() => this.#write(slot, spent));
      this.#written = true;
      this.#ended = outcome.ended;
    }
    // Now and then the device's values of the mean are compared.
    if (rank.isCompared && !rank.failing(() => this.#readBack(spent))) return false;
    if (this.#ended) this.#end(sequence, this.#ended);
    this.#pass(sequence);
    rank.finish();
    this.#ring.bells.of('replay').ring();
    return true;
  }

  /**
   * Looks for the parts of an exchange that this rank left, which come before the next one. Returns
   * true if none are missing, false while some are, or how the run ends without them.
   */
  #settle(): boolean | Ended {
    const rank = this.#rank;
    const { header } = this.#ring;
    const settled = rank.settle(true);
    if (settled !== false || !header.alone) return settled;
    return { rank: rank.rank, why: header.ending };
  }

  /** Why this rank's run ends with this tick, which its letter says. */
  #endsAt(sequence: number): Ending {
    const { run, header } = this.#ring;
    if (run.isLast(sequence)) return Ending.ticks;
    if (!header.isPaused(Pause.end)) return Ending.none;
    // Slot-9: what has no slot by now gets none any more.
    return this.#ring.isLast(sequence) ? header.ending : Ending.none;
  }

  /**
   * Ends the run with this tick and without a mean: the parameters stay this learner's own. `spent`
   * is done already.
   */
  #endWithout(sequence: number, ended: Ended): true {
    this.#end(sequence, ended);
    this.#pass(sequence);
    this.#rank.leave();
    this.#ring.bells.of('replay').ring();
    return true;
  }

  /**
   * Sequences after this one are given back. Stored before `averaged`: replay reads it after that.
   */
  #end(sequence: number, { rank, why }: Ended): void {
    const { run, header } = this.#ring;
    run.endAt(sequence + 1, rank, why);
    // This rank's own reason, or none.
    if (rank === this.#rank.rank) header.end(why);
    else header.pause(Pause.end);
    this.#ring.bells.client.ring();
  }
  #pass(sequence: number): void {
    this.#ring.header.setAveraged(sequence + 1);
    this.#values = null;
    this.#started = false;
    this.#written = false;
    this.#ended = null;
  }

  /** Looks for a moment whether all is there. If not, returns how long the thread may sleep. */
  soon(): number {
    if (this.#rank.spin(LOOK_MS, LOOK_ELSEWHERE_MS)) return 0;
    return Math.min(MAX_NAP_MS, Math.max(MIN_NAP_MS, (performance.now() - this.#begin) / 8));
  }

  #brought(): Float32Array {
    const { readbackHandle } = this.#shared;
    const { tensors } = this.#ring.run.averagedTensors;
    const values = this.#all.subarray(0, tensors.reduce((sum, { bytes }) => sum + bytes, 0) / 4);
    if (readbackHandle !== 0)
      answered(
        nativeMemory().copyOut(
          readbackHandle,
          new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
        ),
      );
    return values;
  }

  #write(slot: number, spent: number): void {
    const { run } = this.#ring;
    const streams = nativeStreams();
    const stream = this.#stream;
    let at = 0;
    for (const { handle, byteOffset, bytes } of run.averagedTensors.tensors) {
      answered(streams.copy(stream, handle, byteOffset, this.#shared.valuesHandle, at, bytes));
      at += bytes;
    }
    const version = this.#ring.record(slot)[Field.version] as number;
    const { published } = run.learner;
    if (version > 0 && this.#mailbox && published) {
      const { byteOffset } = this.#mailbox.bytesOf(version);
      const { mailbox, weights, weightsOffset, weightsBytes } = published;
      answered(streams.copy(stream, mailbox, byteOffset, weights, weightsOffset, weightsBytes));
    }
    if (this.#rank.isCompared) {
      const host = this.#shared.readbackHandle || this.#shared.valuesHandle;
      at = 0;
      for (const { handle, byteOffset, bytes } of run.averagedTensors.tensors) {
        answered(streams.copy(stream, host, at, handle, byteOffset, bytes));
        at += bytes;
      }
    }
    answered(streams.record(stream, spent));
  }

  /** False while the device is at it. */
  #readBack(spent: number): boolean {
    if (!answered(nativeEvents().waitEvent(this.#device, spent, MAX_NAP_MS))) return false;
    this.#rank.compare(this.#brought());
    return true;
  }
}
