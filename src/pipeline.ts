/**
 * Opens device, ring and actors, and offers the two ways to use them: manual ticks, where the caller samples and spends
 * each batch, and autonomous runs, where a captured graph is replayed on every hot batch.
 */
import { isMainThread } from 'node:worker_threads';
import { EventEmitter } from 'eventemitter3';
import type { Actor } from '../actors/actor.ts';
import { type ActorSetup, makeActors } from '../actors/make.ts';
import type { ReplayBuffer } from './buffer/replay-buffer.ts';
import type { DeviceFamily, GraphExec, HostMemory, Stream } from './device/device.ts';
import { native } from './device/native.ts';
import {
  checkCount,
  checkKeys,
  type PipelineError,
  rangeError,
  stateError,
  typeError,
  unavailableError,
} from './errors.ts';
import { type CaptureFunction, type CaptureOptions, captureSlots, checkCapture } from './pipeline/capture.ts';
import { Crew } from './pipeline/crew.ts';
import { type Audience, History, type Tick } from './pipeline/history.ts';
import { ManualTicks } from './pipeline/manual.ts';
import { checkOptions, type Definite, type PipelineOptions } from './pipeline/options.ts';
import { type Batch, Slots } from './pipeline/slots.ts';
import { Statistics, type Summary } from './pipeline/summary.ts';
import { CLIENT, Gate, Mode, Ring, Run, ThreadState } from './ring/ring.ts';
import { Field, type Role, roles, SlotState } from './ring/slot.ts';
import { TraceRecorder } from './trace/recorder.ts';
import type { H2dSubmitter, HostMemoryKind } from './transfer/backend.ts';
import type { Bell } from './wait/bell.ts';

export interface TransferManifest {
  readonly backend: string;
  readonly device: string;
  readonly deviceFamily: DeviceFamily;
  readonly hostMemoryKind: HostMemoryKind;
  readonly hostPinned: boolean;
  readonly directPinnedShared: boolean;
  readonly supportsAsyncSubmit: boolean;
  readonly supportsTimingEvents: boolean;
  readonly h2dSubmitter: H2dSubmitter;
  readonly ringDepth: number;
  readonly placement: string;
  readonly placementReason: string;
  /** what 'auto' or 'cpu' came to mean, when the device was not named outright */
  readonly deviceReason: string;
}

interface PipelineEvents {
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

export interface RunOptions {
  /** ticks to run; until the signal when left out */
  ticks?: number;
  /** ends the run after the ticks under way; the summary says so */
  signal?: AbortSignal;
  /** publish the weights behind every n-th tick */
  publishEvery?: number;
}

/** Slots that device work may still touch after closing gave up on it. */
const leaked = new Set<Slots>();

/** How often a waiting opener looks at the journal. */
const LOOK_MS = 50;
const DRAIN_MS = 5000;

/** A pipeline's parts, for tests that end its threads or hold its streams; not exported from the package. */
export let insideOf: (pipeline: ReplayPipeline) => { crew: Crew | null; slots: Slots; buffer: ReplayBuffer };

export class ReplayPipeline extends EventEmitter<PipelineEvents> implements AsyncDisposable {
  readonly transferManifest: TransferManifest;
  readonly #options: Definite;
  readonly #slots: Slots;
  readonly #ring: Ring;
  readonly #crew: Crew | null;
  readonly #inline: Actor[];
  readonly #packBell: Bell | null;
  readonly #mailboxMemory: HostMemory | null;
  readonly #manual: ManualTicks;
  readonly #trace: TraceRecorder | null;
  #graphs: GraphExec[] = [];
  readonly #history: History;
  #running = false;
  /** the stream the hot batch was ordered on */
  #sampledOn: Stream | null = null;
  #waiters = 0;
  #closing: Promise<void> | null = null;
  #reported = false;
  /** somebody was thrown the failure */
  #thrown = false;

