/** Turns the pipeline's `tick` events into an async iterator with a bounded queue. */
import type { EventEmitter } from 'eventemitter3';
import type { PipelineError } from '../../base/errors.ts';
import type { PipelineEvents, Tick } from './history.ts';

/**
 * The result for which a reader waits: a tick, or the end. If the pipeline fails, the reader's
 * promise rejects instead.
 */
type Next = IteratorResult<Tick, undefined>;

export function tickStream(
  pipeline: EventEmitter<PipelineEvents>,
  most: number,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<Tick> {
  const queue: Tick[] = [];
  const asking: { resolve: (next: Next) => void; reject: (error: unknown) => void }[] = [];
  let over = false;
  let failed: { error: unknown } | null = null;

  const onTick = (tick: Tick) => {
    const reader = asking.shift();
    if (reader) reader.resolve({ done: false, value: tick });
    else queue.push(tick);
    if (queue.length <= most) return;
    queue.shift();
    pipeline.emit('missed', 1);
  };
  const stop = () => {
    over = true;
    pipeline.off('tick', onTick).off('error', fail).off('close', stop);
    signal?.removeEventListener('abort', abort);
    for (const reader of asking.splice(0)) reader.resolve({ done: true, value: undefined });
  };
  const end = (error: unknown) => {
    const [reader] = asking.splice(0, 1);
    if (reader) reader.reject(error);
    else failed = { error };
    stop();
  };
  const fail = (error: PipelineError) => end(error);
  const abort = () => end(signal?.reason);

  pipeline.on('tick', onTick).on('error', fail).on('close', stop);
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();

  return {
    next: async () => {
      const value = queue.shift();
      if (value) return { done: false, value };
      if (failed) {
        const { error } = failed;
        failed = null;
        throw error;
      }
      if (over) return { done: true, value: undefined };
      return new Promise<Next>((resolve, reject) => asking.push({ resolve, reject }));
    },
    return: async () => {
      queue.length = 0;
      stop();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
