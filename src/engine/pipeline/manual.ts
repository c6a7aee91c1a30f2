/**
 * Tracks manual ticks. A pending tick was requested, and its batch may be ready. The hot tick is
 * the tick whose batch belongs to the caller. Calls that do not fit the tick's state throw. The
 * semantics are those of UniLab's replay pipeline (docs/reference/pipeline.md).
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { DeviceEvent, Stream } from '../../device/device.ts';
import type { Ring } from '../ring/ring.ts';
import { Field, PACKED, SlotState } from '../ring/slot.ts';
import { type Batch, ownBatch } from './batches.ts';
import type { Slots } from './slots.ts';

/** A tick that the caller requested, and the slot that contains its batch or will contain it. */
interface Requested {
  readonly tick: number;
  readonly slot: number;
  readonly sequence: number;
}

interface Pending extends Requested {
  /** stores the request in the ring. Null after it was called */
  request: (() => void) | null;
  /** the last tick before this one */
  readonly before: number;
}

/** The tick whose batch the caller uses. */
interface Hot extends Requested {
  /** the batch that the caller got, which it gets again if it samples the same tick again */
  batch: Batch | null;
  /** the stream on which the tick was last sampled */
  sampledOn: Stream | null;
  /**
   * if rows live on the device: the stream on which the batch was drawn, and whether `drawn` was
   * recorded after the draw
   */
  drawnOn: Stream | null;
  recorded: boolean;
}

/** A tick that was prepared before a checkpoint was saved, with its batch. */
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
  /** the last tick that the caller requested. Tick ids only increase */
  #last = -1;
  /** true while requests wait for letGo() */
  #held = false;
  #restored: Prepared | null = null;
  /**
   * if rows live on the device: the `spent` event of the previous manual tick. The next draw is
   * ordered after it
   */
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
  /** The pending tick, or null if its request still waits for letGo() and is not in the ring. */
  get requested(): Requested | null {
    return this.#pending?.request ? null : this.#pending;
  }
  /** The last tick that the caller requested. */
  get lastTick(): number {
    return this.#last;
  }
  get lastRequested(): number {
    return this.#pending?.request ? this.#pending.before : this.#last;
  }
  /**
   * The tick that was prepared before a checkpoint was saved, or null after the caller requests
   * that tick.
   */
  get restored(): Prepared | null {
    return this.#restored;
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

  /** Begins a tick. Returns true if this call began it, and false if it is pending already. */
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
    const kept = this.#restored?.tick === tickId ? this.#restored : null;
    const requested = { tick: tickId, rows: this.#sampleCount, minPtr: kept ? PACKED : minPtr };
    const request = () => {
      // The slot is Free and the client has requested nothing, so no other thread writes the slot's
      // buffer.
      if (kept) this.#slots.host.batchBytes(slot).set(kept.bytes);
      this.#restored = null;
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
   * Stores a tick that was prepared before a checkpoint was saved. When the caller requests that
   * tick, it gets the stored batch.
   */
  keep(kept: Prepared): void {
    this.#restored = kept;
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

  /** Throws while a manual tick is under way or a restored tick waits to be sampled. */
  checkOver(what: string): void {
    if (this.#pending || this.#hot)
      throw stateError('RUNNING', `finish the manual tick under way before ${what}`);
    if (this.#restored)
      throw stateError(
        'RUNNING',
        `tick ${this.#restored.tick} was prepared when the checkpoint was saved; sample it before ${what}`,
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
   * Returns the batch of the hot tick. If no tick is hot, the pending tick becomes hot. Call it
   * only after the rows of that tick are on the device. Later work on `stream` is ordered after the
   * batch.
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
   * Draws the batch once per tick, if rows live on the device. All slots share one batch, so the
   * draw is ordered after the work of the tick before.
   */
  #draw(hot: Hot, stream: Stream, drawn: DeviceEvent): void {
    if (hot.drawnOn === null) {
      if (this.#spentLast) stream.wait(this.#spentLast);
      this.#slots.beginUpdate(hot.slot, stream);
      // The draw must not run twice. So it counts as done even if the following record throws. For
      // a view, the draw first gathers steps and then overwrites some of them with the steps that
      // the batch brought.
      hot.drawnOn = stream;
    }
    if (!hot.recorded) hot.drawnOn.record(drawn);
    hot.recorded = true;
    if (hot.drawnOn !== stream) stream.wait(drawn);
  }
  /**
   * Draws for a tick whose sampling failed. The steps that it brings must reach their places on the
   * device, because later ticks use them.
   */
  #drawUnused(hot: Hot, stream: Stream): void {
    const { drawn, backend } = this.#slots;
    if (drawn === null || hot.recorded) return;
    backend.waitCurrentStreamForReady(hot.slot, stream);
    this.#draw(hot, stream, drawn);
  }

  /**
   * Records `spent` after the caller's work on the hot batch and hands the slot over to poll.
   * `given` is the stream of that work, by default the current stream.
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
      // A deferred copy may have run on the stream of the sample. `spent` must come after that copy
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

  /** Counts the ticks of an autonomous run, so that later tick ids must be higher. */
  skipTo(lastTick: number): void {
    this.#last = Math.max(this.#last, lastTick);
  }
}
