/**
 * Manual ticks: which tick is pending (asked for, perhaps prepared), which is hot (its batch is in the caller's hands), and
 * which moments are wrong. The semantics are UniLab's replay pipeline's; see docs/pipeline.md.
 */
import { checkCount, shown } from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { DeviceEvent, Stream } from '../../device/device.ts';
import type { Ring } from '../ring/ring.ts';
import { Field, PACKED, SlotState } from '../ring/slot.ts';
import { type Batch, ownBatch } from './batches.ts';
import type { Slots } from './slots.ts';

interface Asked {
  tick: number;
  slot: number;
  sequence: number;
}

export class ManualTicks {
  readonly #ring: Ring;
  readonly #slots: Slots;
  readonly #sampleCount: number;
  #pending: Asked | null = null;
  #hot: Asked | null = null;
  /** the last tick that was asked for; ticks only go up */
  #last = -1;

  /** requests wait for letGo() */
  #held = false;
  /** that of the pending tick, where it waits; and the tick before it */
  #ask: (() => void) | null = null;
  #before = -1;
  /** of an earlier run: a tick that was asked for there, and its batch */
  #kept: { readonly tick: number; readonly bytes: Uint8Array } | null = null;
  #batchBytes: (slot: number) => Uint8Array = () => new Uint8Array();

  /** the batch of the tick of that sequence: a tick that samples again gets the same object */
  #batch: Batch | null = null;
  #batchOf = -1;
  /** the sequence whose batch was drawn on the device, and on which stream; the sequence behind whose draw the event was recorded */
  #drawn = -1;
  #drawnOn: Stream | null = null;
  #recorded = -1;
  /** the event behind the tick before */
  #spentLast: DeviceEvent | null = null;

  /** the stream the hot batch was ordered on */
  #sampledOn: Stream | null = null;

  constructor({ ring, slots }: { ring: Ring; slots: Slots }, sampleCount: number) {
    this.#ring = ring;
    this.#slots = slots;
    this.#sampleCount = sampleCount;
  }

  get hot(): Asked | null {
    return this.#hot;
  }
  get pending(): Asked | null {
    return this.#pending;
  }
  /** The pending tick, unless its request waits for letGo(): then it is as if nobody had called. */
  get asked(): Asked | null {
    return this.#ask ? null : this.#pending;
  }
  /** The last tick that was asked for, or called for. */
  get lastTick(): number {
    return this.#last;
  }
  get lastAsked(): number {
    return this.#ask ? this.#before : this.#last;
  }
  /** Of an earlier run, as long as nobody asked for it. */
  get kept(): { readonly tick: number; readonly bytes: Uint8Array } | null {
    return this.#kept;
  }

  /** Sample count first, then the tick: every method that takes both. */
  check(tickId: number, sampleCount: number): void {
    checkCount('sampleCount', sampleCount, 1);
    if (sampleCount !== this.#sampleCount) {
      throw rangeError(`sampleCount ${sampleCount} differs from the pipeline's ${this.#sampleCount}`);
    }
    checkCount('tickId', tickId, 0);
  }

