/**
 * A whole training or validation iteration as one captured graph, with any forward and backward.
 * The first iterations run eagerly, one captures, and every later one is a single replay over the
 * same buffers. Megatron's FullCudaGraphWrapper, with graphs, results and counters per instance.
 */

import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { type CodedError, rangeError, stateError, typeError } from '../../base/errors.ts';
import {
  type Device,
  type DeviceEvent,
  type GraphExec,
  type Stream,
  Tensor,
} from '../../device/device.ts';
import {
  captureGraph,
  checkEnqueued,
  forgetEager,
  type GraphPool,
  getGraphPool,
  onCaptureStream,
} from '../../device/graph/shared.ts';
import { openDevice } from '../../device/open.ts';
import { checkOpen, Owner, own } from '../../device/owner.ts';
import { hasParameters } from '../../device/parameters.ts';
import { failed } from '../../device/stream.ts';
import { CapturedIteration, CapturedIterations, type PerStage } from './captured-iterations.ts';
import {
  checkIteration,
  type IterationData,
  type IterationOptions,
  IterationShape,
  iteratorsOf,
  iteratorsOver,
  nextOf,
} from './iteration.ts';
import { type Stage, type StaticBufferLoader, stages, unwrapped } from './static-buffer-loader.ts';
import { structureOf, type TensorStruct } from './struct.ts';

/** Second argument of the function, after the iteration's arguments. */
export interface IterationContext {
  device: Device;
  /** the stream to enqueue on, which is the device's current stream while the function runs */
  stream: Stream;
  /** pool for memory that lives only inside the iteration */
  pool: GraphPool;
}

/**
 * Forward, or forward and backward. It enqueues device work only, the same in every call, and
 * returns the result for the callers of run() (the same object after every replay). `dataIterator`
 * yields the static buffers, in the form that run() received.
 */
export type IterationFunction<Model = unknown, Result = unknown> = (
  args: IterationOptions<Model>,
  context: IterationContext,
) => Result;

export interface FullGraphOptions {
  /** iterations that run eagerly before one captures, per stage (default: 1) */
  warmupSteps?: number;
  /**
   * every graph's temporaries in the device's shared pool, so results kept there last only until
   * the next replay (default: false)
   */
  useSingleMempool?: boolean;
  /**
   * graphs kept per stage, one per shape of the data (default: 1, so run() throws for a second
   * shape)
   */
  maxGraphs?: number;
  /** default: the device of the model's first parameter, else 'auto' */
  device?: Device | string;
}

/**
 * Captures a whole training or validation iteration once, and launches it with one call from then
 * on: Megatron's full-iteration graphs.
 * @example
 * const step = ({ dataIterator }, { stream }) => enqueue(dataIterator.next().value, stream);
 * const wrapper = new FullGraphWrapper(step);
 * wrapper.run({ model, dataIterator, numMicrobatches: 2, seqLength: 1, forwardOnly: false });
 * wrapper.close();
 */
export class FullGraphWrapper<Model = unknown, Result = unknown> extends Owner {
  /** the graph that ran last, null while iterations run eagerly */
  readonly graph: PerStage<GraphExec | null> = { training: null, validation: null };
  /** last return value of the function, the same object after a replay */
  readonly result: PerStage<Result | null> = { training: null, validation: null };
  /** the static buffers of the last iteration, per model and microbatch */
  readonly dataRead: PerStage<IterationData | null> = { training: null, validation: null };
  /**
   * why a stage is not captured and runs eagerly until it is reset, null if capture did not fail
   */
  readonly reason: PerStage<Error | null> = { training: null, validation: null };
  readonly #counts: PerStage<number> = { training: 0, validation: 0 };
  readonly #fn: IterationFunction<Model, Result>;
  readonly #warmupSteps: number;
  readonly #useSingleMempool: boolean;
  readonly #captured: CapturedIterations;
  readonly #wanted: Device | string | undefined;
  #device: Device | null = null;
  /**
   * recorded after the last iteration, and (`start`) between the caller's stream and the capture
   * stream
   */
  #end: DeviceEvent | null = null;
  #start: DeviceEvent | null = null;
  /** handle of the stream on which `end` was recorded last */
  #on = 0;
  #running = false;

  constructor(fn: IterationFunction<Model, Result>, options: FullGraphOptions = {}) {
    super('this wrapper');
    if (typeof fn !== 'function')
      throw typeError(`FullGraphWrapper needs a function, got ${describeValue(fn)}`);
    checkKeys('FullGraphWrapper', options, [
      'warmupSteps',
      'useSingleMempool',
      'maxGraphs',
      'device',
    ]);
    const { warmupSteps = 1, useSingleMempool = false, maxGraphs = 1, device } = options;
    this.#fn = fn;
    this.#warmupSteps = checkCount('warmupSteps', warmupSteps, 0);
    checkFlag('useSingleMempool', useSingleMempool);
    this.#useSingleMempool = useSingleMempool;
    this.#captured = new CapturedIterations(checkCount('maxGraphs', maxGraphs));
    this.#wanted = device;
  }

