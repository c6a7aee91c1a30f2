/**
 * Polls the slots' two events: `copied` makes a slot Ready, `spent` makes it Free again once its record and scalars are in
 * the journal. Submitted → Ready, Replaying → Free. While any event is pending its thread sleeps natively, in `wait`.
 */
import { answered } from '../src/addon.ts';
import type { WeightMailbox } from '../src/buffer/weight-mailbox.ts';
import { native } from '../src/device/native.ts';
import { Mode, type Ring } from '../src/ring/ring.ts';
import { Field, MOST_SCALARS, OUT_SCALARS, SlotState } from '../src/ring/slot.ts';
import { newPoller, type Poller, Watch } from '../src/transfer/native.ts';
import type { Bell } from '../src/wait/bell.ts';
import type { Actor } from './actor.ts';

export interface PollSetup {
  ring: Ring;
  device: number;
  /** handles, one per slot; deferred copies have no `copied` of their own */
  copied: readonly number[];
  spent: readonly number[];
  /** events recorded before each copy and each update; empty when nothing is timed */
  copyBegins: readonly number[];
  updateBegins: readonly number[];
  deferred: boolean;
  /** every slot's host half, the bytes from one to the next, and where `out` lies in each */
  host: Uint8Array;
  hostStride: number;
  out: number;
  mailbox: WeightMailbox | null;
  /** the thread's bell; null when the caller steps the actors inline */
  bell: Bell | null;
  /** how long one look may help the device: 0 where the thread helps while it waits */
  helpNs: number;
  sleepNs: number;
  spinNs: number;
}

export class PollActor implements Actor {
  readonly role = 'poll';
  readonly #setup: PollSetup;
  readonly #ring: Ring;
  readonly #poller: Poller;
  /** copied events first, then spent ones */
  readonly #watch: Int32Array;
  readonly #times: Float64Array;
  readonly #scalars: Float32Array[];
  /** next slot to become Ready, and next to become Free */
  #ready: number;
  #free: number;

  constructor(setup: PollSetup) {
    const { ring, host, hostStride, out } = setup;
    this.#setup = setup;
    this.#ring = ring;
    this.#watch = new Int32Array(2 * ring.depth);
    this.#times = new Float64Array(2 * ring.depth);
    this.#poller = newPoller({
      device: setup.device,
      events: [...setup.copied, ...setup.spent],
      watch: this.#watch,
      times: this.#times,
      sleepNs: setup.sleepNs,
      spinNs: setup.spinNs,
      ...(setup.bell ? { bell: setup.bell.words } : {}),
    });
    this.#scalars = Array.from(
      { length: ring.depth },
      (_, slot) => new Float32Array(host.buffer, host.byteOffset + slot * hostStride + out + OUT_SCALARS, MOST_SCALARS),
    );
    this.#ready = ring.place(SlotState.Submitted);
    this.#free = ring.place(SlotState.Replaying);
  }

  get slot(): number {
    return this.#ring.state(this.#free) === SlotState.Replaying ? this.#free : this.#ready;
  }

  /** Events are watched that the device has not reached: the thread must sleep natively. */
  get pending(): boolean {
    return this.#watch.includes(Watch.pending);
  }

  work(): number {
    this.#watchNew();
    if (this.#watch.includes(Watch.pending)) this.#poller.check(this.#setup.helpNs);
    return this.#passReady() + this.#passFree();
  }

  /** Returns when an event is done or the bell's count is no longer `seen`, at the latest after `ms`. */
  wait(seen: number, ms: number): void {
    this.#poller.wait(seen, ms);
  }
  away(): void {
    this.#poller.away();
  }
  back(): void {
    this.#poller.back();
  }

  close(): void {
    this.#poller.close();
  }

  #watchNew(): void {
    const { depth } = this.#ring;
    for (let slot = 0; slot < depth; slot++) {
      const state = this.#ring.state(slot);
      if (state === SlotState.Submitted && this.#watch[slot] === Watch.idle) {
        this.#watch[slot] = this.#setup.deferred ? Watch.done : Watch.pending;
        if (this.#setup.deferred) this.#times[slot] = answered(native().nowMs());
      } else if (state === SlotState.Replaying && this.#watch[depth + slot] === Watch.idle) {
        this.#watch[depth + slot] = Watch.pending;
      }
    }
  }

  #passReady(): number {
    const ring = this.#ring;
    let passed = 0;
    while (this.#watch[this.#ready] === Watch.done) {
      const slot = this.#ready;
      this.#watch[slot] = Watch.idle;
      const record = ring.record(slot);
      record[Field.readyAt] = this.#times[slot] as number;
      record[Field.copyMs] = this.#elapsed(this.#setup.copyBegins, this.#setup.copied, slot);
      ring.handOver(slot, SlotState.Ready, 'replay');
      if (ring.mode !== Mode.autonomous) ring.client.ring();
      this.#ready = (slot + 1) % ring.depth;
      passed++;
    }
    return passed;
  }

  #elapsed(begins: readonly number[], ends: readonly number[], slot: number): number {
    const begin = begins[slot];
    return begin === undefined ? -1 : native().elapsedMs(begin, ends[slot] as number);
  }

  #passFree(): number {
    const ring = this.#ring;
    let passed = 0;
    while (this.#watch[ring.depth + this.#free] === Watch.done) {
      const slot = this.#free;
      this.#watch[ring.depth + slot] = Watch.idle;
      const record = ring.record(slot);
      record[Field.doneAt] = this.#times[ring.depth + slot] as number;
      // Manual updates are the caller's: nobody recorded their begin.
      if ((record[Field.updateMs] as number) >= 0)
        record[Field.updateMs] = this.#elapsed(this.#setup.updateBegins, this.#setup.spent, slot);
      const { mailbox } = this.#setup;
      const version = record[Field.version] as number;
      // A dead poll actor may have published it already: versions go up by one, so the count tells.
      if (mailbox && version === mailbox.published + 1) {
        mailbox.publish(version);
        // Replay may hold the last tick of a run back until a buffer is free.
        ring.bellOf('replay').ring();
      }
      // The record and the scalars are reused at once: into the journal before Free (I5).
      ring.journal.write(record, slot, this.#scalars[slot] as Float32Array);
      const next = ring.sequence(slot) + 1;
      ring.handOver(slot, SlotState.Free, 'pack');
      ring.reached(next);
      this.#free = (slot + 1) % ring.depth;
      passed++;
    }
    return passed;
  }
}
