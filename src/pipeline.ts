/**
 * Opens device, ring and actors, and offers the two ways to use them: manual ticks, where the caller samples and spends
 * each batch, and autonomous runs, where a captured graph is replayed on every hot batch.
 */
import { EventEmitter } from 'eventemitter3';
import type { ReplayBuffer } from './buffer/replay-buffer.ts';
import type { GraphExec, Stream } from './device/device.ts';
import { native } from './device/native.ts';
import { checkCount, checkKeys, type PipelineError, rangeError, stateError, typeError } from './errors.ts';
import { type RunOptions, runTicks } from './pipeline/autonomous.ts';
import { type CaptureFunction, type CaptureOptions, captureSlots, checkCapture } from './pipeline/capture.ts';
import type { Crew } from './pipeline/crew.ts';
import { type Audience, History, type Tick } from './pipeline/history.ts';
import { manifestOf, type TransferManifest } from './pipeline/manifest.ts';
import { ManualTicks } from './pipeline/manual.ts';
import { checkOptions, type Definite, type PipelineOptions } from './pipeline/options.ts';
import type { Batch, Slots } from './pipeline/slots.ts';
import type { Statistics, Summary } from './pipeline/summary.ts';
import { Works } from './pipeline/works.ts';
import { Gate, Run } from './ring/ring.ts';
import { Field, type Role, SlotState, stateNames } from './ring/slot.ts';
import { TraceRecorder } from './trace/recorder.ts';

interface PipelineEvents {
  /** a tick is over; emitted while the opener waits in run(), in afterTick() and on closing */
  tick: [tick: Tick];
  /** ticks that went by faster than the journal could be read */
  missed: [count: number];
  restart: [roles: readonly Role[], reason: Error];
  warning: [message: string];
  error: [error: PipelineError];
  close: [];
}

export interface WaitOptions {
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A pipeline's parts, for tests that end its threads or hold its streams; not exported from the package. */
export let insideOf: (pipeline: ReplayPipeline) => { crew: Crew | null; slots: Slots; buffer: ReplayBuffer };

export class ReplayPipeline extends EventEmitter<PipelineEvents> implements AsyncDisposable {
  readonly transferManifest: TransferManifest;
  readonly #options: Definite;
  readonly #works: Works;
  readonly #manual: ManualTicks;
  readonly #history: History;
  readonly #trace: TraceRecorder | null;
  #graphs: GraphExec[] = [];
  #running = false;
  /** the stream the hot batch was ordered on */
  #sampledOn: Stream | null = null;
  #closed: Promise<void> | null = null;

  static {
    insideOf = (pipeline) => ({
      crew: pipeline.#works.crew,
      slots: pipeline.#works.slots,
      buffer: pipeline.#options.buffer,
    });
  }

  /** Opens device, slots and threads. Everything is checked first; when a part fails, the rest is closed again. */
  static async open(options: PipelineOptions): Promise<ReplayPipeline> {
    const pipeline = new ReplayPipeline(checkOptions(options));
    try {
      await pipeline.#works.crew?.start();
      // After the caller had a chance to listen.
      const { warnings } = pipeline.#works;
      setImmediate(() => {
        for (const warning of warnings) pipeline.emit('warning', warning);
      });
    } catch (error) {
      await pipeline.close();
      throw error;
    }
    return pipeline;
  }

  private constructor(options: Definite) {
    super();
    this.#options = options;
    this.#trace = options.trace ? new TraceRecorder(options.trace) : null;
    try {
      this.#works = new Works(options, {
        error: (failure) => this.emit('error', failure),
        restart: (hosted, reason) => void this.emit('restart', hosted, reason),
        warning: (message) => void this.emit('warning', message),
      });
    } catch (error) {
      void this.#trace?.finish();
      throw error;
    }
    this.#manual = new ManualTicks(this.#works.ring, options.sampleCount);
    this.#history = new History(this.#works.ring);
    this.transferManifest = manifestOf(this.#works.slots.backend, options);
  }

  // ---- manual ticks ----------------------------------------------------------------------------------------------