  /** Iterations finished since the last reset. */
  get currIteration(): Readonly<PerStage<number>> {
    return Object.freeze({ ...this.#counts });
  }
  /** Returns the number of iterations of a stage since its last reset. */
  currIter(stage: Stage): number {
    return this.#counts[checkStage(stage)];
  }
  /** Counts one more iteration, as run() does after one that succeeded. */
  nextIter(stage: Stage): void {
    this.#counts[checkStage(stage)]++;
  }

  /**
   * Runs one iteration: exactly one update, whether eager, captured or launched. It runs after all
   * work already enqueued on the current stream, and work enqueued there later waits for it. Only a
   * successful iteration is counted.
   *
   * @returns the function's result. After the capture it is the same object every time, with new
   *   numbers in its tensors
   * @throws {RangeError} before anything has run, for data that do not fit the captured graph or
   *   end early
   * @throws {ERR_HOTSLOT_STATE_RUNNING} inside an iteration of this wrapper
   */
  run(...args: [options: IterationOptions<Model>]): Result {
    const iteration = checkIteration(args) as IterationOptions<Model>;
    checkOpen(this);
    if (this.#running)
      throw stateError('RUNNING', 'an iteration of this wrapper cannot run inside another one');
    this.#running = true;
    try {
      const stage: Stage = iteration.forwardOnly ? 'validation' : 'training';
      const iterators = iteratorsOf(iteration);
      const device = this.#open(iteration.model);
      // Order only: a failure of the last iteration is reported on the stream that it ran for.
      this.#follow(device.currentStream, { orderOnly: true });
      const { captured, buffers } = this.#read(stage, iteration, iterators, device);
      this.dataRead[stage] = structureOf(buffers);
      const dataIterator = () => iteratorsOver(iteration, buffers);
      const result = this.#iterate(captured, stage, buffers, () => ({
        ...iteration,
        dataIterator: dataIterator(),
      }));
      this.result[stage] = result;
      this.graph[stage] = captured.exec;
      this.nextIter(stage);
      return result;
    } finally {
      this.#running = false;
    }
  }

