/**
 * Launches the learner's graph on a Ready slot and records `spent` after it. Ready → Replaying, in
 * autonomous runs only. In manual ticks the caller does this. Each update is applied exactly once,
 * whichever actor dies at any time (Slot-8).
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
  /** orders the compute stream after the slot's copy. In deferred mode it enqueues that copy too */
  backend: AttachedTransferBackend;
  mailbox: WeightVersions | null;
}

export class ReplayActor implements Actor {
  readonly role = 'replay';
  slot: number;
  /** true while the actor waits for the compute stream to be drained */
  waitsUnrung = false;
  readonly #setup: ReplaySetup;
  readonly #ring: Ring;
  readonly #times = new Float64Array(2);
  #replayer: Replayer | null = null;
  /**
   * true until the first launch. An actor that died may already have launched the update of the
   * first slot. The slot's mark shows this after the stream is drained
   */
  #unsure = true;
  /** true after manual ticks: the actor must find its next slot again */
  #astray = false;
  /**
   * true if a tick should have published but both spare buffers of the mailbox were in use. The
   * next tick then publishes
   */
  #owed = false;
  /**
   * versions that a dead actor or a closed pipeline began and did not publish. They are published
   * before any new version. Null before the search
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
      // The learner may capture new graphs before the next run, so replay releases the graphs. In
      // manual ticks the caller hands over Ready slots. So replay must find its next slot again
      // before the next run.
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
      // Poll stores the end before `averaged`. So replay reads `averaged` before `endsAt`, and
      // cannot miss an end that belongs to this `averaged`.
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
   * Returns true if replay must wait: a mean follows this tick, and the mean's copies are not
   * enqueued. Poll rings replay's bell after it has enqueued them.
   */
  #averages(sequence: number): boolean {
    const { run, header } = this.#ring;
    return run.averages(sequence) && !header.isAveraged(sequence);
  }

  /**
   * Launches the slot's update. Returns false if the slot must stay Ready until poll has published
   * a version.
   */
  #launch(replayer: Replayer, mode: Mode): boolean {
    const ring = this.#ring;
    const { slot } = this;
    const record = ring.record(slot);
    const sequence = ring.sequence(slot);
    let at = -1;
    if (this.#publishes(record)) {
      const place = this.#nextVersion();
      // If both spare buffers of the mailbox are in use, a later tick publishes. If this may be the
      // run's last tick, the slot stays Ready until a buffer is free.
      if (place === null && (mode === Mode.paused || ring.run.isLast(sequence))) return false;
      this.#owed = place === null;
      record[Field.version] = place?.version ?? 0;
      at = place?.byteOffset ?? -1;
    }
    const readback = this.#setup.slots.readbacks[slot];
    if (this.#unsure && readback !== undefined)
      answered(nativeMemory().copyOut(readback, this.#setup.hostBuffers.readbackBytes(slot)));
    // The graph ends by writing sequence + 1 to the slot's mark. If the mark has this value, the
    // update was applied and is not launched again (Slot-8).
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
    // A version that a dead actor began must not be skipped, so this tick publishes. This excludes
    // a version that poll refused: the next tick that publishes anyway uses its buffer.
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
    // During the search, poll may have published a version and freed its slot, so that claimed()
    // did not find the version. Such a version is published by now, and is not an orphan.
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
    // The next learner may reuse the versions that poll refused, so orphans are searched again. A
    // publication that was due expires with its run.
    this.#orphans = null;
    this.#owed = false;
  }

  close(): void {
    this.#drop();
    this.#setup.backend.close();
  }
}