  /** True when this began the tick; false when it is pending or prepared already. */
  start(tickId: number, leastPtr: number): boolean {
    if (this.#pending?.tick === tickId) return false;
    if (this.#pending) {
      throw stateError(
        'TICK',
        `tick ${tickId} cannot start while tick ${this.#pending.tick} is pending: sample that one first`,
      );
    }
    if (this.#hot?.tick === tickId)
      throw stateError('TICK', `tick ${tickId} is hot already: sample it, or go on to a later tick`);
    if (tickId <= this.#last)
      throw stateError('TICK', `tick ${tickId} is over (the last one was ${this.#last}): ticks only go up`);
    const ring = this.#ring;
    const slot = ring.seatOf(SlotState.Free);
    const sequence = ring.next;
    this.#pending = { tick: tickId, slot, sequence };
    this.#before = this.#last;
    this.#last = tickId;
    const kept = this.#kept?.tick === tickId ? this.#kept : null;
    const request = { tick: tickId, rows: this.#sampleCount, leastPtr: kept ? PACKED : leastPtr };
    const ask = () => {
      // The slot is Free and nothing is asked for: nobody else writes its half.
      if (kept) this.#batchBytes(slot).set(kept.bytes);
      this.#kept = null;
      ring.askTick(request, sequence);
    };
    if (this.#held) this.#ask = ask;
    else ask();
    return true;
  }

  /** Nothing is asked for until letGo(). */
  hold(): void {
    this.#held = true;
  }
  letGo(): void {
    this.#held = false;
    const ask = this.#ask;
    this.#ask = null;
    ask?.();
  }

  /** A tick that was prepared in an earlier run: its batch is handed out as it was when that tick is asked for. */
  keep(kept: { readonly tick: number; readonly bytes: Uint8Array }, batchBytes: (slot: number) => Uint8Array): void {
    this.#kept = kept;
    this.#batchBytes = batchBytes;
  }

  ready(asked: Asked): boolean {
    return this.#ring.state(asked.slot) === SlotState.Ready && this.#ring.sequence(asked.slot) === asked.sequence;
  }

  batchReady(tickId: number): boolean {
    if (this.#hot?.tick === tickId) return true;
    return this.#pending?.tick === tickId && this.ready(this.#pending);
  }

  /** Throws while a tick is under way. */
  checkOver(what: string): void {
    if (this.#pending || this.#hot) throw stateError('RUNNING', `finish the manual tick under way before ${what}`);
    if (this.#kept)
      throw stateError('RUNNING', `tick ${this.#kept.tick} was prepared when it was saved: sample it before ${what}`);
  }

  /** Throws while another tick is hot. */
  checkSample(tickId: number): void {
    const hot = this.#hot;
    if (!hot || hot.tick === tickId) return;
    throw stateError('TICK', `tick ${tickId} cannot be sampled while tick ${hot.tick} is hot: call afterTick() first`);
  }

  /** The batch of the hot tick, or of the pending one, whose rows have arrived and which becomes hot; `stream` goes on behind it. */
  sample(tickId: number, stream: Stream): Batch {
    const hot = this.#hot ?? this.#sampled();
    if (hot.tick !== tickId) throw stateError('TICK', `tick ${tickId} was overtaken by tick ${hot.tick}`);
    this.#slots.backend.waitCurrentStreamForReady(hot.slot, stream);
    const { drawn } = this.#slots;
    if (drawn !== null) this.#draw(hot, stream, drawn);
    this.#sampledOn = stream;
    if (this.#batchOf !== hot.sequence || this.#batch === null) {
      this.#batch = ownBatch(this.#slots.batches[hot.slot] as Batch);
      this.#batchOf = hot.sequence;
    }
    return this.#batch;
  }
  /** Of rows on the device, once a tick: the batch is one for all slots, so behind whatever the tick before does with it. */
  #draw(hot: Asked, stream: Stream, drawn: DeviceEvent): void {
    if (this.#drawn !== hot.sequence) {
      if (this.#spentLast) stream.wait(this.#spentLast);
      this.#slots.beginUpdate(hot.slot, stream);
      // Not again, whatever comes of the record: steps that it gathered from are overwritten by what it brought.
      this.#drawn = hot.sequence;
      this.#drawnOn = stream;
    }
    if (this.#recorded !== hot.sequence) this.#drawnOn?.record(drawn);
    this.#recorded = hot.sequence;
    if (this.#drawnOn !== stream) stream.wait(drawn);
  }
  /** A tick whose sampling failed: what it brings to the device must come there all the same, for the ticks behind it. */
  #drawUnused(stream: Stream): void {
    const { drawn, backend } = this.#slots;
    const hot = this.#hot as Asked;
    if (drawn === null || this.#recorded === hot.sequence) return;
    backend.waitCurrentStreamForReady(hot.slot, stream);
    this.#draw(hot, stream, drawn);
  }
  #sampled(): Asked {
    const hot = this.#pending as Asked;
    this.#hot = hot;
    this.#pending = null;
    return hot;
  }

  /** The caller's work on the hot batch is on a stream, the current one by default: records `spent` behind it and gives the slot on. */
  spend(given: Stream | undefined): void {
    const { slot } = this.#hot as Asked;
    const { device, spent, last } = this.#slots;
    const stream = given ?? device.currentStream;
    if (typeof stream?.record !== 'function')
      throw typeError(`afterTick: stream must be a stream of ${device.name}, got ${shown(given)}`);
    if (stream.device.name !== device.name)
      throw typeError(`afterTick: the stream is of ${stream.device.name}, the batch on ${device.name}`);
    if (this.#sampledOn && stream.handle !== this.#sampledOn.handle) {
      // A deferred copy may have been made on another stream: `spent` must not come before it (I5).
      this.#sampledOn.record(last);
      stream.wait(last);
    }
    this.#drawUnused(stream);
    const record = this.#ring.record(slot);
    record[Field.updateMs] = -1;
    record[Field.replayBegin] = nowMs();
    this.#slots.bringPriorities(slot, stream);
    stream.record(spent[slot] as DeviceEvent);
    this.#spentLast = this.#slots.kept ? (spent[slot] as DeviceEvent) : null;
    record[Field.replayEnd] = nowMs();
    this.#hot = null;
    this.#ring.handOver(slot, SlotState.Replaying, 'poll');
  }

  /** After an autonomous run: its ticks are over. */
  skipTo(lastTick: number): void {
    this.#last = Math.max(this.#last, lastTick);
  }
}