  /**
   * Drops graph, result and counter of a stage, or of both, and keeps the static buffers.
   *
   * @param stage default: both
   */
  resetGraph(stage?: Stage): void {
    if (this.#running)
      throw stateError('RUNNING', 'an iteration is under way; reset the wrapper after it');
    for (const each of stage === undefined ? stages : [checkStage(stage)]) {
      for (const kept of this.#captured.of(each)) kept.reset();
      this.#counts[each] = 0;
      this.graph[each] = this.result[each] = this.reason[each] = null;
    }
  }

  /**
   * Closes graphs, buffers and pools. Idempotent.
   *
   * @throws {ERR_HOTSLOT_STATE_RUNNING} during an iteration
   */
  override close(): void {
    if (this.#running)
      throw stateError('RUNNING', 'an iteration is under way; close the wrapper after it');
    super.close();
  }

  #open(model: unknown): Device {
    if (this.#device) return this.#device;
    const wanted = this.#wanted ?? deviceOf(model) ?? 'auto';
    const device = typeof wanted === 'string' ? own(this, openDevice(wanted)) : wanted;
    this.#end = own(this, device.createEvent());
    this.#start = own(this, device.createEvent());
    own(this, { close: () => this.resetGraph() });
    own(this, this.#captured);
    this.#device = device;
    return device;
  }

  /**
   * Reads the iteration's data into the static buffers of its shape. Each microbatch is loaded
   * before the next is read, because an iterator may reuse its memory.
   */
  #read(
    stage: Stage,
    iteration: IterationOptions,
    iterators: readonly (Iterator<TensorStruct> | null)[],
    device: Device,
  ): { captured: CapturedIteration; buffers: IterationData } {
    let why = '';
    const fits = (difference: string | null) => {
      why = difference ?? why;
      return difference === null;
    };
    // The shape that reads the most tensors comes first: a graph does not see keys that came after
    // its capture.
    let fitting = this.#captured
      .of(stage)
      .filter(({ shape }) => fits(shape.differs(iteration, iterators)))
      .sort((a, b) => b.shape.tensors - a.shape.tensors);
    const fresh = (): CapturedIteration => {
      this.#captured.checkRoom(stage, why);
      return new CapturedIteration(new IterationShape(iteration, iterators), iterators, device);
    };
    let kept = fitting[0] ?? fresh();
    const buffers = iterators.map((each): Record<string, unknown>[] | null => each && []);
    const load = (i: number, microbatch: number, given: Record<string, unknown>) => {
      kept.shape.see(i, microbatch, given);
      const own = (kept.loaders[i] as StaticBufferLoader).load(given, stage, microbatch);
      (buffers[i] as Record<string, unknown>[])[microbatch] = own;
    };
    try {
      for (const [i, iterator] of iterators.entries()) {
        for (let microbatch = 0; iterator && microbatch < iteration.numMicrobatches; microbatch++) {
          const given = unwrapped(
            nextOf(iterator, { i, microbatch, of: iteration.numMicrobatches, stage }),
          );
          fitting = fitting.filter(({ shape }) => fits(shape.misfit(i, microbatch, given)));
          if (this.#captured.of(stage).includes(kept) && !fitting.includes(kept)) {
            kept = fitting[0] ?? fresh();
            // The microbatches read so far are copied over from the buffers, because the iterator's
            // memory may hold other data by now.
            for (const [j, before] of buffers.entries())
              before?.forEach((each, n) => void load(j, n, each));
          }
          load(i, microbatch, given);
        }
      }
    } catch (error) {
      if (!this.#captured.of(stage).includes(kept)) kept.close();
      throw error;
    }
    if (!this.#captured.of(stage).includes(kept)) this.#captured.keep(stage, kept);
    return { captured: kept, buffers };
  }

  /** Makes `stream` wait for the last iteration if that ran on another stream. */
  #follow(stream: Stream, options?: { orderOnly: boolean }): void {
    if (this.#on !== 0 && this.#on !== stream.handle)
      stream.wait(this.#end as DeviceEvent, options);
  }

  #iterate(
    kept: CapturedIteration,
    stage: Stage,
    data: IterationData,
    iteration: () => IterationOptions<Model>,
  ): Result {
    const device = this.#device as Device;
    if (!kept.exec && !this.reason[stage] && this.#counts[stage] >= this.#warmupSteps)
      this.#capture(kept, stage, data, iteration);
    const stream = device.currentStream;
    if (kept.exec) {
      stream.replay(kept.exec);
      this.#record(stream);
      return kept.result as Result;
    }
    stream.record(this.#start as DeviceEvent);
    const pool = this.#poolOf(kept);
    try {
      return onCaptureStream(device, pool, (capture) => {
        // Order only: an earlier failure on the caller's stream must not reach other users of the
        // capture stream.
        capture.wait(this.#start as DeviceEvent, { orderOnly: true });
        try {
          return this.#call(iteration(), { device, stream: capture, pool });
        } finally {
          // Also after the work that a function enqueued before it threw.
          if (!failed(capture)) this.#record(capture);
        }
      });
    } finally {
      this.#follow(stream);
    }
  }

  /**
   * Captures the iteration. If the capture fails, stores the reason, and the stage runs eagerly.
   */
  #capture(
    kept: CapturedIteration,
    stage: Stage,
    data: IterationData,
    iteration: () => IterationOptions<Model>,
  ): void {
    const device = this.#device as Device;
    const pool = this.#poolOf(kept);
    forgetEager(pool);
    try {
      const { exec, result } = captureGraph(
        device,
        { what: `the capture of ${stage}`, pool },
        (stream) => this.#call(iteration(), { device, stream, pool }),
      );
      kept.exec = exec;
      kept.result = result;
      kept.settle(stage, data);
    } catch (error) {
      if ((error as CodedError).code === 'ERR_HOTSLOT_STATE_BUSY') throw error;
      this.reason[stage] = error as Error;
      process.emitWarning(
        `${(error as Error).message}; iterations run eagerly until resetGraph()`,
        'GraphWarning',
      );
    }
  }

  #call(iteration: IterationOptions<Model>, context: IterationContext): Result {
    const result = this.#fn(iteration, context);
    checkEnqueued('the function', result);
    return result;
  }

  #poolOf(kept: CapturedIteration): GraphPool {
    kept.pool ??= getGraphPool(this.#device as Device, this.#useSingleMempool);
    return kept.pool;
  }

  #record(stream: Stream): void {
    stream.record(this.#end as DeviceEvent);
    this.#on = stream.handle;
  }
}

function deviceOf(model: unknown): Device | null {
  const first: unknown = Array.isArray(model) ? model[0] : model;
  if (hasParameters(first))
    for (const [, parameter] of first.namedParameters())
      if (parameter instanceof Tensor) return parameter.device;
  return null;
}

function checkStage(stage: Stage): Stage {
  if (!stages.includes(stage))
    throw rangeError(`stage must be 'training' or 'validation', got ${describeValue(stage)}`);
  return stage;
}
