/**
 * Captures a whole training or validation iteration as one graph, including all forward and
 * backward passes. The first iterations run eagerly, and the next one captures the graph. Every
 * later iteration launches the graph over the same buffers. This is the counterpart of Megatron's
 * FullCudaGraphWrapper, but each instance has its own graphs, results and counters.
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

/** The second argument of an IterationFunction. */
export interface IterationContext {
  device: Device;
  /** stream for the function's work. While the function runs, it is the device's current stream */
  stream: Stream;
  /** pool for temporaries of the iteration */
  pool: GraphPool;
}

/**
 * Runs forward, or forward and backward. The function may only enqueue device work, and must
 * enqueue the same work in every call. run() returns the function's result. A run() that launches a
 * graph returns the object that the function returned during the capture.
 *
 * `args.dataIterator` yields the static buffers. It is one iterator or an array, as in the call of
 * run().
 */
export type IterationFunction<Model = unknown, Result = unknown> = (
  args: IterationOptions<Model>,
  context: IterationContext,
) => Result;

export interface FullGraphOptions {
  /** number of eager iterations before the iteration that captures, per stage (default: 1) */
  warmupSteps?: number;
  /**
   * whether all graphs allocate temporaries from the device's shared pool (default: false). A
   * result in that pool lasts only until the pool's next graph runs
   */
  useSingleMempool?: boolean;
  /**
   * maximum number of graphs per stage, one for each shape of the data (default: 1). run() throws
   * for a further shape
   */
  maxGraphs?: number;
  /** device of all iterations (default: that of the model's first parameter, else 'auto') */
  device?: Device | string;
}

/**
 * Captures a whole training or validation iteration once, then launches it with one call per
 * iteration. Megatron calls this full-iteration graphs.
 * @example
 * const step = ({ dataIterator }, { stream }) => enqueue(dataIterator.next().value, stream);
 * const wrapper = new FullGraphWrapper(step);
 * wrapper.run({ model, dataIterator, numMicrobatches: 2, seqLength: 1, forwardOnly: false });
 * wrapper.close();
 */
export class FullGraphWrapper<Model = unknown, Result = unknown> extends Owner {
  /** the graph that the stage's last iteration launched, null if that iteration ran eagerly */
  readonly graph: PerStage<GraphExec | null> = { training: null, validation: null };
  /** what the stage's last run() returned, which is the same object for every launch of a graph */
  readonly result: PerStage<Result | null> = { training: null, validation: null };
  /** static buffers that the stage's last iteration read, per model and microbatch */
  readonly dataRead: PerStage<IterationData | null> = { training: null, validation: null };
  /**
   * error of the stage's failed capture, after which the stage runs eagerly until resetGraph().
   * Null if no capture failed
   */
  readonly reason: PerStage<Error | null> = { training: null, validation: null };
  readonly #counts: PerStage<number> = { training: 0, validation: 0 };
  readonly #fn: IterationFunction<Model, Result>;
  readonly #warmupSteps: number;
  readonly #useSingleMempool: boolean;
  readonly #captured: CapturedIterations;
  readonly #wanted: Device | string | undefined;
  #device: Device | null = null;
  /** event that is recorded after each iteration */
  #end: DeviceEvent | null = null;
  /** event with which the capture stream waits for the caller's stream */
  #start: DeviceEvent | null = null;
  /** handle of the stream on which `#end` was recorded last, 0 before the first iteration */
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

  /** Number of iterations finished since the last reset, per stage. */
  get currIteration(): Readonly<PerStage<number>> {
    return Object.freeze({ ...this.#counts });
  }
  /** Returns the number of iterations of a stage since its last reset. */
  currIter(stage: Stage): number {
    return this.#counts[checkStage(stage)];
  }
  /** Adds one to a stage's number of iterations, as run() does after a successful iteration. */
  nextIter(stage: Stage): void {
    this.#counts[checkStage(stage)]++;
  }

  /**
   * Runs one iteration, eagerly or as a graph. Each call makes exactly one update. The call that
   * captures the graph also launches it once. The iteration runs after all work that is already on
   * the current stream. Work enqueued there later runs after the iteration. run() counts only
   * successful iterations.
   *
   * @returns the function's result. After the capture it is the same object every time, with new
   *   values in its tensors
   * @throws {RangeError} before anything has run, if the data does not fit the captured graph or an
   *   iterator ends early
   * @throws {ERR_HOTSLOT_STATE_RUNNING} if an iteration of this wrapper calls run()
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
      // With `orderOnly`, this stream does not fail if the last iteration failed. The stream on
      // which that iteration ran reports the failure.
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
   * Drops the graphs, result, reason and counter of a stage. The static buffers stay.
   *
   * @param stage default: both stages
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
   * Copies the iteration's data into the static buffers of its shape. Loads each microbatch before
   * it reads the next one, because an iterator may reuse its memory.
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
    // The shape that reads the most tensors is first. The graph of a shape with fewer tensors would
    // ignore the additional keys of the data.
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
            // Loads the earlier microbatches from the buffers of the shape that no longer fits. The
            // iterator may have overwritten the memory that it yielded for them.
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

  /**
   * Makes `stream` wait until the last iteration is done, if that iteration ran on another stream.
   */
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
        // With `orderOnly`, the capture stream does not fail if the caller's stream has failed.
        // Other users of the capture stream would get that error.
        capture.wait(this.#start as DeviceEvent, { orderOnly: true });
        try {
          return this.#call(iteration(), { device, stream: capture, pool });
        } finally {
          // Records `#end` even if the function threw, because it may have enqueued work before.
          if (!failed(capture)) this.#record(capture);
        }
      });
    } finally {
      this.#follow(stream);
    }
  }

  /**
   * Captures the iteration. If the capture fails, stores the error as the stage's reason, and the
   * stage runs eagerly from then on.
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
