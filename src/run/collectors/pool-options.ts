/** The options of CollectorPool.open, with their types. */

import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { AnyCollector, Collector, CollectorFactory } from './collector.ts';

/**
 * Options of CollectorPool.open(). `C` is the type of the default export of the collectors' module,
 * if that type is known.
 */
export type CollectorPoolOptions<C extends AnyCollector = CollectorFactory> = PoolOptions<
  BufferFor<RowsFrom<C>, Parameters<C>[0]['writer']>
> &
  OptionsFor<Parameters<C>[0]['options']>;

interface PoolOptions<B> {
  /** URL of a module whose default export is a CollectorFactory */
  entry: URL;
  /**
   * buffer that receives the rows or the steps. The workers divide the lanes of a TrajectoryBuffer
   * among them in order
   */
  buffer: B;
  /** mailbox with the learner's weights, default: none */
  mailbox?: WeightMailbox;
  /** threads, 1 to 64, and for a TrajectoryBuffer at most its lanes, default 1 */
  workers?: number;
  /** seed that every factory receives, a whole number of at least 0, default 0 */
  seed?: number;
  /**
   * number of times that failed collectors are recreated before the pool fails, default 0. An
   * illegal action of the policy fails the pool at once
   */
  restart?: number;
  /**
   * the `collectors` of Checkpoint.restore(), from which the workers resume. The number of workers
   * must be that of the saved pool
   */
  resume?: unknown;
  /** signal that ends opening: open() rejects with its reason, default: none */
  signal?: AbortSignal;
}

/**
 * Type of the value that every collector receives. Structured cloning must support the value. It is
 * optional if the collectors do not need it.
 */
type OptionsFor<O> = undefined extends O ? { options?: O } : { options: O };
type RowsFrom<C extends AnyCollector> =
  Awaited<ReturnType<C>> extends Collector<infer R> ? R : object;
/**
 * A buffer that accepts these rows or steps. If the collectors require a writer, only a
 * TrajectoryBuffer does.
 */
type BufferFor<R extends object, W> =
  | (null extends W ? RowsBufferFor<R> : never)
  | StepsBufferFor<R>;
type RowsBufferFor<R extends object> = object extends R
  ? ReplayBuffer
  : ReplayBuffer & { readonly add: (rows: R) => number };
type StepsBufferFor<R extends object> = object extends R
  ? TrajectoryBuffer
  : TrajectoryBuffer & {
      readonly writer: (options: { lanes: number }) => { readonly add: (step: R) => number };
    };
