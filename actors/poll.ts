/**
 * Checks whether the two events of each slot are done. When `copied` is done, poll makes the slot
 * Ready: Submitted → Ready. When `spent` is done, poll writes the tick's record and scalars to the
 * journal and makes the slot Free: Replaying → Free. While an event is pending, poll's thread
 * sleeps in native code, in wait().
 */

import { answered } from '../src/base/addon.ts';
import { nowMs } from '../src/base/clock.ts';
import { nativeEvents, nativeMemory } from '../src/device/native.ts';
import { newPoller, type Poller, TransferMode, Watch } from '../src/device/transfer/native.ts';
import type { AttachedDeviceRows } from '../src/engine/device-rows/attached.ts';
import { eventOf, MAX_IN_FLIGHT } from '../src/engine/device-rows/control-block.ts';
import type { Actor } from '../src/engine/pipeline/actors.ts';
import type { SharedSlots } from '../src/engine/pipeline/slots.ts';
import { Mode } from '../src/engine/ring/header.ts';
import type { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Field, SlotState } from '../src/engine/ring/slot.ts';
import { SlotCursor } from '../src/engine/ring/slot-cursor.ts';
import type { Bell } from '../src/shm/bell.ts';
import type { WeightVersions } from '../src/store/weights/weight-versions.ts';
import type { Averager } from './averager.ts';

/**
 * Value of `copyMs` while the copy may still run. Poll stores the measured time in the record
 * before the slot becomes Free.
 */
const UNMEASURED = -2;

interface PollSetup {
  ring: Ring;
  hostBuffers: HostBuffers;
  slots: SharedSlots;
  device: number;
  mailbox: WeightVersions | null;
  mailboxReadback: number;
  /** the thread's bell, null when the caller steps the actors inline */
  bell: Bell | null;
  /** nanoseconds for which one check may help the device, 0 if the thread helps while it waits */
  helpNs: number;
  sleepNs: number;
  spinNs: number;
  /** rows on the device, whose spans poll watches too, null if rows travel with each batch */
  rows: AttachedDeviceRows | null;
  /**
   * whether poll makes a slot Ready in autonomous runs before its copy is done. Replay then makes
   * the device order the update after the copy
   */
  passOn: boolean;
  /** null without a learner group */
  averager: Averager | null;
}

export class PollActor implements Actor {
  readonly role = 'poll';
  readonly #setup: PollSetup;
  readonly #ring: Ring;
  readonly #poller: Poller;
  /** a `Watch` per event: the `copied` events, then the `spent` events, then the events of spans */
  readonly #watch: Int32Array;
  readonly #times: Float64Array;
  /**
   * for the `copied` events, the `spent` events and the events of spans: the index of the oldest,
   * at which each check begins
   */
  readonly #oldest = new Int32Array(3);
  /**
   * whether no slot has a `copied` event: rows are packed in device memory, or the consumer copies
   * them
   */
  readonly #uncopied: boolean;
  readonly #passOn: boolean;
  /** by slot: whether it becomes Ready without a check of its copy */
  readonly #unpolled: boolean[] = [];
  /** the next slot to become Ready, and the next to become Free */
  readonly #ready: SlotCursor;
  #free: number;

