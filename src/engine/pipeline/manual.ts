/**
 * Manual ticks: which tick is pending (asked for, perhaps prepared), which is hot (its batch is in
 * the caller's hands), and which moments are wrong. The semantics are those of UniLab's replay
 * pipeline (docs/reference/pipeline.md).
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { DeviceEvent, Stream } from '../../device/device.ts';
import type { Ring } from '../ring/ring.ts';
import { Field, PACKED, SlotState } from '../ring/slot.ts';
import { type Batch, ownBatch } from './batches.ts';
import type { Slots } from './slots.ts';

/** A tick that was asked for, or called for: its slot holds the batch, or will. */
interface Requested {
  readonly tick: number;
  readonly slot: number;
  readonly sequence: number;
}

interface Pending extends Requested {
  /** makes the request, null once that was done */
  request: (() => void) | null;
  /** the last tick before it */
  readonly before: number;
}

/** The tick whose batch is in the caller's hands. */
interface Hot extends Requested {
  /** the same object for a tick that samples again */
  batch: Batch | null;
  /** the stream that it was last sampled on */
  sampledOn: Stream | null;
  /**
   * with rows on the device: the stream on which the batch was drawn, and whether `drawn` was
   * recorded after that
   */
  drawnOn: Stream | null;
  recorded: boolean;
}

/** A tick that was prepared in an earlier run, and its batch. */
interface Prepared {
  readonly tick: number;
  readonly bytes: Uint8Array;
}

export class ManualTicks {
  readonly #ring: Ring;
  readonly #slots: Slots;
  readonly #sampleCount: number;
  #pending: Pending | null = null;
  #hot: Hot | null = null;
  /** the last tick that was called for: ticks only go up */
  #last = -1;
  /** requests wait for letGo() */
  #held = false;
  #retained: Prepared | null = null;
  /** with rows on the device: the event after the tick before */
  #spentLast: DeviceEvent | null = null;

  constructor({ ring, slots }: { ring: Ring; slots: Slots }, sampleCount: number) {
    this.#ring = ring;
    this.#slots = slots;
    this.#sampleCount = sampleCount;
  }

  get hot(): Requested | null {
    return this.#hot;
  }
  get pending(): Requested | null {
    return this.#pending;
  }
  /** The pending tick, unless its request waits for letGo(): then it is as if nobody had called. */
  get requested(): Requested | null {
    return this.#pending?.request ? null : this.#pending;
  }
  /** The last tick that was asked for, or called for. */
  get lastTick(): number {
    return this.#last;
  }
  get lastRequested(): number {
    return this.#pending?.request ? this.#pending.before : this.#last;
  }
  /** The tick that was prepared in an earlier run, until somebody asks for it. */
  get retained(): Prepared | null {
    return this.#retained;
  }

  /** Checks the sample count first, then the tick, for every method that takes both. */
  check(tickId: number, sampleCount: number): void {
    checkCount('sampleCount', sampleCount, 1);
    if (sampleCount !== this.#sampleCount) {
      throw rangeError(
        `sampleCount ${sampleCount} differs from the pipeline's ${this.#sampleCount}`,
      );
    }
    checkCount('tickId', tickId, 0);
  }

