/**
 * Launches the learner's graph on a hot slot, and records `spent` after it. Ready → Replaying, in
 * autonomous runs. Manual ticks are spent by the caller. An update is applied exactly once,
 * whatever dies when (Slot-8).
 */
import { answered } from '../src/base/addon.ts';
import { nativeMemory } from '../src/device/native.ts';
import type { AttachedTransferBackend } from '../src/device/transfer/attached.ts';
import { newReplayer, type Replayer } from '../src/device/transfer/native.ts';
import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { SharedSlots } from '../src/engine/pipeline/slots.ts';
import { Mode } from '../src/engine/ring/header.ts';
import type { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field, SlotState } from '../src/engine/ring/slot.ts';
import type { VersionPlace, WeightVersions } from '../src/store/weights/weight-versions.ts';

interface ReplaySetup {
  ring: Ring;
  hostBuffers: HostBuffers;
  slots: SharedSlots;
  /** orders the compute stream after the slot's copy, and makes a deferred one */
  backend: AttachedTransferBackend;
  mailbox: WeightVersions | null;
}

export class ReplayActor implements Actor {
  readonly role = 'replay';
  slot: number;
  /** for the compute stream to be drained */
  waitsUnrung = false;
  readonly #setup: ReplaySetup;
  readonly #ring: Ring;
  readonly #times = new Float64Array(2);
  #replayer: Replayer | null = null;
  /**
   * the first slot may have been launched by an actor that died, which is unknown until the stream
   * is drained
   */
  #unsure = true;
  /** manual ticks went by: the place must be found again */
  #astray = false;
  /** a publication that was due while both spare buffers were being written */
  #owed = false;
  /**
   * versions that a dead actor (or a closed pipeline) began and will not publish: taken over before
   * any new one
   */
  #orphans: VersionPlace[] | null = null;

  constructor(setup: ReplaySetup) {
    const { ring } = setup;
    this.#setup = setup;
    this.#ring = ring;
    this.slot = ring.nextSlotFor(SlotState.Ready);
  }

  work(): number {
    const ring = this.#ring;
    const { mode } = ring.header;
    if (mode === Mode.manual || (mode === Mode.paused && ring.settled)) {
      // Graphs may be captured anew before the next run, and the caller passes slots meanwhile.
      this.#drop();
      this.#astray = true;
      if (mode === Mode.paused) ring.header.acknowledgePause('replay');
      return 0;
    }
    if (this.#astray) this.slot = ring.nextSlotFor(SlotState.Ready);
    this.#astray = false;
    this.waitsUnrung = false;
    let launched = 0;
    while (ring.state(this.slot) === SlotState.Ready) {
      const sequence = ring.sequence(this.slot);
      // In this order: poll stores the end before it stores that the tick is averaged.
      if (this.#averages(sequence - 1) || sequence >= ring.run.endsAt) return launched;
      this.#replayer ??= this.#make();
      this.waitsUnrung = this.#unsure && !this.#replayer.drained();
      if (this.waitsUnrung) return launched;
      if (!this.#launch(this.#replayer, mode)) return launched;
      launched++;
    }
    return launched;
  }

  /**
   * Whether the parameters after this tick of the run are being averaged. Poll rings when the mean
   * is on its way to the device.
   */
  #averages(sequence: number): boolean {
    const { run, header } = this.#ring;
    return run.averages(sequence) && !header.isAveraged(sequence);
  }

  /** False when the slot must stay Ready until poll has published a version. */
  #launch(replayer: Replayer, mode: Mode): boolean {
    const ring = this.#ring;
    const { slot } = this;
    const record = ring.record(slot);
    const sequence = ring.sequence(slot);
    let at = -1;
    if (this.#publishes(record)) {
      const place = this.#nextVersion();
      // Both spare buffers are being written: the debt goes to a later tick, unless none may come.
      if (place === null && (mode === Mode.paused || ring.run.isLast(sequence))) return false;
      this.#owed = place === null;
      record[Field.version] = place?.version ?? 0;
      at = place?.byteOffset ?? -1;
    }
    const readback = this.#setup.slots.readbacks[slot];
    if (this.#unsure && readback !== undefined)
      answered(nativeMemory().copyOut(readback, this.#setup.hostBuffers.readbackBytes(slot)));
    // The graph's last act is to write sequence + 1 to the slot's mark: a sequence that the mark
    // has seen is not launched again (Slot-8).
    const applied = this.#unsure && this.#setup.hostBuffers.mark(slot)[0] === sequence + 1;
    this.#unsure = false;
    if (applied) answered(replayer.mark(slot, at));
    else {
      this.#setup.backend.waitStreamForReady(slot, this.#setup.slots.computeStream);
      answered(replayer.launch(slot, at));
    }
    record[Field.updateMs] = 0;
    record[Field.replayBegin] = this.#times[0] as number;
    record[Field.replayEnd] = this.#times[1] as number;
    ring.handOver(slot, SlotState.Replaying, 'poll');
    this.slot = (slot + 1) % ring.depth;
    return true;
  }

  #publishes(record: Float64Array): boolean {
    const { mailbox } = this.#setup;
    const { run } = this.#ring;
    if (!mailbox || !run.hasWeights || !run.mayPublish) return false;
    this.#orphans ??= this.#findOrphans(mailbox, record);
    // A version that a dead actor began was due. A version that poll refused is not: its place
    // waits for a later one.
    const due = this.#orphans.some(({ version }) => version > mailbox.refused);
    return record[Field.publish] === 1 || this.#owed || due;
  }

  #nextVersion(): VersionPlace | null {
    return this.#orphans?.shift() ?? (this.#setup.mailbox as WeightVersions).begin();
  }

  #findOrphans(mailbox: WeightVersions, own: Float64Array): VersionPlace[] {
    const ring = this.#ring;
    const claimed = (version: number) => {
      for (let slot = 0; slot < ring.depth; slot++) {
        const record = ring.record(slot);
        if (
          record !== own &&
          ring.state(slot) === SlotState.Replaying &&
          record[Field.version] === version
        )
          return true;
      }
      return false;
    };
    const orphans = mailbox.unpublished().filter(({ version }) => !claimed(version));
    // Poll publishes before Free: a version that was in no slot and is published by now never was
    // an orphan.
    return orphans.filter(({ version }) => version > mailbox.published);
  }

  #make(): Replayer {
    const { header, run } = this.#ring;
    if (header.mode === Mode.paused) header.withdrawPause('replay');
    const { computeStream: stream, spent, updateBegins: begins } = this.#setup.slots;
    const { graphs, published } = run.learner;
    return newReplayer({ stream, spent, graphs, begins, times: this.#times, ...published });
  }

  #drop(): void {
    this.#replayer?.close();
    this.#replayer = null;
    // Versions that poll refused have no owner any more when the next learner begins, and a run's
    // debts end with it.
    this.#orphans = null;
    this.#owed = false;
  }

  close(): void {
    this.#drop();
    this.#setup.backend.close();
  }
}
