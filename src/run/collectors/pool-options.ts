/** What CollectorPool.open takes, as TypeScript knows it. */

import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { AnyCollector, Collector, CollectorFactory } from './collector.ts';

/** `C`: the type of the default export of the collectors' module, where that is known. */
export type CollectorPoolOptions<C extends AnyCollector = CollectorFactory> = PoolOptions<
  BufferFor<RowsFrom<C>, Parameters<C>[0]['writer']>
> &
  OptionsFor<Parameters<C>[0]['options']>;

interface PoolOptions<B> {
  /** module whose default export is a CollectorFactory */
  entry: URL;
  /**
   * where they add: rows, or steps of the lanes, which the workers share out among them in order
   */
  buffer: B;
  /** where the learner's weights come from */
  mailbox?: WeightMailbox;
  /** threads; 1 by default */
  workers?: number;
  /** 0 by default */
  seed?: number;
  /** how many collectors that fail may be made anew before the pool fails; 0 by default */
  restart?: number;
  /** what Checkpoint.restore() gave as `collectors`: as many workers go on from there */
  resume?: unknown;
  /** ends opening, while collectors are still being made: open() rejects with its reason */
  signal?: AbortSignal;
}

/**
 * Handed to every collector; must survive structured cloning. May be left out where collectors do
 * without.
 */
type OptionsFor<O> = undefined extends O ? { options?: O } : { options: O };
type RowsFrom<C extends AnyCollector> =
  Awaited<ReturnType<C>> extends Collector<infer R> ? R : object;
/**
 * A buffer that takes such rows, or such steps; only the latter where the collectors want a writer.
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
