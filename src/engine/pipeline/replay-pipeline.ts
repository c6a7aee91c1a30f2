/**
 * Opens device, ring and actors, and offers two ways to use them. In manual ticks the caller
 * samples each batch and releases it. In autonomous runs replay launches a captured graph for each
 * batch.
 */
import { EventEmitter } from 'eventemitter3';
import { checkInternal, checkKeys, INTERNAL } from '../../base/checks.ts';
import { Closing } from '../../base/closing.ts';
import { closedError, stateError } from '../../base/errors.ts';
import type { GraphExec, Stream } from '../../device/device.ts';
import { checkSignal, type WaitOptions } from '../../shm/wait.ts';
import type { BatchFields } from '../../store/lanes/samples.ts';
import type { StepFields } from '../../store/lanes/schema.ts';
import type { Fields } from '../../store/rows/fields.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { View } from '../../store/views/views.ts';
import type { RingStatistics } from '../device-rows/statistics.ts';
import { TraceRecorder } from '../trace/recorder.ts';
import { checkCaptured, checkRun, type RunOptions, runTicks } from './autonomous.ts';
import { checkAveraging } from './averaging.ts';
import type { Batch } from './batches.ts';
import {
  type CaptureFunction,
  type CaptureOptions,
  captureSlots,
  checkCapture,
  learnerOf,
} from './capture.ts';
import { FedSpans } from './fed-spans.ts';
import { History, type PipelineEvents, type Tick } from './history.ts';
import {
  type PipelineInternals,
  type PipelineNow,
  pipelineNow,
  standsFor,
  traceShape,
  waitingFor,
} from './inspect.ts';
import { manifestOf, type TransferManifest } from './manifest.ts';
import { ManualTicks } from './manual.ts';
import { ManualCalls } from './manual-calls.ts';
import {
  type CheckedOptions,
  checkOptions,
  type PipelineOptions,
  type TrajectoryPipelineOptions,
} from './options.ts';
import { Positions } from './position.ts';
import { RunControl } from './run-control.ts';
import { PipelineRuntime } from './runtime.ts';
import type { Summary } from './summary.ts';
import { tickStream } from './tick-stream.ts';

/**
 * Returns the pipeline's parts, for the monitor, for checkpoints, and for tests that end its
 * threads or block its streams. The package does not export it.
 */
export let internalsOf: (pipeline: ReplayPipeline) => PipelineInternals;

/**
 * Prepares the learner's next batch on the device while the learner works on the current one. `F`
 * are the buffer's fields, which open() infers. `S` are the scalars' names, which capture() infers.
 * @example
 * const pipeline = await ReplayPipeline.open({ buffer, device: 'auto', sampleCount: 256 });
 * pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
 *   scalars: learner.scalars,
 * });
 * const { scalars } = await pipeline.run({ ticks: 1000 });
 * await pipeline.close();
 */
