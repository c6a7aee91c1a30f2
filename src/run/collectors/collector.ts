/**
 * The interface of a user's module: a factory, and the collector that it makes. Both are plain
 * objects, and the pool decides the thread.
 */
import { describeValue } from '../../base/checks.ts';
import type { DType } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import type { StepFields, Steps } from '../../store/lanes/schema.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';

/**
 * The result of one collect(): rows to add, or for a TrajectoryBuffer one step of each lane of the
 * writer. Null if it collected nothing, or has added the rows itself.
 */
export type Collected<R extends object = object> = R | null;

/** Steps environments, and returns the rows or steps that they produced. */
export interface Collector<R extends object = object> {
  /**
   * Steps every environment once and returns the rows to add. It may return a promise of them, for
   * environments in a child process, in a browser or at the other end of a socket. The arrays stay
   * the collector's own. They are read until the buffer has taken them, and only then is collect()
   * called again.
   *
   * @returns rows as the buffer's add() accepts them, or steps as the writer's add() does. Null
   *   without rows, or if the collector has added them itself
   */
  collect(): Collected<R> | Promise<Collected<R>>;
  /**
   * Returns everything needed to resume, such as environments and generators. The result is
   * anything that structured cloning takes, or a promise of it. It is called between two collect()
   * when a checkpoint is taken. A resumed run passes the state to the factory as `context.state`.
   * Without state() a resumed collector begins other episodes.
   */
  state?(): unknown;
  /**
   * Receives a newer version of the learner's weights, before the next collect().
   *
   * @param weights float32, reused for later versions: copy what must last
   * @param version from 1
   */
  load?(weights: Float32Array, version: number): void;
  /**
   * Closes the environments. It is called once, when the pool stops, even while a promise of
   * collect() is still pending. The writer still writes then.
   */
  close?(): void | Promise<void>;
}

/**
 * The arguments of a factory. `O` is the type of its options. `W` is the type of its writer, if the
 * pool's buffer is known.
 */
export interface CollectorContext<
  O = unknown,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> {
  /** number of this worker, 0 to workers − 1 */
  readonly worker: number;
  /** number of workers of the pool */
  readonly workers: number;
  /** the pool's seed, from which a collector derives its own with `worker` */
  readonly seed: number;
  /** number of times that the pool's `restart` has recreated this worker's collector */
  readonly restarts: number;
  /** environment steps that this worker had reported before the collector was made */
  readonly stepsBefore: number;
  /** the result of this worker's state() when the run was saved, undefined in a new one */
  readonly state?: unknown;
  /** the pool's `options`, cloned */
  readonly options: O;
  /**
   * for a TrajectoryBuffer: the writer of this collector's lanes, `writer.lanes` of them from
   * `writer.firstLane` on. The pool adds the result of collect() through it, and closes it. Null
   * for a ReplayBuffer
   */
  readonly writer: W;
  /** the fields of the pool's buffer, by the names of collect()'s columns */
  readonly fields: Readonly<Record<string, BufferField>>;
  /** counts that the pool reads */
  readonly report: CollectorReport;
}

/** A field of a buffer. */
export interface BufferField {
  readonly dtype: DType;
  /** shape of one row or step */
  readonly shape: readonly number[];
}

/** Counts of a collector, in shared memory. The opener reads them without a message. */
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
 * Makes a collector: the type of the default export of a collector's module. A promise is awaited
 * before the first collect().
 */
export type CollectorFactory<
  O = unknown,
  R extends object = object,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> = (context: CollectorContext<O, W>) => Collector<R> | Promise<Collector<R>>;

/** A factory whose row type is inferred from its result. */
type DefineRows<O> = <R extends object>(factory: CollectorFactory<O, R>) => CollectorFactory<O, R>;
/** A factory that must return steps of these fields. */
type DefineSteps<O, S extends StepFields> = (
  factory: CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>,
) => CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>;

/**
 * Types a collector's factory for TypeScript: `context.options` and the rows. It returns the
 * factory unchanged. `CollectorPool.open<typeof collector>()` then requires these options, and a
 * buffer that takes such rows.
 *
 * @throws {TypeError} if the returned function is given anything but a function
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

/** A factory of any type. */
// biome-ignore lint/suspicious/noExplicitAny: options and rows of any type
export type AnyCollector = CollectorFactory<any, any, any>;
