/**
 * What a user's module hands to the pool: a factory, and the collector it makes. Plain objects; the
 * pool decides the thread.
 */
import { describeValue } from '../../base/checks.ts';
import type { DType } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import type { StepFields, Steps } from '../../store/lanes/schema.ts';
import type { TrajectoryWriter } from '../../store/lanes/trajectory-writer.ts';

/**
 * What one collect() brings: rows to add, for a TrajectoryBuffer one step of each lane of the
 * writer; null when there are none this time, or the collector added them itself.
 */
export type Collected<R extends object = object> = R | null;

/** A collector steps its environments and hands out what they saw. */
export interface Collector<R extends object = object> {
  /**
   * Steps every environment once and returns the rows to add, or a promise of them for environments
   * behind a socket, a child process or a browser. The arrays stay the collector's own: they are
   * read until the buffer took them, and only then collect() is called again.
   */
  collect(): Collected<R> | Promise<Collected<R>>;
  /**
   * Everything that it goes on from, such as its environments and generators: what structured
   * cloning takes, or a promise of it. Asked for between two collect() when a checkpoint is taken;
   * a run that goes on from there hands it to the factory as `context.state`. Without it a
   * collector that goes on begins other episodes.
   */
  state?(): unknown;
  /**
   * A newer version of the learner's weights, before the next collect(). The array is reused: copy
   * what must last.
   */
  load?(weights: Float32Array, version: number): void;
  /**
   * Called once, when the pool stops; also while a promise of collect() is still open. The writer
   * still writes then.
   */
  close?(): void | Promise<void>;
}

/**
 * What a collector is told when it is made. `W`: its writer, where it is known what the pool writes
 * to.
 */
export interface CollectorContext<
  O = unknown,
  W extends TrajectoryWriter | null = TrajectoryWriter | null,
> {
  /** 0 … workers − 1 */
  readonly worker: number;
  readonly workers: number;
  /** the pool's seed; a collector derives its own from it and `worker` */
  readonly seed: number;
  /** how often the pool's `restart` has made this worker's collector anew; 0 at first */
  readonly restarts: number;
  /** environment steps that this worker had reported before it was made */
  readonly stepsBefore: number;
  /**
   * what this worker's collector said by its state() when the run was saved; undefined in a new one
   */
  readonly state?: unknown;
  /** what the pool was opened with, cloned */
  readonly options: O;
  /**
   * For a TrajectoryBuffer: the pen of this collector's lanes, `writer.lanes` of them from
   * `writer.firstLane` on. The pool adds what collect() returns through it, and closes it. null for
   * a ReplayBuffer.
   */
  readonly writer: W;
  /** what the pool's buffer stores, by the names that collect() gives columns by */
  readonly fields: Readonly<Record<string, BufferField>>;
  readonly report: CollectorReport;
}

/** A field of a buffer. */
export interface BufferField {
  readonly dtype: DType;
  /** of one row's, or step's */
  readonly shape: readonly number[];
}

/** Where a collector counts, in shared memory; the opener reads it without a message. */
export interface CollectorReport {
  /** environment steps done since the last call */
  steps(count: number): void;
  /** an episode ended, after so many steps of its environment where that is told */
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

/** A factory whose rows are told from what it returns. */
type DefineRows<O> = <R extends object>(factory: CollectorFactory<O, R>) => CollectorFactory<O, R>;
/** A factory that has to bring steps of these fields. */
type DefineSteps<O, S extends StepFields> = (
  factory: CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>,
) => CollectorFactory<O, Steps<S>, TrajectoryWriter<S>>;

/**
 * For TypeScript: `export default defineCollector<Options>()((context) => …)` types
 * `context.options` and the rows, and `CollectorPool.open<typeof collector>()` then wants those
 * options, and a buffer that takes such rows. With the fields of a TrajectoryBuffer,
 * `defineCollector<Options, typeof fields>()`, `context.writer` is there and what collect() returns
 * has to be steps of them. Gives the factory back.
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

/** A factory of which nothing is known. */
// biome-ignore lint/suspicious/noExplicitAny: options and rows of any type
export type AnyCollector = CollectorFactory<any, any, any>;
