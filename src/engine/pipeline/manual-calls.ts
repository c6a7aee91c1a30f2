/**
 * The pipeline's methods for manual ticks. Each checks its arguments, begins or awaits the tick,
 * and returns its result.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import type { Stream } from '../../device/device.ts';
import { checkSignal, checkTimeout, type WaitOptions } from '../../shm/wait.ts';
import { Param } from '../ring/slot.ts';
import type { Batch } from './batches.ts';
import type { ManualTicks } from './manual.ts';
import type { RunControl } from './run-control.ts';
import type { PipelineRuntime } from './runtime.ts';
import type { BatchSource } from './source.ts';

export class ManualCalls {
  readonly #parts: PipelineRuntime;
  readonly #source: BatchSource;
  readonly #manual: ManualTicks;
  readonly #control: RunControl;
  readonly #checkNotRunning: () => void;

  constructor(given: {
    parts: PipelineRuntime;
    source: BatchSource;
    manual: ManualTicks;
    control: RunControl;
    checkNotRunning: () => void;
  }) {
    this.#parts = given.parts;
    this.#source = given.source;
    this.#manual = given.manual;
    this.#control = given.control;
    this.#checkNotRunning = given.checkNotRunning;
  }

  start(tickId: number, sampleCount: number, minSnapshotPtr?: number): boolean {
    this.#check(tickId, sampleCount);
    const least =
      minSnapshotPtr === undefined ? this.#newest : checkCount('minSnapshotPtr', minSnapshotPtr, 0);
    if (this.#manual.pending === null) this.#source.checkFilled(least);
    return this.#manual.start(tickId, Math.max(1, least));
  }

  /**
   * Default of `minSnapshotPtr`: the buffer's ptr now. If rows live on the device and a tick is
   * hot, the device keeps the tick's rows. It then has room for at most `places` rows from the
   * oldest of them on. A higher result would never be reached while the tick is hot.
   */
  get #newest(): number {
    const { ptr } = this.#source.buffer;
    const { deviceRows, host } = this.#parts.slots;
    const { hot } = this.#manual;
    if (deviceRows === null || hot === null) return ptr;
    return Math.min(ptr, (host.params(hot.slot)[Param.low] as number) + deviceRows.checked.places);
  }

  ready(tickId: number, sampleCount: number): boolean {
    this.#check(tickId, sampleCount);
    return this.#manual.batchReady(tickId);
  }

  async wait(tickId: number, sampleCount: number, options: WaitOptions): Promise<boolean> {
    checkWait('waitUntilReady', options);
    return this.#wait(tickId, sampleCount, options);
  }

  waitSync(tickId: number, sampleCount: number, options: { timeoutMs?: number }): boolean {
    checkKeys('waitUntilReadySync', options, ['timeoutMs']);
    checkTimeout(options.timeoutMs);
    if (this.ready(tickId, sampleCount)) return true;
    this.#control.refuse();
    if (this.#soon(tickId, sampleCount, options)) return true;
    return this.#parts.untilSync(() => this.#manual.batchReady(tickId), options.timeoutMs);
  }

  async sample(tickId: number, sampleCount: number, options: WaitOptions): Promise<Batch | null> {
    checkWait('sampleLargeBatch', options);
    this.#check(tickId, sampleCount);
    this.#manual.checkSample(tickId);
    const stream = this.#stream;
    for (;;) {
      const waiting = this.#wait(tickId, sampleCount, options);
      if (waiting !== true && !(await waiting)) return null;
      // During a save the pending tick must not become hot, so the loop waits for the save's end.
      if (!this.#control.standing || this.#manual.hot !== null)
        return this.#manual.sample(tickId, stream);
      if (!(await this.#control.passed(options))) return null;
    }
  }

  sampleSync(tickId: number, sampleCount: number): Batch {
    this.#check(tickId, sampleCount);
    this.#manual.checkSample(tickId);
    this.waitSync(tickId, sampleCount, {});
    this.#control.refuse();
    return this.#manual.sample(tickId, this.#stream);
  }

  get #stream(): Stream {
    return this.#parts.slots.device.currentStream;
  }

  #check(tickId: number, sampleCount: number): void {
    this.#manual.check(tickId, sampleCount);
    this.#checkNotRunning();
  }

  /**
   * Waits for the batch. Returns true instead of a promise if the batch is ready within
   * microseconds.
   */
  #wait(tickId: number, sampleCount: number, options: WaitOptions): true | Promise<boolean> {
    if (this.#soon(tickId, sampleCount, options)) return true;
    return this.#parts.until(() => this.#manual.batchReady(tickId), options);
  }

  /**
   * Begins the tick unless it has begun. Returns true if its batch is ready within microseconds.
   */
  #soon(tickId: number, sampleCount: number, { timeoutMs, signal }: WaitOptions): boolean {
    if (this.ready(tickId, sampleCount)) return true;
    if (this.#manual.pending?.tick !== tickId) this.start(tickId, sampleCount);
    return !signal?.aborted && this.#parts.soon(() => this.#manual.batchReady(tickId), timeoutMs);
  }
}

function checkWait(name: string, options: WaitOptions): void {
  checkKeys(name, options, ['timeoutMs', 'signal']);
  checkTimeout(options.timeoutMs);
  checkSignal(options.signal);
}
