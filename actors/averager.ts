/**
 * Averages parameters after a tick, on poll's thread. The tick's graph has copied this learner's
 * parameters to the host. The averager sends them to the other learners of the group, and receives
 * their parameters. It then enqueues copies that overwrite this learner's parameters with the mean.
 * If the tick publishes weights, another copy writes the averaged weights to the version that it
 * publishes.
 *
 * Replay launches the next graph only after these copies are enqueued. The slot stays Replaying
 * until the device has made them.
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
 * Milliseconds. soon() spins for LOOK_MS. Between two spins the thread sleeps for an eighth of the
 * time since this mean began, but at least MIN_NAP_MS and at most MAX_NAP_MS.
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
  /** true after this rank has sent its parameters */
  #started = false;
  /** true after the copies of the mean to the device are enqueued */
  #written = false;
  /** the rank that ends the run after this mean and its reason, null if the run continues */
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

  /** True from the first advance() for a mean until the copies of that mean are enqueued. */
  get underWay(): boolean {
    return this.#values !== null;
  }

  /**
   * Returns true if no mean follows this sequence's update, or if the mean's copies are enqueued.
   * Call it after the update is over.
   */
  isDone(sequence: number): boolean {
    const { run, header } = this.#ring;
    return !run.averages(sequence) || header.isAveraged(sequence);
  }

  /**
   * Sends this rank's parameters, or checks whether those of the other ranks have arrived. Call it
   * again until it returns true.
   *
   * True means that the copies of the mean are enqueued and `spent` is recorded after them, or that
   * the run ends without a mean.
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
      // From here on, a failure on this rank must fail the group. The other ranks have this rank's
      // parameters and continue with the mean, but this rank would continue without it.
      rank.failing(() => this.#write(slot, spent));
      this.#written = true;
      this.#ended = outcome.ended;
    }
    // Some exchanges read the mean back from the device, to compare it between ranks.
    if (rank.isCompared && !rank.failing(() => this.#readBack(spent))) return false;
    if (this.#ended) this.#end(sequence, this.#ended);
    this.#pass(sequence);
    rank.finish();
    this.#ring.bells.of('replay').ring();
    return true;
  }

  /**
   * If this rank left an earlier exchange, checks whether the parameters of all ranks have arrived
   * in that exchange. The next exchange may start only after that (Group-5).
   *
   * Returns true if none are missing, and false if the caller must check again. If the run ends
   * without them, returns who ends the run and why.
   */
  #settle(): boolean | Ended {
    const rank = this.#rank;
    const { header } = this.#ring;
    const settled = rank.settle(true);
    if (settled !== false || !header.alone) return settled;
    return { rank: rank.rank, why: header.ending };
  }

  /**
   * Returns why this rank's run ends with this tick, or Ending.none if the run continues. The rank
   * sends the result in its letter.
   */
  #endsAt(sequence: number): Ending {
    const { run, header } = this.#ring;
    if (run.isLast(sequence)) return Ending.ticks;
    if (!header.isPaused(Pause.end)) return Ending.none;
    // Slot-9: once the end bit is set, a tick that has no slot will never get one.
    return this.#ring.isLast(sequence) ? header.ending : Ending.none;
  }

  /**
   * Ends the run with this tick and without a mean. The learner keeps its own parameters. No copies
   * are enqueued, so `spent`, which poll has already seen, still shows that the device is done with
   * the slot.
   */
  #endWithout(sequence: number, ended: Ended): true {
    this.#end(sequence, ended);
    this.#pass(sequence);
    this.#rank.leave();
    this.#ring.bells.of('replay').ring();
    return true;
  }

  /**
   * Ends the run after this sequence. The opener takes back the batches of later sequences.
   *
   * The caller stores `averaged` after this call, and replay reads `averaged` before the end. So
   * replay cannot see the new `averaged` without the end, and launches none of those batches.
   */
  #end(sequence: number, { rank, why }: Ended): void {
    const { run, header } = this.#ring;
    run.endAt(sequence + 1, rank, why);
    // The header contains a reason only if this rank ended the run.
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

  /**
   * Spins until all parameters have arrived or the bell rings. Returns 0 if one of these happened.
   * Otherwise returns the milliseconds that the thread may sleep.
   */
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

  /**
   * Compares the mean in the device's memory with that of the other ranks. Returns false while the
   * device still copies it.
   */
  #readBack(spent: number): boolean {
    if (!answered(nativeEvents().waitEvent(this.#device, spent, MAX_NAP_MS))) return false;
    this.#rank.compare(this.#brought());
    return true;
  }
}