  constructor(setup: PollSetup) {
    const { ring, slots } = setup;
    this.#setup = setup;
    this.#ring = ring;
    const all = [slots.backend.copied, slots.spent, setup.rows?.shared.events ?? []];
    const events = all.flat();
    this.#watch = new Int32Array(events.length);
    this.#times = new Float64Array(events.length);
    this.#poller = newPoller({
      device: setup.device,
      events,
      watch: this.#watch,
      times: this.#times,
      counts: all.map((each) => each.length),
      oldest: this.#oldest,
      sleepNs: setup.sleepNs,
      spinNs: setup.spinNs,
      ...(setup.bell ? { bell: setup.bell.words } : {}),
    });
    this.#uncopied = slots.backend.mode !== TransferMode.immediate;
    this.#passOn = setup.passOn;
    this.#ready = new SlotCursor(ring, SlotState.Submitted);
    this.#free = ring.nextSlotFor(SlotState.Replaying);
  }

  get slot(): number {
    return this.#ring.state(this.#free) === SlotState.Replaying ? this.#free : this.#ready.slot;
  }

  /**
   * True if a watched event is not done, or if the averager waits for learners, whose messages ring
   * no bell. The thread must then sleep in native code.
   */
  get pending(): boolean {
    return this.#watch.includes(Watch.pending) || this.#setup.averager?.underWay === true;
  }

  work(): number {
    this.#watchNew();
    if (this.#watch.includes(Watch.pending)) this.#poller.check(this.#setup.helpNs);
    return this.#passSpans() + this.#passReady() + this.#passFree();
  }

  /**
   * Sleeps until an event is done, the bell's count differs from `count`, or `ms` milliseconds have
   * passed. While the averager waits for other learners, it sleeps for at most the time that soon()
   * allows.
   */
  wait(count: number, ms: number): void {
    const { averager } = this.#setup;
    const most = averager?.underWay ? averager.soon() : ms;
    if (most > 0) this.#poller.wait(count, most);
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
    const { depth, header } = this.#ring;
    for (let slot = 0; slot < depth; slot++) {
      const state = this.#ring.state(slot);
      if (state === SlotState.Submitted && this.#watch[slot] === Watch.idle) {
        // The mode is read after the state, so it is the mode in which this tick was requested. The
        // client stores the mode before it asks for a manual tick. The mode of a run becomes manual
        // only after no slot contains a tick of the run.
        const unpolled = this.#uncopied || (this.#passOn && header.mode !== Mode.manual);
        this.#unpolled[slot] = unpolled;
        this.#watch[slot] = unpolled ? Watch.done : Watch.pending;
        if (unpolled) this.#times[slot] = nowMs();
      } else if (state === SlotState.Replaying && this.#watch[depth + slot] === Watch.idle) {
        this.#watch[depth + slot] = Watch.pending;
      }
    }
    const words = this.#setup.rows?.words;
    if (words && words.underWay > 0) this.#watchSpans(words.done, words.underWay);
    // The poller checks events in the order in which slots are handed over. Reading `waits` updates
    // the cursor's slot if the client rewound the ring.
    void this.#ready.waits;
    this.#oldest[0] = this.#ready.slot;
    this.#oldest[1] = this.#free;
    this.#oldest[2] = words ? eventOf(words.done) : 0;
  }

  #watchSpans(first: number, many: number): void {
    for (let span = first; span !== first + many; span++) {
      const at = 2 * this.#ring.depth + eventOf(span);
      if (this.#watch[at] === Watch.idle) this.#watch[at] = Watch.pending;
    }
  }

  /**
   * Finishes the spans whose copies are done, and returns their number. `rows.lost` is read after
   * the span's event was seen. So it includes every row that a writer may have begun to overwrite
   * during the copy (DeviceRows-2).
   */
  #passSpans(): number {
    const { rows } = this.#setup;
    let passed = 0;
    if (rows === null) return 0;
    for (; passed < MAX_IN_FLIGHT && rows.words.underWay > 0; passed++) {
      const at = 2 * this.#ring.depth + eventOf(rows.words.done);
      if (this.#watch[at] !== Watch.done) break;
      this.#watch[at] = Watch.idle;
      rows.words.finish(rows.lost, rows.shared.places);
    }
    if (passed > 0) this.#ring.bells.of('pack').ring();
    return passed;
  }

  #passReady(): number {
    const ring = this.#ring;
    const { backend } = this.#setup.slots;
    let passed = 0;
    while (this.#ready.waits && this.#watch[this.#ready.slot] === Watch.done) {
      const { slot } = this.#ready;
      this.#watch[slot] = Watch.idle;
      const record = ring.record(slot);
      record[Field.readyAt] = this.#times[slot] as number;
      record[Field.copyMs] = this.#unpolled[slot]
        ? UNMEASURED
        : this.#elapsed(backend.begins, backend.copied, slot);
      ring.handOver(slot, SlotState.Ready, 'replay');
      if (ring.header.mode !== Mode.autonomous) ring.bells.client.ring();
      this.#ready.next();
      passed++;
    }
    return passed;
  }

  #elapsed(begins: readonly number[], ends: readonly number[], slot: number): number {
    const begin = begins[slot];
    return begin === undefined ? -1 : nativeEvents().elapsedMs(begin, ends[slot] as number);
  }

  /**
   * Publishes the weight version that this tick wrote, if any. Refuses a version with non-finite
   * weights and every later version, unless the client asked to publish non-finite weights.
   */
  #publish(mailbox: WeightVersions, record: Float64Array): void {
    const { run, bells } = this.#ring;
    const version = record[Field.version] as number;
    // A poll actor that died may have published this version already. Versions increase by one, so
    // a comparison with `published` detects that.
    if (version <= mailbox.published) return;
    const { mailboxReadback } = this.#setup;
    if (mailboxReadback) {
      const { bytes, byteOffset } = mailbox.bytesOf(version);
      answered(nativeMemory().copyOut(mailboxReadback, bytes, byteOffset));
    }
    const next = version === mailbox.published + 1;
    if (next && run.noteWeights(record[Field.tick] as number, mailbox.notFinite(version)))
      mailbox.publish(version);
    else {
      mailbox.refuse(version);
      record[Field.version] = 0;
    }
    // Before a run's last tick that publishes, replay may wait for a free buffer of the mailbox.
    // publish() may have freed one, and after a refusal replay need not wait.
    bells.of('replay').ring();
  }

  /**
   * Returns true if the slot must stay Replaying, because its update is over but its mean is not.
   * When the mean's copies are enqueued, poll watches `spent` again, because `spent` is recorded a
   * second time after them.
   */
  #averages(slot: number, record: Float64Array): boolean {
    const { averager, slots } = this.#setup;
    // The caller makes the updates of manual ticks, and they are not averaged.
    if (averager === null || (record[Field.updateMs] as number) < 0) return false;
    const sequence = this.#ring.sequence(slot);
    if (averager.isDone(sequence)) return false;
    if (averager.advance(slot, sequence, slots.spent[slot] as number))
      this.#watch[this.#ring.depth + slot] = Watch.pending;
    return true;
  }

  #passFree(): number {
    const ring = this.#ring;
    const { hostBuffers, mailbox, slots } = this.#setup;
    let passed = 0;
    while (this.#watch[ring.depth + this.#free] === Watch.done) {
      const slot = this.#free;
      const record = ring.record(slot);
      if (this.#averages(slot, record)) return passed;
      this.#watch[ring.depth + slot] = Watch.idle;
      record[Field.doneAt] = this.#times[ring.depth + slot] as number;
      if (record[Field.copyMs] === UNMEASURED)
        record[Field.copyMs] = this.#elapsed(slots.backend.begins, slots.backend.copied, slot);
      // The caller makes the updates of manual ticks: their begin is not recorded, and they write
      // no scalars. Updates of both kinds may write priorities.
      const updated = (record[Field.updateMs] as number) >= 0;
      const readback = slots.readbacks[slot];
      if (readback !== undefined && (updated || slots.host.priorityBytes > 0))
        answered(nativeMemory().copyOut(readback, hostBuffers.readbackBytes(slot)));
      if (updated) {
        record[Field.updateMs] = this.#elapsed(slots.updateBegins, slots.spent, slot);
        ring.run.noteScalars(record[Field.tick] as number, hostBuffers.scalars(slot));
      }
      if (mailbox) this.#publish(mailbox, record);
      // A Free slot's record and scalars can be overwritten at once. So poll writes them to the
      // journal first (Slot-5).
      ring.journal.write(record, slot, hostBuffers.scalars(slot));
      const next = ring.sequence(slot) + 1;
      ring.handOver(slot, SlotState.Free, 'pack');
      ring.header.reached(next);
      this.#free = (slot + 1) % ring.depth;
      passed++;
    }
    return passed;
  }
}
