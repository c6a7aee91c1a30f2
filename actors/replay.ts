/**
 * Replays the learner's graph on a hot slot, and `spent` behind it. Ready → Replaying, in autonomous runs; manual ticks are
 * spent by the caller. An update is applied exactly once, whatever dies when (I8).
 */
import { answered } from '../src/addon.ts';
import type { VersionPlace, WeightMailbox } from '../src/buffer/weight-mailbox.ts';
import { Mode, type Ring, Run } from '../src/ring/ring.ts';
import { Field, SlotState } from '../src/ring/slot.ts';
import type { AttachedTransferBackend } from '../src/transfer/attached.ts';
import { newReplayer, type Replayer } from '../src/transfer/native.ts';
import type { Actor } from './actor.ts';

export interface ReplaySetup {
  ring: Ring;
  /** orders the compute stream behind the slot's copy, and makes a deferred one */
  backend: AttachedTransferBackend;
  stream: number;
  spent: readonly number[];
  /** recorded before each update; empty when nothing is timed */
  begins: readonly number[];
  /** every slot's host half, the bytes from one to the next, and where `out` lies in each */
  host: Uint8Array;
  hostStride: number;
  out: number;
  mailbox: WeightMailbox | null;
}

export class ReplayActor implements Actor {
  readonly role = 'replay';
  slot: number;
  readonly #setup: ReplaySetup;
  readonly #ring: Ring;
  readonly #marks: Float64Array[];
  readonly #times = new Float64Array(2);
  #replayer: Replayer | null = null;
  /** the first slot may have been launched by an actor that died; unknown until the stream is drained */
  #unsure = true;
  /** manual ticks went by: the place must be found again */
  #astray = false;
  /** a publication that was due while both spare buffers were being written */
  #owed = false;
  /** versions that a dead actor (or a closed pipeline) began and nobody will publish: taken over before any new one */
  #orphans: VersionPlace[] | null = null;

  constructor(setup: ReplaySetup) {
    const { ring, host, hostStride, out } = setup;
    this.#setup = setup;
    this.#ring = ring;
    this.#marks = Array.from(
      { length: ring.depth },
      (_, slot) => new Float64Array(host.buffer, host.byteOffset + slot * hostStride + out, 1),
    );
    this.slot = ring.place(SlotState.Ready);
  }

  work(): number {
    const ring = this.#ring;
    const { mode } = ring;
    if (mode === Mode.manual || (mode === Mode.paused && ring.idle)) {
      // Graphs may be captured anew before the next run, and the caller passes slots meanwhile.
      this.#drop();
      this.#astray = true;
      if (mode === Mode.paused) ring.acknowledgePause('replay');
      return 0;
    }
    if (this.#astray) this.slot = ring.place(SlotState.Ready);
    this.#astray = false;
    let launched = 0;
    while (ring.state(this.slot) === SlotState.Ready) {
      this.#replayer ??= this.#make();
      if (this.#unsure && !this.#replayer.drained()) return launched;
      if (!this.#launch(this.#replayer, mode)) return launched;
      launched++;
    }
    return launched;
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
      // Both spare buffers are being written: the debt goes to a later tick, unless there may be none.
      if (place === null && (mode === Mode.paused || this.#isLast(sequence))) return false;
      this.#owed = place === null;
      record[Field.version] = place?.version ?? 0;
      at = place?.byteOffset ?? -1;
    }
    // The graph's last act is to write sequence + 1 to the slot's mark: what it has seen is not launched again (I8).
    const applied = this.#unsure && (this.#marks[slot] as Float64Array)[0] === sequence + 1;
    this.#unsure = false;
    if (applied) answered(replayer.mark(slot, at));
    else {
      this.#setup.backend.waitStreamForReady(slot, this.#setup.stream);
      answered(replayer.launch(slot, at));
    }
    record[Field.updateMs] = 0;
    record[Field.replayBegin] = this.#times[0] as number;
    record[Field.replayEnd] = this.#times[1] as number;
    ring.handOver(slot, SlotState.Replaying, 'poll');
    this.slot = (slot + 1) % ring.depth;
    return true;
  }

  #isLast(sequence: number): boolean {
    const { run } = this.#ring;
    return sequence + 1 - (run[Run.firstSequence] as number) === run[Run.ticks];
  }

  #publishes(record: Float64Array): boolean {
    const { mailbox } = this.#setup;
    if (!mailbox || (this.#ring.run[Run.weights] as number) === 0) return false;
    this.#orphans ??= this.#findOrphans(mailbox, record);
    return record[Field.publish] === 1 || this.#owed || this.#orphans.length > 0;
  }

  #nextVersion(): VersionPlace | null {
    return this.#orphans?.shift() ?? (this.#setup.mailbox as WeightMailbox).begin();
  }

  #findOrphans(mailbox: WeightMailbox, own: Float64Array): VersionPlace[] {
    const ring = this.#ring;
    const claimed = (version: number) => {
      for (let slot = 0; slot < ring.depth; slot++) {
        const record = ring.record(slot);
        if (record !== own && ring.state(slot) === SlotState.Replaying && record[Field.version] === version)
          return true;
      }
      return false;
    };
    const orphans = mailbox.unpublished().filter(({ version }) => !claimed(version));
    // Poll publishes before Free: what was in nobody's slot and is published by now never was an orphan.
    return orphans.filter(({ version }) => version > mailbox.published);
  }

  #make(): Replayer {
    if (this.#ring.mode === Mode.paused) this.#ring.withdrawPause('replay');
    const { run, depth } = this.#ring;
    const { stream, spent, begins } = this.#setup;
    const graphs = [...run.subarray(Run.graphs, Run.graphs + depth)];
    const weights = run[Run.weights] as number;
    const published =
      weights === 0
        ? {}
        : {
            weights,
            weightsOffset: run[Run.weightsOffset] as number,
            weightsBytes: run[Run.weightsBytes] as number,
            mailbox: run[Run.mailbox] as number,
          };
    return newReplayer({ stream, spent, graphs, begins, times: this.#times, ...published });
  }

  #drop(): void {
    this.#replayer?.close();
    this.#replayer = null;
  }

  close(): void {
    this.#drop();
    this.#setup.backend.close();
  }
}