export class ReplayPipeline<F extends Fields = Fields, S extends string = string>
  extends EventEmitter<PipelineEvents<S>>
  implements AsyncDisposable
{
  readonly transferManifest: TransferManifest;
  readonly #options: CheckedOptions;
  readonly #parts: PipelineRuntime;
  readonly #manual: ManualTicks;
  readonly #calls: ManualCalls;
  readonly #history: History;
  readonly #control: RunControl;
  #graphs: GraphExec[] = [];
  readonly #closing = new Closing();

  static {
    internalsOf = (pipeline) => {
      const [parts, history, options] = [pipeline.#parts, pipeline.#history, pipeline.#options];
      const buffer = options.source.buffer as ReplayBuffer;
      const control = pipeline.#control;
      const positions = new Positions(parts, pipeline.#manual, control, options);
      return {
        threads: parts.threads,
        slots: parts.slots,
        buffer,
        parts,
        history,
        options,
        control,
        positions,
      };
    };
  }

  /**
   * Opens device, slots and threads. Checks all options first. If one of them fails to open, closes
   * the others.
   *
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_MEMORY} if the slots do not fit into memory
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if this machine cannot drive the device
   * @throws {ERR_HOTSLOT_STATE_BUSY} if 8 pipelines use the buffer already
   */
  static async open<F extends Fields>(options: PipelineOptions<F>): Promise<ReplayPipeline<F>>;
  /** Opens a pipeline over trajectories: batches of a view, sampled uniformly or by priorities. */
  static async open<S extends StepFields, V extends View>(
    options: TrajectoryPipelineOptions<S, V>,
  ): Promise<ReplayPipeline<BatchFields<S, V>>>;
  static async open(options: PipelineOptions | TrajectoryPipelineOptions): Promise<ReplayPipeline> {
    const pipeline = new ReplayPipeline(INTERNAL, checkOptions(options));
    try {
      await pipeline.#parts.threads?.start();
      options.signal?.throwIfAborted();
      // Emits the warnings later, so that the caller can first add a listener.
      setImmediate(() =>
        pipeline.#parts.warnings.forEach((warning) => void pipeline.#history.warning(warning)),
      );
    } catch (error) {
      await pipeline.close();
      throw error;
    }
    return pipeline;
  }

  private constructor(key: unknown, options: CheckedOptions) {
    super();
    checkInternal(key, 'ReplayPipeline', 'ReplayPipeline.open()');
    this.#options = options;
    const trace = options.trace ? new TraceRecorder(options.trace) : null;
    try {
      this.#parts = new PipelineRuntime(options, {
        error: (failure) => this.emit('error', failure),
        restart: (roles, reason) => this.#history.restarted(roles, reason),
        warning: (message) => void this.#history.warning(message),
      });
    } catch (error) {
      void trace?.finish();
      throw error;
    }
    this.#manual = new ManualTicks(this.#parts, options.sampleCount);
    this.#control = new RunControl(this.#parts, this.#manual);
    const { source } = options;
    const given = { parts: this.#parts, source, manual: this.#manual, control: this.#control };
    this.#calls = new ManualCalls({ ...given, checkNotRunning: () => this.#checkNotRunning() });
    const manifest = manifestOf(this.#parts.slots, options);
    this.transferManifest = manifest;
    const traced = trace?.of(
      manifest,
      traceShape(this.#parts.slots, options),
      new FedSpans(source.buffer.share().memory),
    );
    this.#history = new History(this.#parts.ring, this, traced ?? null);
  }

  /**
   * Requests a tick's batch and returns at once. Pack waits until the buffer's ptr reaches
   * `minSnapshotPtr`, then takes its own snapshot (UniLab).
   *
   * @param tickId a whole number above the last tick's
   * @param sampleCount rows of the batch, which must equal the pipeline's `sampleCount`
   * @param minSnapshotPtr default: the buffer's ptr at the call
   * @returns true if this call started the work, false if the tick is pending or prepared
   * @throws {ERR_HOTSLOT_STATE_TICK} while another tick is pending, or if the tick is hot or over
   * @throws {ERR_HOTSLOT_STATE_EMPTY} for an empty buffer without `minSnapshotPtr`
   */
  startPrepare(tickId: number, sampleCount: number, minSnapshotPtr?: number): boolean {
    return this.#calls.start(tickId, sampleCount, minSnapshotPtr);
  }

  /** Returns true if that tick's batch is on the device, and false for any other tick. */
  batchReady(tickId: number, sampleCount: number): boolean {
    return this.#calls.ready(tickId, sampleCount);
  }

  /**
   * Requests the tick if nothing is pending, and waits for its batch without blocking the thread.
   *
   * @param options `timeoutMs` (default: no limit) and `signal`
   * @returns true if the batch is ready, false if `timeoutMs` passed first. The tick stays pending
   * @throws the signal's reason, and as startPrepare()
   */
  waitUntilReady(tickId: number, sampleCount: number, options: WaitOptions = {}): Promise<boolean> {
    return this.#calls.wait(tickId, sampleCount, options);
  }

  /**
   * Blocks a worker thread like waitUntilReady().
   *
   * @throws {ERR_HOTSLOT_STATE_MAIN_THREAD} on the main thread if it would wait
   */
  waitUntilReadySync(
    tickId: number,
    sampleCount: number,
    options: { timeoutMs?: number } = {},
  ): boolean {
    return this.#calls.waitSync(tickId, sampleCount, options);
  }

  /**
   * Returns the tick's batch as tensors over the slot's device buffer. Requests the tick and waits
   * if needed. The batch is ordered before later work of the stream that is current at the call.
   * For the hot tick it returns the same views again.
   *
   * @throws {ERR_HOTSLOT_STATE_TICK} while another tick is hot
   * @throws {PipelineError} if the pipeline failed
   */
  sampleLargeBatch(tickId: number, sampleCount: number): Promise<Batch<F>>;
  /** Resolves with null if `timeoutMs` passes first. The tick stays pending. */
  sampleLargeBatch(
    tickId: number,
    sampleCount: number,
    options: WaitOptions,
  ): Promise<Batch<F> | null>;
  sampleLargeBatch(
    tickId: number,
    sampleCount: number,
    options: WaitOptions = {},
  ): Promise<Batch<F> | null> {
    return this.#calls.sample(tickId, sampleCount, options) as Promise<Batch<F> | null>;
  }

  /**
   * Blocks a worker thread like sampleLargeBatch().
   *
   * @throws {ERR_HOTSLOT_STATE_MAIN_THREAD} on the main thread if it would wait
   */
  sampleLargeBatchSync(tickId: number, sampleCount: number): Batch<F> {
    return this.#calls.sampleSync(tickId, sampleCount) as Batch<F>;
  }

  /**
   * Ends the hot tick: its slot is released after the work that the learner has enqueued on the
   * batch. Does nothing without a hot batch.
   *
   * @param options `stream`: where the work was enqueued, by default the current stream
   * @throws {TypeError} for a stream of another device
   * @throws {DeviceError} if the stream has failed. The tick stays hot
   */
  afterTick(options: { stream?: Stream } = {}): void {
    checkKeys('afterTick', options, ['stream']);
    this.#parts.checkRunning();
    if (!this.#manual.hot) return;
    this.#manual.spend(options.stream);
    const thrown = this.#history.emit(null);
    if (thrown) throw thrown.error;
  }

  /**
   * Captures the learner's update once per slot. Capturing again replaces the graphs. After a
   * failed capture the pipeline stays usable.
   *
   * @param fn enqueues one update: device work only, and the same for every slot
   * @param options `scalars` names the first elements of `out`. `weights` are published to the
   *   mailbox
   * @returns this pipeline, whose type then has the scalars' names
   * @throws {ERR_HOTSLOT_STATE_CAPTURE} if `fn` throws, returns a promise, or does other than
   *   device work
   */
  capture<const N extends string = never>(
    fn: CaptureFunction<F>,
    options: CaptureOptions<N> = {},
  ): ReplayPipeline<F, N> {
    const { ring, slots, mailbox, averaging } = this.#parts;
    checkCapture(fn, options, this.#options.mailbox?.length ?? null, slots.device.name);
    const averaged = checkAveraging(options, this.#options.group, slots.device.name);
    this.#checkFree('capturing');
    const { scalars = [] } = options;
    const bring = (stream: Stream) => averaging?.bring(averaged!.parameters, stream);
    const graphs = captureSlots(slots, fn as CaptureFunction, bring, scalars, (text) =>
      this.#history.warn(text),
    );
    for (const old of this.#graphs) old.close();
    this.#graphs = graphs;
    const averages = averaged && averaging ? averaging.captured(averaged) : null;
    ring.run.setLearner(learnerOf(graphs, options, mailbox, averages));
    this.#history.captured(scalars, graphs.length);
    return this as unknown as ReplayPipeline<F, N>;
  }

  /**
   * Runs captured ticks until `ticks` are finished or the signal aborts. Tick ids continue from the
   * last one. In a learner group every rank must call it, and all runs end with the same exchange.
   *
   * @param options `ticks` (default: until the signal), `signal`, `publishEvery` in ticks (default
   *   0: never)
   * @returns a summary: ticks, seconds, scalars, stages, and how the run ended
   * @throws {PipelineError} if an actor or a rank fails
   * @throws {ERR_HOTSLOT_STATE_CAPTURE} before capture()
   * @throws {ERR_HOTSLOT_STATE_RUNNING} during a manual tick or another run
   */
  async run(options: RunOptions = {}): Promise<Summary<S>> {
    checkRun(options);
    do {
      this.#checkFree('run()');
      if (this.#control.standing) await this.#control.passed({});
    } while (this.#control.standing);
    this.#checkFree('run()');
    const { ring } = this.#parts;
    checkCaptured(options, this.#graphs.length, ring.run.hasWeights);
    const firstTick = this.#manual.lastTick + 1;
    const first = ring.next;
    const plan = {
      ...options,
      firstTick,
      rows: this.#options.sampleCount,
      statistics: this.#history.statistics(),
      standsFor: () => standsFor(ring.header.gate, this.#options, this.#parts.slots.deviceRows),
      waitingFor: () => this.waitingFor(),
      warn: (text: string) => this.#history.warn(text),
      control: this.#control,
    };
    this.#control.begin();
    try {
      return await runTicks(this.#parts, plan, (statistics) => this.#history.emit(statistics));
    } finally {
      this.#manual.skipTo(firstTick + (ring.next - first) - 1);
      this.#control.over();
    }
  }

  /**
   * Iterates over finished ticks in order, from this call until the pipeline closes. They are
   * emitted while run() waits, in afterTick() and in close(). For a slow reader it queues at most
   * as many ticks as the journal stores. `missed` counts the ticks that it drops.
   *
   * @param options `signal` ends the iteration
   * @throws the signal's reason, and PipelineError if the pipeline fails
   * @example
   * for await (const { tickId, scalars } of pipeline.ticks()) console.log(tickId, scalars);
   */
  ticks(options: { signal?: AbortSignal } = {}): AsyncIterableIterator<Tick<S>> {
    checkKeys('ticks', options, ['signal']);
    checkSignal(options.signal);
    if (this.#parts.closing) throw closedError('the pipeline');
    return tickStream(this, this.#options.journal, options.signal);
  }

  /**
   * Sets the exponent of the importance weights from the next request on.
   *
   * @param beta 0 to 1
   * @throws {RangeError|TypeError} for another value, or if steps are sampled uniformly
   */
  setBeta(beta: number): void {
    this.#parts.checkRunning();
    this.#options.source.setBeta(this.#parts.ring, beta);
  }

  /**
   * Steps every role once, in the order of a slot's life. Only for placement 'inline'.
   *
   * @returns the number of actions that the roles took
   * @throws {ERR_HOTSLOT_STATE_RUNNING} if threads run the roles
   */
  step(): number {
    this.#parts.checkRunning();
    if (!this.#parts.inline) {
      const { placement } = this.transferManifest;
      throw stateError(
        'RUNNING',
        `step() belongs to placement 'inline'; the actors run in threads ${placement}`,
      );
    }
    return this.#parts.step();
  }

  /** Returns as text what the next batch waits for. */
  waitingFor(): string {
    return waitingFor(this.#parts.ring.header.gate, this.#options, this.#parts.slots.deviceRows);
  }

  /** Statistics of the rows that live on the device, or null if rows travel with each batch. */
  get ring(): { stats(): RingStatistics } | null {
    const { deviceStore } = this.#parts.slots;
    return deviceStore && { stats: () => deviceStore.statistics };
  }

  /**
   * Returns the present state of the slots, and the cores that gather large batches. It is meant
   * for people, not for programs.
   */
  inspect(): PipelineNow {
    return pipelineNow(this.#parts.ring, this.waitingFor());
  }

  /**
   * Stops the actors, drains the device and frees everything. Waiters throw an error. Idempotent.
   * If another thread has pinned a part, the last unpin frees that part.
   *
   * @throws {ERR_HOTSLOT_STATE_BUSY} in a worker thread if a part is still pinned after 2 s. Call
   *   it again
   */
  close(): Promise<void> {
    return this.#closing.once(() => this.#close());
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Blocks a worker thread like close(), for at most about 10 s. The actors' threads end on their
   * own afterwards.
   *
   * @throws {ERR_HOTSLOT_STATE_MAIN_THREAD} on the main thread
   */
  closeSync(): void {
    if (this.#closing.begun) return;
    this.#parts.closeSync(() => this.#closeGraphs());
    void this.#closing.once(() => this.#history.close());
  }

  async #close(): Promise<void> {
    try {
      await this.#parts.close(() => this.#closeGraphs());
    } catch (error) {
      // The pipeline is not closed, and the next call tries again.
      this.#closing.retry();
      throw error;
    }
    await this.#history.close();
  }

  #closeGraphs(): void {
    for (const graph of this.#graphs) graph.close();
  }

  #checkNotRunning(): void {
    this.#parts.checkRunning();
    if (this.#control.running)
      throw stateError('RUNNING', 'run() is using the pipeline; await run(), or abort it');
  }
  #checkFree(what: string): void {
    this.#checkNotRunning();
    this.#manual.checkOver(what);
  }
}