  /**
   * Asks for a tick's batch and returns at once: true when this began the work, false when that tick is pending or
   * prepared. Pack waits until the buffer's ptr reaches `minSnapshotPtr` (its ptr now, by default), then takes its own
   * snapshot (UniLab). Another tick while one is pending throws, so does one that is hot or over.
   */
  startPrepare(tickId: number, sampleCount: number, minSnapshotPtr?: number): boolean {
    this.#check(tickId, sampleCount);
    const { buffer } = this.#options;
    const least = minSnapshotPtr === undefined ? buffer.ptr : checkCount('minSnapshotPtr', minSnapshotPtr, 0);
    if (least === 0 && buffer.size === 0 && this.#manual.pending === null) {
      throw stateError(
        'EMPTY',
        'the replay buffer is empty: add rows first, or ask for a minSnapshotPtr of at least 1 to wait for them',
      );
    }
    return this.#manual.start(tickId, Math.max(1, least));
  }

  /** True when that tick's batch is on the device; false for any other tick. */
  batchReady(tickId: number, sampleCount: number): boolean {
    this.#check(tickId, sampleCount);
    return this.#manual.batchReady(tickId);
  }

  /** Starts the tick if nothing is pending and waits for it; false when `timeoutMs` is over. Never blocks the thread. */
  async waitUntilReady(tickId: number, sampleCount: number, options: WaitOptions = {}): Promise<boolean> {
    checkKeys('waitUntilReady', options, ['timeoutMs', 'signal']);
    checkTimeout(options.timeoutMs);
    checkSignal(options.signal);
    if (this.#readyOrStart(tickId, sampleCount)) return true;
    return this.#works.until(() => this.#manual.batchReady(tickId), options);
  }

  /** The same for worker threads, blocking; refuses on the main thread when it would have to wait. */
  waitUntilReadySync(tickId: number, sampleCount: number, options: { timeoutMs?: number } = {}): boolean {
    checkKeys('waitUntilReadySync', options, ['timeoutMs']);
    checkTimeout(options.timeoutMs);
    if (this.#readyOrStart(tickId, sampleCount)) return true;
    return this.#works.untilSync(() => this.#manual.batchReady(tickId), options.timeoutMs ?? Number.POSITIVE_INFINITY);
  }

  /**
   * The tick's batch as tensors over the slot's device half, ordered before the current stream's next work (the stream that
   * is current at the call). Starts and waits where needed; the hot tick again gives the same views; another tick while
   * one is hot throws.
   */
  sampleLargeBatch(tickId: number, sampleCount: number): Promise<Batch>;
  /** With a time-out: null when it is over first. */
  sampleLargeBatch(tickId: number, sampleCount: number, options: WaitOptions): Promise<Batch | null>;
  async sampleLargeBatch(tickId: number, sampleCount: number, options: WaitOptions = {}): Promise<Batch | null> {
    this.#checkSample(tickId, sampleCount);
    const stream = this.#works.slots.device.currentStream;
    const ready = await this.waitUntilReady(tickId, sampleCount, options);
    return ready ? this.#batch(tickId, stream) : null;
  }

  /** The same for worker threads, blocking. */
  sampleLargeBatchSync(tickId: number, sampleCount: number): Batch {
    this.#checkSample(tickId, sampleCount);
    this.waitUntilReadySync(tickId, sampleCount);
    return this.#batch(tickId, this.#works.slots.device.currentStream);
  }

  /** The learner's work on the hot batch is enqueued: records `spent` behind it and gives the slot on. */
  afterTick(options: { stream?: Stream } = {}): void {
    checkKeys('afterTick', options, ['stream']);
    const { stream } = options;
    this.#works.throwIfOver();
    const { hot } = this.#manual;
    if (!hot) return;
    const { ring, slots } = this.#works;
    const { device, spent, last } = slots;
    const on = stream ?? device.currentStream;
    if (typeof on?.record !== 'function') {
      throw typeError(`afterTick: stream must be a stream of ${device.name}, got ${String(stream)}`);
    }
    if (on.device.name !== device.name) {
      throw typeError(`afterTick: the stream is of ${on.device.name}, the batch on ${device.name}`);
    }
    if (this.#sampledOn && on.handle !== this.#sampledOn.handle) {
      // A deferred copy may have been made on another stream: `spent` must not come before it (I5).
      this.#sampledOn.record(last);
      on.wait(last);
    }
    const record = ring.record(hot.slot);
    record[Field.updateMs] = -1;
    record[Field.replayBegin] = native().nowMs();
    on.record(spent[hot.slot] as (typeof spent)[number]);
    record[Field.replayEnd] = native().nowMs();
    this.#manual.spend();
    ring.handOver(hot.slot, SlotState.Replaying, 'poll');
    const thrown = this.#tell(null);
    if (thrown) throw thrown.error;
  }

  // ---- autonomous runs -------------------------------------------------------------------------------------------

  /**
   * Captures the learner's update once per slot. Throws ERR_HOTSLOT_STATE_CAPTURE when the function throws, returns a
   * promise, or does something that is not device work; the pipeline stays usable. Capturing again replaces the graphs.
   */
  capture(fn: CaptureFunction, options: CaptureOptions = {}): void {
    const { ring, slots, mailbox } = this.#works;
    checkCapture(fn, options, this.#options.mailbox?.length ?? null, slots.device.name);
    this.#checkFree('capturing');
    const graphs = captureSlots(slots, fn);
    for (const old of this.#graphs) old.close();
    this.#graphs = graphs;
    this.#history.scalarNames = [...(options.scalars ?? [])];
    const { run } = ring;
    graphs.forEach((graph, slot) => {
      run[Run.graphs + slot] = graph.handle;
    });
    const { weights } = options;
    run[Run.weights] = weights?.handle ?? 0;
    run[Run.weightsOffset] = weights?.byteOffset ?? 0;
    run[Run.weightsBytes] = weights?.bytes ?? 0;
    run[Run.mailbox] = mailbox?.handle ?? 0;
  }

  /**
   * Runs ticks by itself: request, pack, copy, replay, until `ticks` are through or the signal says stop; then resolves
   * with what happened. Tick ids go on from the last one. Rejects with PipelineError when an actor fails.
   */
  async run(options: RunOptions = {}): Promise<Summary> {
    checkKeys('run', options, ['ticks', 'signal', 'publishEvery']);
    const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0 } = options;
    checkSignal(signal);
    if (ticks !== Number.POSITIVE_INFINITY) checkCount('ticks', ticks, 1);
    checkCount('publishEvery', publishEvery, 0);
    this.#checkFree('run()');
    const { ring } = this.#works;
    if (this.#graphs.length === 0) throw stateError('CAPTURE', 'capture() the learner before run()');
    if (publishEvery > 0 && ring.run[Run.weights] === 0) {
      throw stateError('CAPTURE', 'publishEvery needs weights: open with a mailbox and give capture() the weights');
    }
    const firstTick = this.#manual.lastTick + 1;
    const first = ring.next;
    const { scalarNames } = this.#history;
    const plan = { ...options, firstTick, rows: this.#options.sampleCount, scalarNames };
    this.#running = true;
    try {
      return await runTicks(this.#works, plan, (statistics) => this.#tell(statistics));
    } finally {
      this.#running = false;
      this.#manual.skipTo(firstTick + (ring.next - first) - 1);
    }
  }

  /** Inline placement only: steps every role once, in the order of a slot's life; how much they did. */
  step(): number {
    this.#works.throwIfOver();
    if (!this.#works.inline) {
      const { placement } = this.transferManifest;
      throw stateError(
        'RUNNING',
        `step() belongs to placement 'inline'; this pipeline's actors run in threads ${placement}`,
      );
    }
    return this.#works.step();
  }

  /** What the next batch waits for, in words. */
  waitingFor(): string {
    const { buffer, sampleCount } = this.#options;
    switch (this.#works.ring.gate) {
      case Gate.open:
        return 'nothing';
      case Gate.limiter:
        return buffer.limiter?.waitingFor(sampleCount) ?? 'nothing';
      case Gate.slots:
        return 'the learner: every slot is in use';
      case Gate.rows:
        return `rows: ${buffer.ptr} were ever added`;
      case Gate.nothingAsked:
        return 'somebody to ask for a tick';
      case Gate.paused:
        return 'the next run';
    }
  }

  /** The slots as they are, for a person to read. */
  inspect(): { slots: { state: string; tick: number; sequence: number }[]; waitingFor: string; finished: number } {
    const { ring } = this.#works;
    const slots = Array.from({ length: ring.depth }, (_, slot) => ({
      state: stateNames[ring.state(slot)],
      tick: ring.record(slot)[Field.tick] as number,
      sequence: ring.sequence(slot),
    }));
    return { slots, waitingFor: this.waitingFor(), finished: ring.finished };
  }

  /** Stops the actors, drains the device, frees everything. Twice is fine; waiters are released with an error. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The same for worker threads, blocking at most about 10 s; the actors' threads end by themselves behind it. */
  closeSync(): void {
    if (this.#closed) return;
    this.#works.closeSync(() => this.#closeGraphs());
    this.#closed = this.#closeTrace();
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  async #close(): Promise<void> {
    try {
      await this.#works.close(() => this.#closeGraphs());
    } finally {
      await this.#closeTrace();
    }
  }

  #closeGraphs(): void {
    for (const graph of this.#graphs) graph.close();
  }

  async #closeTrace(): Promise<void> {
    this.#tell(null);
    const failed = await this.#trace?.finish();
    if (failed) this.emit('warning', `the trace is incomplete: ${failed.message}`);
    // A listener that throws must not make closing fail.
    queueMicrotask(() => this.emit('close'));
  }

  #check(tickId: number, sampleCount: number): void {
    this.#manual.check(tickId, sampleCount);
    this.#works.throwIfOver();
    if (this.#running) throw stateError('RUNNING', 'the pipeline runs by itself: wait for run() to end, or abort it');
  }

  #checkFree(what: string): void {
    this.#works.throwIfOver();
    if (this.#running) throw stateError('RUNNING', 'the pipeline runs by itself: wait for run() to end, or abort it');
    if (this.#manual.pending || this.#manual.hot) {
      throw stateError('RUNNING', `finish the manual tick under way before ${what}`);
    }
  }

  #readyOrStart(tickId: number, sampleCount: number): boolean {
    this.#check(tickId, sampleCount);
    if (this.#manual.batchReady(tickId)) return true;
    if (this.#manual.pending?.tick !== tickId) this.startPrepare(tickId, sampleCount);
    return false;
  }

  #checkSample(tickId: number, sampleCount: number): void {
    this.#check(tickId, sampleCount);
    const { hot } = this.#manual;
    if (hot && hot.tick !== tickId) {
      throw stateError(
        'TICK',
        `tick ${tickId} cannot be sampled while tick ${hot.tick} is hot: call afterTick() first`,
      );
    }
  }

  #batch(tickId: number, stream: Stream): Batch {
    const hot = this.#manual.hot ?? this.#manual.heat();
    if (hot.tick !== tickId) throw stateError('TICK', `tick ${tickId} was overtaken by tick ${hot.tick}`);
    const { slots } = this.#works;
    slots.backend.waitCurrentStreamForReady(hot.slot, stream);
    this.#sampledOn = stream;
    return slots.batches[hot.slot] as Batch;
  }

  /** Passes finished ticks on; null, or what a listener threw. */
  #tell(statistics: Statistics | null): { error: unknown } | null {
    const trace = this.#trace;
    const audience: Audience = {
      tick: this.listenerCount('tick') > 0 ? (tick) => void this.emit('tick', tick) : null,
      missed: (count) => void this.emit('missed', count),
      trace: trace ? (entry) => trace.add(entry, this.transferManifest, this.#options) : null,
    };
    return this.#history.read(audience, statistics);
  }
}

function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw typeError(`signal must be an AbortSignal, got ${String(signal)}`);
  }
}

function checkTimeout(timeoutMs: unknown = 0): void {
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0)) {
    throw rangeError(`timeoutMs must be a number of milliseconds of at least 0, got ${String(timeoutMs)}`);
  }
}
