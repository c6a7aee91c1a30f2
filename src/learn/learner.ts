/**
 * Base class of learners. It splits batches into minibatches, draws random numbers, records events,
 * and saves and loads the learner's state.
 */

import { checkCount, checkKeys } from '../base/checks.ts';
import { elementCount } from '../base/dtype.ts';
import { rangeError, stateError } from '../base/errors.ts';
import { loadedActionsCheck } from '../base/loaded-actions.ts';
import { withSavedNames } from '../base/old-names.ts';
import { checkDevice, checkStream } from '../device/checks.ts';
import type { Device, DeviceEvent, Stream, Tensor } from '../device/device.ts';
import { DeviceGenerator } from '../device/graph/generator.ts';
import { checkOpen, guardConstruction, Owner, own } from '../device/owner.ts';
import { type Columns, sliced } from './batch.ts';
import {
  generatorPart,
  type LearnerState,
  learnerWarning,
  type Part,
  readState,
  writeState,
} from './state.ts';
import type { PlanSummary } from './trace/trace.ts';
import {
  checkDraws,
  checkRecords,
  type Draw,
  type EventRecord,
  scalarsOf,
  type UpdateOptions,
} from './update-options.ts';
import { look as lookAt, Watch, type WatchedVector } from './watch.ts';

type Floats = Tensor<'float32'>;

/** Input of a step on one minibatch, in addition to the minibatch's columns. */
export interface StepContext {
  /** number of this gradient step, which decides whether a periodic update is due */
  readonly phase: number;
  /** index of the minibatch in this update */
  readonly minibatch: number;
  /** returns the numbers that the caller of update() gave for `name`, or undefined */
  given(name: string): Floats | undefined;
  /**
   * writes the outputs that the caller of update() requested for an event. Calls `made` only if an
   * output was requested
   */
  record(event: string, made: () => LossRecord): void;
  /** whether the caller of update() requested outputs of any event */
  readonly records: boolean;
  /** enqueues the watch's check of an event. Undefined without a watch */
  readonly look: ((event: string) => void) | undefined;
}

/**
 * Tensors of an event from which records are written. The optimizer's norm() computes the record's
 * norm from `gradient`.
 */
export interface LossRecord {
  loss: Floats;
  gradient: Floats;
  optimizer: { norm(stream: Stream, gradient: Floats, out: Floats): void };
}

/** Methods and values that each learner defines for the base class. */
export interface LearnerHooks {
  /** describes the launches of an update on one minibatch */
  readonly plan: PlanSummary;
  /** returns the memory that watch() checks */
  watched(): readonly WatchedVector[];
  /** length of the gradient of each event that a step may record, by the event's name */
  readonly events: Readonly<Record<string, number>>;
  /** enqueues one gradient step on one minibatch */
  step(stream: Stream, columns: Columns, context: StepContext): void;
  /**
   * ends the last step: adds `share` times its scalars to `scalars`, and counts it. If `first` is
   * true, overwrites `scalars` with these values instead
   */
  report(stream: Stream, scalars: Floats, share: number, first: boolean): void;
  /**
   * returns the parts of `state()` except the generator and the number of updates. A part `updates`
   * replaces that of the base class
   */
  parts(): [string, Part][];
  /** recomputes all values that derive from the loaded state */
  restored?(stream: Stream): void;
}

/**
 * Installs a learner's hooks at the end of its constructor. All initial values must have been
 * enqueued on the device's current stream.
 */
export let installHooks: (learner: Learner, work: LearnerHooks) => void;

/** Sets the number of the next gradient step that update() enqueues outside of a capture. */
export let setPhase: (learner: Learner, phase: number) => void;

/** Returns the generator of a learner's random numbers, or undefined if it draws none. */
export let generatorOf: (learner: Learner) => DeviceGenerator | undefined;

/** A learner's settings with defaults filled in, as JSON values. */
export type LearnerSettings = { readonly [name: string]: Setting };
type Setting = string | number | boolean | null | readonly Setting[] | LearnerSettings;

/**
 * Trains networks on a device by minibatches. DqnLearner, SacLearner and Td3Learner extend it.
 * @example
 * await learner.ready;
 * const out = learner.device.allocate({ shape: [learner.scalars.length] });
 * learner.update(learner.device.currentStream, batch, out);
 * console.log(learner.scalars, await out.toArray());
 */
export abstract class Learner extends Owner {
  readonly device: Device;
  /** name of the algorithm. It stays the same if a bundler renames the class */
  readonly kind: string;
  /**
   * settings that a resumed run must share. Seeds and optimizer options are excluded, because the
   * state contains them
   */
  readonly settings: LearnerSettings;
  /** rows of one minibatch */
  readonly batchSize: number;
  /**
   * names of the scalars that an update writes to `out`, in order. Each is a mean over the update's
   * minibatches
   */
  abstract readonly scalars: readonly string[];
  /** resolves after the initial values were written. Await it before you capture an update */
  readonly ready: Promise<void>;
  /** random tensors of a minibatch, in the order in which the update draws them */
  readonly draws: readonly Draw[];
  readonly #written: DeviceEvent;
  /** generator of random numbers, undefined if the learner draws none */
  readonly #generator: DeviceGenerator | undefined;
  readonly #cycle: readonly number[];
  readonly #read: (batch: object) => { columns: Columns; rows: number };
  readonly #check: ((stream: Stream, minibatches: number) => void) | undefined;
  readonly #wrongActions: ReturnType<typeof loadedActionsCheck> | undefined;
  #phase: number;
  #settled = false;
  #warned!: () => void;
  #work!: LearnerHooks;
  #watch: Watch | undefined;
  #minibatches = 1;