  static {
    insideOf = (pipeline) => ({ crew: pipeline.#crew, slots: pipeline.#slots, buffer: pipeline.#options.buffer });
  }

  /** Opens device, slots and threads. Everything is checked first; when a part fails, the rest is closed again. */
  static async open(options: PipelineOptions): Promise<ReplayPipeline> {
    const pipeline = new ReplayPipeline(checkOptions(options));
    try {
      await pipeline.#crew?.start();
    } catch (error) {
      await pipeline.close();
      throw error;
    }
    return pipeline;
  }

  private constructor(options: Definite) {
    super();
    this.#options = options;
    const { buffer, depth, mailbox, placed } = options;
    this.#slots = new Slots(options);
    const inline = placed.threads.length === 0;
    const hosts = roles.map((role) => (inline ? CLIENT : placed.threads.findIndex((hosted) => hosted.includes(role))));
    const cleanup: (() => void)[] = [() => this.#slots.close()];
    try {
      this.#trace = options.trace ? new TraceRecorder(options.trace) : null;
      cleanup.push(() => void this.#trace?.finish());
      this.#ring = Ring.create({ depth, hosts, journalCapacity: options.journal });
      this.#ring.run[Run.baseSeed] = options.baseSeed % 2 ** 32;
      this.#mailboxMemory = mailbox ? this.#slots.device.registerHost(mailbox.view) : null;
      cleanup.push(() => this.#mailboxMemory?.close());
      this.#packBell = buffer.bells.claim();
      if (!this.#packBell)
        throw stateError('BUSY', 'all 8 waiting places of this replay buffer are taken: close a pipeline that uses it');
      const packBell = this.#packBell;
      cleanup.push(() => buffer.bells.release(packBell));
      const packThread = this.#ring.hostOf('pack');
      if (!inline)
        for (const role of roles) if (this.#ring.hostOf(role) === packThread) this.#ring.setBell(role, packBell);
      const setup: ActorSetup = {
        ring: this.#ring.share(),
        buffer: buffer.share(),
        packBell: this.#packBell.index,
        mailbox: mailbox?.share() ?? null,
        backend: this.#slots.backend.share(),
        computeStream: this.#slots.compute.handle,
        spent: this.#slots.spent.map((event) => event.handle),
        host: this.#slots.host,
        hostStride: this.#slots.hostStride,
        out: this.#slots.out,
        spins: 200,
      };
      this.#inline = inline ? makeActors(setup, roles, this.#ring, null) : [];
      const events = {
        failed: () => this.#report(),
        restarted: (hosted: readonly Role[], reason: Error) => this.emit('restart', hosted, reason),
      };
      this.#crew = inline
        ? null
        : new Crew({ ring: this.#ring, threads: placed.threads, setup, restart: options.restart, events });
    } catch (error) {
      for (const undo of cleanup.reverse()) undo();
      throw error;
    }
    this.#manual = new ManualTicks(this.#ring, options.sampleCount);
    this.#history = new History(this.#ring);
    const { backend } = this.#slots;
    const { device, deviceFamily, hostMemoryKind, hostPinned, directPinnedShared } = backend;
    const { supportsAsyncSubmit, supportsTimingEvents, h2dSubmitter, ringDepth } = backend;
    this.transferManifest = Object.freeze({
      backend: backend.constructor.name,
      device: device.name,
      deviceFamily,
      hostMemoryKind,
      hostPinned,
      directPinnedShared,
      supportsAsyncSubmit,
      supportsTimingEvents,
      h2dSubmitter,
      ringDepth,
      placement: placed.name,
      placementReason: placed.reason,
      deviceReason: options.device === device.name ? 'as asked' : `'${options.device}' means ${device.name} here`,
    });
  }

  // ---- manual ticks ----------------------------------------------------------------------------------------------

  /**
   * Asks for a tick's batch and returns at once: true when this began the work, false when that tick is pending or
   * prepared. Pack waits until the buffer's ptr reaches `minSnapshotPtr` (its ptr now, by default), then takes its own
   * snapshot (UniLab). Another tick while one is pending throws, so does one that is hot or over.
   */
  startPrepare(tickId: number, sampleCount: number, minSnapshotPtr?: number): boolean {
    this.#manual.check(tickId, sampleCount);
    this.#checkManual();
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
    this.#manual.check(tickId, sampleCount);
    this.#checkManual();
    return this.#manual.batchReady(tickId);
  }

  /** Starts the tick if nothing is pending and waits for it; false when `timeoutMs` is over. Never blocks the thread. */
  async waitUntilReady(tickId: number, sampleCount: number, options: WaitOptions = {}): Promise<boolean> {
    checkKeys('waitUntilReady', options, ['timeoutMs', 'signal']);
    const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
    checkTimeout(timeoutMs);
    checkSignal(signal);
    if (!this.#begin(tickId, sampleCount)) return true;
    return this.#until(() => this.#manual.batchReady(tickId), timeoutMs, signal);
  }

  /** The same for worker threads, blocking; refuses on the main thread when it would have to wait. */
  waitUntilReadySync(
    tickId: number,
    sampleCount: number,
    { timeoutMs = Number.POSITIVE_INFINITY }: { timeoutMs?: number } = {},
  ): boolean {
    checkTimeout(timeoutMs);
    if (!this.#begin(tickId, sampleCount)) return true;
    const deadline = native().nowMs() + timeoutMs;
    for (;;) {
      const seen = this.#ring.client.read();
      // Nobody can be replaced while this thread's event loop stands still.
      this.#throwIfOver({ restarts: false });
      const stepped = this.#inline.length > 0 ? this.step() : 0;
      if (this.#manual.batchReady(tickId)) return true;
      const left = deadline - native().nowMs();
      if (left <= 0) return false;
      if (stepped > 0) continue;
      if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await waitUntilReady() instead');
      this.#ring.client.park(seen, Math.min(left, this.#inline.length > 0 ? 1 : LOOK_MS));
    }
  }

  /**
   * The tick's batch as tensors over the slot's device half, ordered before the current stream's next work. Starts and
   * waits where needed; the hot tick again gives the same views; another tick while one is hot throws.
   */
  sampleLargeBatch(tickId: number, sampleCount: number): Promise<Batch>;
  /** With a time-out: null when it is over first. */
  sampleLargeBatch(tickId: number, sampleCount: number, options: WaitOptions): Promise<Batch | null>;
  async sampleLargeBatch(tickId: number, sampleCount: number, options: WaitOptions = {}): Promise<Batch | null> {
    // The stream that is current now, not whichever is when the batch has come.
    const stream = this.#closing ? undefined : this.#slots.device.currentStream;
    const ready = await this.#checkSample(tickId, sampleCount, () => this.waitUntilReady(tickId, sampleCount, options));
    return ready === false ? null : this.#batch(tickId, stream);
  }

  /** The same for worker threads, blocking. */
  sampleLargeBatchSync(tickId: number, sampleCount: number): Batch {
    void this.#checkSample(tickId, sampleCount, () => this.waitUntilReadySync(tickId, sampleCount));
    return this.#batch(tickId);
  }

  /** The learner's work on the hot batch is enqueued: records `spent` behind it and gives the slot on. */
  afterTick({ stream }: { stream?: Stream } = {}): void {
    this.#throwIfOver();
    const { hot } = this.#manual;
    if (!hot) return;
    const { device, spent } = this.#slots;
    const on = stream ?? device.currentStream;
    if (typeof on?.record !== 'function')
      throw typeError(`afterTick: stream must be a stream of ${device.name}, got ${String(stream)}`);
    if (on.device.name !== device.name)
      throw typeError(`afterTick: the stream is of ${on.device.name}, the batch on ${device.name}`);
    const record = this.#ring.record(hot.slot);
    // A deferred copy may have been made on another stream: `spent` must not come before it (I5).
    if (this.#sampledOn && on.handle !== this.#sampledOn.handle) {
      this.#sampledOn.record(this.#slots.last);
      on.wait(this.#slots.last);
    }
    record[Field.replayBegin] = native().nowMs();
    on.record(spent[hot.slot] as (typeof spent)[number]);
    record[Field.replayEnd] = native().nowMs();
    this.#manual.spend();
    this.#ring.handOver(hot.slot, SlotState.Replaying, 'poll');
    this.#tellManual();
  }

  // ---- autonomous runs -------------------------------------------------------------------------------------------

  /**
   * Captures the learner's update once per slot. Throws ERR_HOTSLOT_STATE_CAPTURE when the function throws, returns a
   * promise, or does something that is not device work; the pipeline stays usable. Capturing again replaces the graphs.
   */
  capture(fn: CaptureFunction, options: CaptureOptions = {}): void {
    checkCapture(fn, options, this.#options.mailbox?.length ?? null, this.#slots.device.name);
    this.#checkManual();
    if (this.#manual.pending || this.#manual.hot)
      throw stateError('RUNNING', 'finish the manual tick under way before capturing');
    const graphs = captureSlots(this.#slots, fn);
    for (const old of this.#graphs) old.close();
    this.#graphs = graphs;
    this.#history.scalarNames = [...(options.scalars ?? [])];
    const { run } = this.#ring;
    graphs.forEach((graph, slot) => {
      run[Run.graphs + slot] = graph.handle;
    });
    const { weights } = options;
    run[Run.weights] = weights?.handle ?? 0;
    run[Run.weightsOffset] = weights?.byteOffset ?? 0;
    run[Run.weightsBytes] = weights?.bytes ?? 0;
    run[Run.mailbox] = this.#mailboxMemory?.handle ?? 0;
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
    if (checkCount('publishEvery', publishEvery, 0) > 0 && this.#ring.run[Run.weights] === 0) {
      throw stateError(
        'CAPTURE',
        'publishEvery needs weights: open the pipeline with a mailbox and give capture() the weights',
      );
    }
    this.#checkManual();
    if (this.#graphs.length === 0) throw stateError('CAPTURE', 'capture() the learner before run()');
    if (this.#manual.pending || this.#manual.hot)
      throw stateError('RUNNING', 'finish the manual tick under way before run()');
    const ring = this.#ring;
    const first = ring.next;
    const firstTick = this.#manual.lastTick + 1;
    const { run } = ring;
    run[Run.firstSequence] = first;
    run[Run.firstTick] = firstTick;
    run[Run.ticks] = ticks;
    run[Run.runRows] = this.#options.sampleCount;
    run[Run.publishEvery] = publishEvery;
    const statistics = new Statistics(this.#history.scalarNames);
    this.#running = true;
    await this.#untilOver(first, signal).catch((error) => {
      this.#running = false;
      throw error;
    });
    this.#tellManual();
    let thrown: { error: unknown } | null = null;
    const look = () => {
      thrown ??= this.#tell(statistics);
    };
    const begin = native().nowMs();
    if (signal?.aborted) run[Run.ticks] = 0;
    ring.setGoal(ticks < 2 ** 28 ? first + ticks : null);
    ring.setMode(Mode.autonomous);
    ring.ringAll();
    let aborted = false;
    let pausing = false;
    // Ends in three steps: the ticks are through (or the signal or a listener ends it), requester and replay have paused,
    // every slot is Free.
    const over = () => {
      aborted ||= signal?.aborted ?? false;
      if (!pausing && (aborted || thrown || ring.finished - first >= ticks)) {
        pausing = true;
        ring.pause();
        if (this.#inline.length > 0) this.step();
      }
      if (!pausing) return false;
      // The answers first: a request handed over before the requester's answer shows as a slot that is not Free.
      const answered = ring.paused;
      if (!ring.idle) return false;
      // Replay answers once nothing is under way, which nobody but the client looks at.
      if (!answered) ring.bellOf('replay').ring();
      return answered;
    };
    try {
      await this.#until(over, Number.POSITIVE_INFINITY, undefined, { look, wakeOn: signal });
    } finally {
      this.#running = false;
      ring.setGoal(null);
      ring.ask(ring.next);
      ring.setMode(Mode.manual);
      ring.ringAll();
    }
    const seconds = (native().nowMs() - begin) / 1000;
    look();
    const done = ring.finished - first;
    this.#manual.skipTo(firstTick + done - 1);
    if (thrown !== null) throw (thrown as { error: unknown }).error;
    return {
      ticks: done,
      seconds,
      ticksPerSecond: done / seconds,
      rows: done * this.#options.sampleCount,
      aborted,
      sampled: statistics.sampled,
      stages: statistics.stages(),
      scalars: statistics.scalars(),
    };
  }

  /** Inline placement only: steps every role once, in the order of a slot's life; how much they did. */
  step(): number {
    this.#throwIfOver();
    if (this.#inline.length === 0)
      throw stateError(
        'RUNNING',
        `step() belongs to placement 'inline'; this pipeline's actors run in threads ${this.#options.placed.name}`,
      );
    let done = 0;
    let working: Actor | undefined;
    try {
      for (const actor of this.#inline) {
        working = actor;
        done += actor.work();
      }
    } catch (error) {
      const { role, slot } = working as Actor;
      this.#ring.fail({ role, slot, tick: slot < 0 ? -1 : (this.#ring.record(slot)[Field.tick] as number), error });
      this.#throwIfOver();
    }
    return done;
  }

  /** Waits for the tail of manual ticks, whose work may still be under way. */
  async #untilOver(sequence: number, signal: AbortSignal | undefined): Promise<void> {
    this.#ring.setGoal(sequence);
    const over = () => this.#ring.finished >= sequence || signal?.aborted === true;
    await this.#until(over, Number.POSITIVE_INFINITY, undefined, { wakeOn: signal });
  }

  /** What the next batch waits for, in words. */
  waitingFor(): string {
    const { buffer, sampleCount } = this.#options;
    switch (this.#ring.gate) {
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

  /** Threads, actors and slots as they are, for a person to read. */
  inspect(): { slots: { state: string; tick: number; sequence: number }[]; waitingFor: string; finished: number } {
    const ring = this.#ring;
    const slots = Array.from({ length: ring.depth }, (_, slot) => ({
      state: Object.keys(SlotState)[ring.state(slot)] as string,
      tick: ring.record(slot)[Field.tick] as number,
      sequence: ring.sequence(slot),
    }));
    return { slots, waitingFor: this.waitingFor(), finished: ring.finished };
  }

  /** Stops the actors, drains the device, frees everything. Twice is fine; waiters are released with an error. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The same for worker threads, blocking at most about 10 s; the actors' threads end by themselves behind it. */
  closeSync(): void {
    if (this.#closing) return;
    if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await close() instead');
    this.#closing = Promise.resolve();
    this.#ring.stop();
    const until = native().nowMs() + DRAIN_MS;
    const running = () =>
      this.#options.placed.threads.some((_, i) => this.#ring.threadState(i) === ThreadState.running);
    while (running() && native().nowMs() < until) {
      const seen = this.#ring.client.read();
      if (running()) this.#ring.client.park(seen, LOOK_MS);
    }
    this.#crew?.abandon();
    for (const actor of this.#inline) actor.close();
    const { device, compute, last } = this.#slots;
    const drained = isDone(() => {
      compute.record(last);
      return native().waitEvent(device.handle, last.handle, DRAIN_MS);
    });
    this.#free(drained && !running());
    if (this.#packBell) this.#options.buffer.bells.release(this.#packBell);
    void this.#finishTrace();
    queueMicrotask(() => this.emit('close'));
  }

  async #close(): Promise<void> {
    this.#ring.stop();
    await this.#crew?.stop();
    for (const actor of this.#inline) actor.close();
    this.#tell(null);
    this.#free(await this.#drain());
    if (this.#packBell) this.#options.buffer.bells.release(this.#packBell);
    await this.#finishTrace();
    queueMicrotask(() => this.emit('close'));
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  async #finishTrace(): Promise<void> {
    const failed = await this.#trace?.finish();
    if (failed) this.emit('warning', `the trace is incomplete: ${failed.message}`);
  }

  #free(drained: boolean): void {
    if (!drained) {
      // Never free under a running copy: the memory stays until the process ends.
      leaked.add(this.#slots);
      this.emit('warning', `device work was still running after ${DRAIN_MS} ms: the slots' memory is leaked`);
      return;
    }
    for (const graph of this.#graphs) graph.close();
    this.#slots.close();
    this.#mailboxMemory?.close();
  }

  /** Compute work that may still touch the slots; a sticky error counts as drained. */
  async #drain(): Promise<boolean> {
    const { compute, device, spent, last } = this.#slots;
    const until = native().nowMs() + DRAIN_MS;
    for (const [slot, event] of spent.entries()) {
      const launched = this.#ring.state(slot) === SlotState.Replaying;
      while (launched && !isDone(() => event.query())) {
        if (native().nowMs() > until) return false;
        await native()
          .waitEventAsync(device.handle, event.handle)
          .catch(() => true);
      }
    }
    try {
      compute.record(last);
    } catch {
      return true;
    }
    while (!isDone(() => last.query())) {
      if (native().nowMs() > until) return false;
      await native()
        .waitEventAsync(device.handle, last.handle)
        .catch(() => true);
    }
    return true;
  }

  #begin(tickId: number, sampleCount: number): boolean {
    this.#manual.check(tickId, sampleCount);
    this.#checkManual();
    if (this.#manual.batchReady(tickId)) return false;
    if (this.#manual.pending?.tick !== tickId) this.startPrepare(tickId, sampleCount);
    return true;
  }

  #checkSample<T>(tickId: number, sampleCount: number, wait: () => T): T | undefined {
    this.#manual.check(tickId, sampleCount);
    this.#checkManual();
    const { hot } = this.#manual;
    if (hot && hot.tick !== tickId) {
      throw stateError(
        'TICK',
        `tick ${tickId} cannot be sampled while tick ${hot.tick} is hot: call afterTick() first`,
      );
    }
    return hot ? undefined : wait();
  }

  #batch(tickId: number, stream?: Stream): Batch {
    const hot = this.#manual.hot ?? this.#manual.heat();
    if (hot.tick !== tickId) throw stateError('TICK', `tick ${tickId} was overtaken by tick ${hot.tick}`);
    const on = stream ?? this.#slots.device.currentStream;
    this.#slots.backend.waitCurrentStreamForReady(hot.slot, on);
    this.#sampledOn = on;
    return this.#slots.batches[hot.slot] as Batch;
  }

  #checkManual(): void {
    this.#throwIfOver();
    if (this.#running) throw stateError('RUNNING', 'the pipeline runs by itself: wait for run() to end, or abort it');
  }

  #throwIfOver({ restarts = this.#options.restart > 0 } = {}): void {
    if (this.#closing) throw stateError('CLOSED', 'the pipeline is closed');
    const failure = this.#ring.failure.read();
    if (failure) {
      this.#thrown = true;
      this.#report();
      throw failure;
    }
    if (this.#crew === null || restarts) return;
    for (const [thread, hosted] of this.#options.placed.threads.entries()) {
      const state = this.#ring.threadState(thread);
      if (state !== ThreadState.dead && state !== ThreadState.threw) continue;
      const error = unavailableError(`the thread of ${hosted.join(', ')} was lost`, 'ERR_HOTSLOT_THREAD_LOST');
      this.#ring.fail({ role: hosted[0] as Role, slot: -1, tick: -1, error });
      this.#throwIfOver();
    }
  }

  /** Listeners hear of a failure once. It goes to whoever waits too; with neither it must not vanish. */
  #report(): void {
    const failure = this.#ring.failure.read();
    if (!failure || this.#closing || this.#reported) return;
    this.#reported = true;
    if (this.emit('error', failure) || this.#waiters > 0 || this.#thrown) return;
    queueMicrotask(() => {
      throw failure;
    });
  }

  /** Waits without blocking: true when `done`, false when the time is over. Bell first, look second, park third. */
  async #until(
    done: () => boolean,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    { look = () => {}, wakeOn = signal }: { look?: () => void; wakeOn?: AbortSignal | undefined } = {},
  ): Promise<boolean> {
    const { client } = this.#ring;
    const deadline = native().nowMs() + timeoutMs;
    const wake = () => client.ring();
    wakeOn?.addEventListener('abort', wake);
    // A pending waitAsync does not hold the process; a timer does.
    const hold = setInterval(() => {}, 2 ** 30);
    this.#waiters++;
    let turn = native().nowMs();
    try {
      for (;;) {
        const seen = client.read();
        this.#throwIfOver();
        signal?.throwIfAborted();
        const stepped = this.#inline.length > 0 ? this.step() : 0;
        if (done()) return true;
        const now = native().nowMs();
        if (now >= deadline) return false;
        if (now - turn < LOOK_MS && stepped > 0) continue;
        if (now - turn >= LOOK_MS) {
          look();
          turn = now;
        }
        if (stepped > 0) await new Promise(setImmediate);
        else await client.parkAsync(seen, Math.min(deadline - now, this.#inline.length > 0 ? 1 : LOOK_MS));
      }
    } finally {
      this.#waiters--;
      clearInterval(hold);
      wakeOn?.removeEventListener('abort', wake);
    }
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

  /** The same outside a run, where a listener's error goes to the caller. */
  #tellManual(): void {
    const failed = this.#tell(null);
    if (failed) throw failed.error;
  }
}

function isDone(query: () => boolean): boolean {
  try {
    return query();
  } catch {
    return true;
  }
}

function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw typeError(`signal must be an AbortSignal, got ${String(signal)}`);
}

function checkTimeout(timeoutMs: unknown): void {
  if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0)) {
    throw rangeError(`timeoutMs must be a number of milliseconds of at least 0, got ${String(timeoutMs)}`);
  }
}
