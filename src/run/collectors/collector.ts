/**
 * The interface of a user's collector module: a factory, and the collector that it creates. Both
 * are plain objects. The pool decides in which thread they run.
 */
import { describeValue } from '../../base/checks.ts';
import type { DType } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import type { StepFields, Steps } from '../../store/lanes/schema.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';

/**
 * The result of one collect(): rows to add, or for a TrajectoryBuffer one step of each lane of the
 * writer. Null if collect() produced no rows, or has added them itself.
 */
export type Collected<R extends object = object> = R | null;

/** Steps environments, and returns the rows or steps that they produced. */
export interface Collector<R extends object = object> {
  /**
   * Steps every environment once and returns the rows to add. It may return a promise of the rows,
   * for environments in a child process, in a browser or at the other end of a socket. The arrays
   * belong to the collector. The pool reads them until the buffer has accepted the rows, and only
   * then calls collect() again.
   *
   * @returns rows as the buffer's add() accepts them, or steps as the writer's add() does. Null if
   *   it collected no rows, or if the collector has added them itself
   */
  collect(): Collected<R> | Promise<Collected<R>>;
  /**
   * Returns everything that the collector needs to resume, such as the states of its environments
   * and generators. The result is any value that structured cloning supports, or a promise of one.
   * The pool calls state() between two calls of collect() when a checkpoint is taken. A resumed run
   * passes the state to the factory as `context.state`. Without state() a resumed collector begins
   * new episodes.
   */
  state?(): unknown;
  /**
   * Receives a newer version of the learner's weights, before the next collect().
   *
   * @param weights float32. The array is reused for later versions, so copy values that you keep
   * @param version the version of the weights, from 1
   */
  load?(weights: Float32Array, version: number): void;
  /**
   * Closes the environments. The pool calls it once, when the pool stops, even while a promise of
   * collect() is pending. The writer can still write at that time.
   */
  close?(): void | Promise<void>;
}

/**
 * The arguments of a factory. `O` is the type of its options. `W` is the type of its writer, if the
 * type of the pool's buffer is known.
 */
export interface CollectorContext<
  O = unknown,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> {
  /** number of this worker, 0 to workers − 1 */
  readonly worker: number;
  /** number of workers of the pool */
  readonly workers: number;
  /** the pool's seed. A collector derives its own seed from it and from `worker` */
  readonly seed: number;
  /** number of times that the pool's `restart` has recreated this worker's collector */
  readonly restarts: number;
  /** environment steps that this worker had reported before this collector was created */
  readonly stepsBefore: number;
  /** the result of this worker's state() when the run was saved, undefined in a new run */
  readonly state?: unknown;
  /** a clone of the pool's `options` */
  readonly options: O;
  /**
   * for a TrajectoryBuffer, the writer of this collector's lanes: `writer.lanes` lanes from
   * `writer.firstLane` on. The pool adds the result of collect() by this writer, and closes it.
   * Null for a ReplayBuffer
   */
  readonly writer: W;
  /** the fields of the pool's buffer, by the names of the columns that collect() returns */
  readonly fields: Readonly<Record<string, BufferField>>;
  /** object to which the collector reports its counts */
  readonly report: CollectorReport;
}

/** A field of a buffer. */
export interface BufferField {
  readonly dtype: DType;
  /** shape of one row or step */
  readonly shape: readonly number[];
  /**
   * number of actions, only for a field that stores action masks as bits. Its column is a
   * Uint8Array of rows × mask bytes of 0 and 1
   */
  readonly mask?: number | undefined;
  /** whether a field of a TrajectoryBuffer is an observation, undefined for a ReplayBuffer */
  readonly observation?: boolean | undefined;
}

/**
 * Receives the counts of a collector. They are in shared memory, so that the opener reads them
 * without a message.
 */
export interface CollectorReport {
  /** Adds environment steps to the count. */
  steps(count: number): void;
  /**
   * Reports an episode that has ended.
   *
   * @param episodeReturn the sum of its rewards
   * @param length its environment steps, default: unknown
   */
  episode(episodeReturn: number, length?: number): void;
}

/**
 * Creates a collector. A collector's module has such a function as its default export. If it
 * returns a promise, the pool awaits the promise before the first collect().
 */
export type CollectorFactory<
  O = unknown,
  R extends object = object,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> = (context: CollectorContext<O, W>) => Collector<R> | Promise<Collector<R>>;

/** Returns a factory unchanged, and infers its row type from its result. */
type DefineRows<O> = <R extends object>(factory: CollectorFactory<O, R>) => CollectorFactory<O, R>;
/** Returns a factory unchanged, which must return steps of these fields. */
type DefineSteps<O, S extends StepFields> = (
  factory: CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>,
) => CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>;

/**
 * Gives a collector's factory its TypeScript types, `context.options` and the rows. It returns the
 * factory unchanged. `CollectorPool.open<typeof collector>()` then requires these options, and a
 * buffer that accepts such rows.
 *
 * @throws {TypeError} if the returned function is called with anything but a function
 * @example
 * export default defineCollector<{ environments: number }>()(({ options, report }) =>
 *   makeCollector(options.environments, report),
 * );
 */
export function defineCollector<O = unknown>(): DefineRows<O>;
/**
 * Types a factory for a TrajectoryBuffer with fields `S`. `context.writer` is defined, and
 * collect() must return steps of these fields.
 */
export function defineCollector<O, S extends StepFields>(): DefineSteps<O, S>;
export function defineCollector(): <F>(factory: F) => F {
  return (factory) => {
    if (typeof factory !== 'function')
      throw typeError(
        `defineCollector()() takes a function that makes a collector, got ${describeValue(factory)}`,
      );
    return factory;
  };
}

/** A collector factory of any type. */
// biome-ignore lint/suspicious/noExplicitAny: options and rows of any type
export type AnyCollector = CollectorFactory<any, any, any>;