  /** True if this call began the tick, false if it is pending or prepared already. */
  start(tickId: number, minPtr: number): boolean {
    if (this.#pending?.tick === tickId) return false;
    if (this.#pending) {
      throw stateError(
        'TICK',
        `tick ${tickId} cannot start while tick ${this.#pending.tick} is pending; sample tick ${this.#pending.tick} first`,
      );
    }
    if (this.#hot?.tick === tickId)
      throw stateError(
        'TICK',
        `tick ${tickId} is ready already; sample it, or request a later tick`,
      );
    if (tickId <= this.#last)
      throw stateError(
        'TICK',
        `tick ${tickId} is over (the last one was ${this.#last}); give a higher tick`,
      );
    const ring = this.#ring;
    const slot = ring.nextSlotFor(SlotState.Free);
    const sequence = ring.next;
    const kept = this.#retained?.tick === tickId ? this.#retained : null;
    const requested = { tick: tickId, rows: this.#sampleCount, minPtr: kept ? PACKED : minPtr };
    const request = () => {
      // The slot is Free and nothing is asked for: nobody else writes its buffer.
      if (kept) this.#slots.host.batchBytes(slot).set(kept.bytes);
      this.#retained = null;
      ring.askTick(requested, sequence);
    };
    this.#pending = { tick: tickId, slot, sequence, request, before: this.#last };
    this.#last = tickId;
    if (!this.#held) this.#request();
    return true;
  }
  #request(): void {
    const pending = this.#pending;
    if (!pending?.request) return;
    const { request } = pending;
    pending.request = null;
    request();
  }

  /** Holds back all requests until letGo(). */
  hold(): void {
    this.#held = true;
  }
  letGo(): void {
    this.#held = false;
    this.#request();
  }

  /**
   * Keeps a tick that was prepared in an earlier run: its batch is handed out as it was when that
   * tick is asked for.
   */
  keep(kept: Prepared): void {
    this.#retained = kept;
  }

  ready(asked: Requested): boolean {
    return (
      this.#ring.state(asked.slot) === SlotState.Ready &&
      this.#ring.sequence(asked.slot) === asked.sequence
    );
  }

  batchReady(tickId: number): boolean {
    if (this.#hot?.tick === tickId) return true;
    return this.#pending?.tick === tickId && this.ready(this.#pending);
  }

  /** Throws while a tick is under way. */
  checkOver(what: string): void {
    if (this.#pending || this.#hot)
      throw stateError('RUNNING', `finish the manual tick under way before ${what}`);
    if (this.#retained)
      throw stateError(
        'RUNNING',
        `tick ${this.#retained.tick} was prepared when the checkpoint was saved; sample it before ${what}`,
      );
  }

  /** Throws while another tick is hot. */
  checkSample(tickId: number): void {
    const hot = this.#hot;
    if (!hot || hot.tick === tickId) return;
    throw stateError(
      'TICK',
      `tick ${tickId} cannot be sampled while tick ${hot.tick} is on the device; call afterTick() first`,
    );
  }

  /**
   * Returns the batch of the hot tick, or of the pending one, whose rows have arrived and which
   * becomes hot. The next work on `stream` comes after the batch.
   */
  sample(tickId: number, stream: Stream): Batch {
    const hot = this.#hot ?? this.#becomeHot();
    if (hot.tick !== tickId)
      throw stateError('TICK', `tick ${tickId} was overtaken by tick ${hot.tick}`);
    this.#slots.backend.waitCurrentStreamForReady(hot.slot, stream);
    const { drawn } = this.#slots;
    if (drawn !== null) this.#draw(hot, stream, drawn);
    hot.sampledOn = stream;
    hot.batch ??= ownBatch(this.#slots.batches[hot.slot] as Batch);
    return hot.batch;
  }
  #becomeHot(): Hot {
    const { tick, slot, sequence } = this.#pending as Pending;
    this.#pending = null;
    this.#hot = {
      tick,
      slot,
      sequence,
      batch: null,
      sampledOn: null,
      drawnOn: null,
      recorded: false,
    };
    return this.#hot;
  }
  /**
   * With rows on the device, draws the batch once a tick. All slots share one batch, so the draw
   * comes after the work of the tick before.
   */
  #draw(hot: Hot, stream: Stream, drawn: DeviceEvent): void {
    if (hot.drawnOn === null) {
      if (this.#spentLast) stream.wait(this.#spentLast);
      this.#slots.beginUpdate(hot.slot, stream);
      // Not again, even if the record fails: the steps that it gathered from are overwritten by
      // those it brought.
      hot.drawnOn = stream;
    }
    if (!hot.recorded) hot.drawnOn.record(drawn);
    hot.recorded = true;
    if (hot.drawnOn !== stream) stream.wait(drawn);
  }
  /**
   * Draws for a tick whose sampling failed: what it brings to the device must come there all the
   * same, for the ticks after it.
   */
  #drawUnused(hot: Hot, stream: Stream): void {
    const { drawn, backend } = this.#slots;
    if (drawn === null || hot.recorded) return;
    backend.waitCurrentStreamForReady(hot.slot, stream);
    this.#draw(hot, stream, drawn);
  }

  /**
   * Records `spent` after the caller's work on the hot batch and gives the slot on. That work is on
   * a stream, the current one by default.
   */
  spend(given: Stream | undefined): void {
    const hot = this.#hot as Hot;
    const { slot, sampledOn } = hot;
    const { device, spent, last } = this.#slots;
    const stream = given ?? device.currentStream;
    if (typeof stream?.record !== 'function')
      throw typeError(
        `afterTick: stream must be a stream of ${device.name}, got ${describeValue(given)}`,
      );
    if (stream.device.name !== device.name)
      throw typeError(
        `afterTick: the stream is of ${stream.device.name}, the batch on ${device.name}`,
      );
    if (sampledOn && stream.handle !== sampledOn.handle) {
      // A deferred copy may have been made on another stream: `spent` must not come before it
      // (Slot-5).
      sampledOn.record(last);
      stream.wait(last);
    }
    this.#drawUnused(hot, stream);
    const record = this.#ring.record(slot);
    record[Field.updateMs] = -1;
    record[Field.replayBegin] = nowMs();
    this.#slots.bringPriorities(slot, stream);
    stream.record(spent[slot] as DeviceEvent);
    this.#spentLast = this.#slots.deviceStore ? (spent[slot] as DeviceEvent) : null;
    record[Field.replayEnd] = nowMs();
    this.#hot = null;
    this.#ring.handOver(slot, SlotState.Replaying, 'poll');
  }

  /** After an autonomous run: its ticks are over. */
  skipTo(lastTick: number): void {
    this.#last = Math.max(this.#last, lastTick);
  }
}
