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

/** A collector steps its environments and returns what they produced. */
export interface Collector<R extends object = object> {
  /**
   * Steps every environment once and returns the rows to add. Returns a promise of them for
   * environments in a child process, in a browser or at the other end of a socket. The arrays stay
   * the collector's own: they are read until the buffer took them, and only then is collect()
   * called again.
   */
  collect(): Collected<R> | Promise<Collected<R>>;
  /**
   * Returns everything needed to resume, such as its environments and generators: anything that
   * structured cloning takes, or a promise of it. Called between two collect() when a checkpoint is
   * taken. A resumed run passes it to the factory as `context.state`. Without it a resumed
   * collector begins other episodes.
   */
  state?(): unknown;
  /**
   * Gets a newer version of the learner's weights, before the next collect(). The array is reused:
   * copy what must last.
   */
  load?(weights: Float32Array, version: number): void;
  /**
   * Called once, when the pool stops, even while a promise of collect() is still pending. The
   * writer still writes then.
   */
  close?(): void | Promise<void>;
}

/** The arguments of a factory. `W`: the type of its writer, if the pool's buffer is known. */
export interface CollectorContext<
  O = unknown,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> {
  /** 0 … workers − 1 */
  readonly worker: number;
  readonly workers: number;
  /** the pool's seed, from which a collector derives its own with `worker` */
  readonly seed: number;
  /** how often the pool's `restart` has made this worker's collector anew, 0 at first */
  readonly restarts: number;
  /** environment steps that this worker had reported before it was made */
  readonly stepsBefore: number;
  /** the result of this worker's state() when the run was saved, undefined in a new one */
  readonly state?: unknown;
  /** the pool's `options`, cloned */
  readonly options: O;
  /**
   * For a TrajectoryBuffer: the writer of this collector's lanes, `writer.lanes` of them from
   * `writer.firstLane` on. The pool adds the result of collect() through it, and closes it. null
   * for a ReplayBuffer.
   */
  readonly writer: W;
  /** the fields of the pool's buffer, by the names of collect()'s columns */
  readonly fields: Readonly<Record<string, BufferField>>;
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
  /** environment steps done since the last call */
  steps(count: number): void;
  /** an episode ended, with its number of environment steps if it is known */
  episode(episodeReturn: number, length?: number): void;
}

/**
 * The default export of a collector's module. May be async: it is awaited before the first
 * collect().
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
 * For TypeScript: `export default defineCollector<Options>()((context) => …)` types
 * `context.options` and the rows. `CollectorPool.open<typeof collector>()` then requires those
 * options and a buffer that takes such rows. With the fields of a TrajectoryBuffer,
 * `defineCollector<Options, typeof fields>()`, `context.writer` is defined and collect() must
 * return steps of them. Returns the factory.
 */
export function defineCollector<O = unknown>(): DefineRows<O>;
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