  static {
    installHooks = (learner, work) => {
      learner.#work = work;
      learner.device.currentStream.record(learner.#written);
      learner.#warned();
    };
    generatorOf = (learner) => learner.#generator;
    setPhase = (learner, phase) => {
      learner.#phase = phase;
    };
  }

  protected constructor(
    what: string,
    device: Device,
    how: {
      batchSize: number;
      /** checks a batch with its weights and priorities, and returns its columns */
      read: (batch: object) => { columns: Readonly<Record<string, Floats>>; rows: number };
      /** throws if an update cannot have this number of minibatches */
      check?: (stream: Stream, minibatches: number) => void;
      /**
       * returns why element `j` of an action lies outside the learner's action space, or undefined
       * if it lies within. Default: actions are not checked
       */
      explainOutside?: (value: number, j: number) => string | undefined;
      draws?: readonly Draw[];
      /**
       * periods in steps. The number of minibatches of a captured update must be a multiple of each
       */
      every?: readonly number[];
      firstUpdate?: number;
      seed: number;
      settings: LearnerSettings;
    },
  ) {
    super('this learner');
    this.kind = what;
    this.device = checkDevice(what, device);
    this.batchSize = checkCount('batchSize', how.batchSize);
    this.draws = Object.freeze(how.draws ?? []);
    this.#cycle = how.every ?? [];
    this.#phase = checkCount('firstUpdate', how.firstUpdate ?? 0, 0);
    this.#read = how.read;
    this.#check = how.check;
    this.#wrongActions = how.explainOutside && loadedActionsCheck(how.explainOutside);
    this.settings = Object.freeze({
      batchSize: this.batchSize,
      ...withSavedNames(how.settings),
      // Learners in float32 have no such entry, as in checkpoints of versions without TF32.
      ...(device.traits.products === 'tf32' && { products: 'tf32' }),
    });
    using construction = guardConstruction(this);
    this.#generator = how.draws
      ? own(this, new DeviceGenerator(device, { seed: how.seed }))
      : undefined;
    this.#written = own(this, device.createEvent());
    construction.done();
    this.ready = new Promise<void>((resolve) => {
      this.#warned = resolve;
    })
      .then(() => this.#written.done())
      .then(() => {
        this.#settled = true;
      });
    // An await of `ready` and the first update both throw this failure. This handler prevents an
    // unhandled rejection if the program does not await `ready`.
    this.ready.catch(() => {});
  }

  /**
   * Enqueues K = rows / batchSize steps on consecutive minibatches, and writes the means of their
   * scalars. It only launches kernels and allocates nothing, so it may be captured after `ready`
   * has resolved. Emits one `LearnerWarning` if the batch's buffer was loaded with an action
   * outside of this learner's action space.
   *
   * @param batch tensors by name, such as a pipeline's batch. See Rows
   * @param out contiguous float32 that receives the means over the K steps, at least as long as
   *   `scalars`
   * @param options `weights`, `priorities`, `draws` and `record`, each optional
   * @throws {TypeError} for a field that is missing or of another dtype, or for `discounts` if the
   *   learner was given `gamma`
   * @throws {RangeError} for other shapes, or if the number of minibatches of a captured update is
   *   not a multiple of actorEvery and of targetEvery
   * @throws {ERR_HOTSLOT_STATE_CAPTURE} inside a capture if `ready` has not resolved
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   */
  update(stream: Stream, batch: object, out: Floats, options: UpdateOptions = {}): void {
    checkOpen(this);
    checkStream('update', stream);
    checkKeys('update', options, ['weights', 'priorities', 'draws', 'record']);
    const { weights, priorities, draws = {}, record = {} } = options;
    const whole = { ...batch, ...(weights && { weights }), ...(priorities && { priorities }) };
    const { columns, rows } = this.#read(whole);
    this.#settle(stream);
    const count = rows / this.batchSize;
    this.#minibatches = count;
    const scalars = scalarsOf(out, this.scalars);
    const names = this.draws.map(({ name }) => name);
    checkDraws(draws, names, (name) => count * this.#sizeOf(name));
    checkRecords(record, this.#work.events);
    const wrong = this.#wrongActions?.((whole as { actions?: Tensor }).actions);
    if (wrong !== undefined)
      learnerWarning(`${this.kind}: ${wrong}. load() rejects such rows if it is given actionSpace`);
    this.#check?.(stream, count);
    if (stream.capturing)
      for (const every of this.#cycle)
        if (count % every !== 0)
          throw rangeError(
            `a captured update must hold whole cycles: ${count} minibatches are not a multiple of ${every} (actorEvery, targetEvery)`,
          );
    const watch = this.#watch;
    const look = watch && ((event: string) => lookAt(watch, stream, event));
    for (let k = 0; k < count; k++) {
      const start = k * this.batchSize;
      this.#work.step(stream, sliced(columns, start, this.batchSize), {
        phase: stream.capturing ? k : this.#phase++,
        minibatch: k,
        given: (name) => draws[name] && this.#part(draws[name], name, k),
        record: (event, made) => {
          if (record[event]) recordEvent(stream, record[event], made());
        },
        records: Object.keys(record).length > 0,
        look,
      });
      this.#work.report(stream, scalars, 1 / count, k === 0);
    }
  }

  /**
   * Describes the launches of the gradients of an update on one minibatch, as a table for people. The
   * steps of the optimizers and the report follow them.
   */
  get plan(): PlanSummary {
    return this.#work.plan;
  }

  /**
   * Checks the passes and gradients of later steps on the device for NaN and infinity. The watch
   * does not check graphs that were captured before this call. The learner's close() also closes
   * the watch. A second call replaces the watch with a new one.
   *
   * @param options `every`: gradient steps from one check to the next, default 1
   * @returns the watch, whose first() returns the first finding with update, network and layer
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_STATE_CAPTURE} inside a capture
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   * @example
   * const watch = learner.watch();
   * learner.update(stream, batch, out);
   * console.log((await watch.first())?.text ?? 'all is finite');
   */
  watch(options: { every?: number } = {}): Watch {
    checkOpen(this);
    checkKeys('watch', options, ['every']);
    const every = checkCount('every', options.every ?? 1, 1, 2 ** 31 - 1);
    if (this.device.currentStream.capturing)
      throw stateError(
        'CAPTURE',
        'watch() allocates device memory, which a capture cannot contain; call watch() before capture()',
      );
    this.#watch = own(
      this,
      new Watch(this.device, every, this.#work.watched(), () => this.#minibatches),
    );
    return this.#watch;
  }

  /**
   * Reads back from the device all values on which later updates depend, after all work on the
   * current stream.
   *
   * @returns arrays by name, with torch's names and layouts of parameters
   * @throws {DeviceError} if the stream has failed
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   */
  async state(): Promise<LearnerState> {
    checkOpen(this);
    const stream = this.device.currentStream;
    this.#settle(stream);
    return readState(this.#parts(), stream);
  }

  /**
   * Writes a saved state to the learner, in order of the current stream. Emits a `LearnerWarning`
   * if optimizer options differ from the saved ones. docs/reference/checkpoint.md says which
   * options apply.
   *
   * @param record a result of state()
   * @throws {TypeError} if a dtype differs, or if `record` is not a state. The learner is then
   *   unchanged
   * @throws {RangeError} if a name, shape or value differs. The learner is then unchanged
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   * @example
   * second.loadState(await first.state());
   */
  loadState(record: LearnerState): void {
    checkOpen(this);
    const stream = this.device.currentStream;
    this.#settle(stream);
    writeState(this.kind, this.#parts(), record, stream);
    this.#work.restored?.(stream);
  }

  #parts(): [string, Part][] {
    const updates: Part = {
      dtype: 'float64',
      size: 1,
      check: ([phase]) => checkCount('updates', phase, 0),
      read: async () => Float64Array.of(this.#phase),
      write: ([phase]) => {
        this.#phase = phase as number;
      },
    };
    const generator: [string, Part][] = this.#generator
      ? [['generator', generatorPart(this.#generator)]]
      : [];
    const own = this.#work.parts();
    const counts = own.some(([name]) => name === 'updates');
    return [...own, ...(counts ? [] : [['updates', updates] as [string, Part]]), ...generator];
  }

  /** Returns the number of elements of a draw. */
  #sizeOf(name: string): number {
    const draw = this.draws.find((each) => each.name === name);
    if (!draw) throw stateError('EMPTY', `${this.kind} draws no '${name}'`);
    return elementCount(draw.shape);
  }
  /** Returns the part of given numbers that belongs to minibatch k. */
  #part(given: Floats, name: string, k: number): Floats {
    const { shape } = this.draws.find((each) => each.name === name) as Draw;
    return given.view({ shape: [...shape], offset: k * this.#sizeOf(name) });
  }

  /**
   * Makes `stream` wait for the writes of the initial values, which may be on another stream.
   * Throws inside a capture, because a capture can neither query an event nor wait.
   */
  #settle(stream: Stream): void {
    if (this.#settled) return;
    if (stream.capturing)
      throw stateError('CAPTURE', 'await learner.ready before capturing an update');
    if (this.#written.query()) this.#settled = true;
    else stream.wait(this.#written);
  }
}

function recordEvent(stream: Stream, wanted: EventRecord, of: LossRecord): void {
  if (wanted.loss) stream.copy(wanted.loss, of.loss);
  if (wanted.norm) of.optimizer.norm(stream, of.gradient, wanted.norm);
  if (wanted.gradient) stream.copy(wanted.gradient, of.gradient);
}
