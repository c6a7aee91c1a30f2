/**
 * Feeders that bring rows into a buffer from other machines, as far as this thread opened them.
 * They say what keeps such rows from coming, and give traces the spans of their threads. They are
 * found by the buffer's memory, which is the same wherever the buffer is attached.
 */
import type { Spans } from './spans.ts';

export interface Feeder {
  /** null if there is nothing to say */
  waitingFor(): string | null;
  /** of each of its threads */
  readonly spans: readonly Spans[];
}

const feeders = new WeakMap<SharedArrayBuffer, Set<Feeder>>();

/** Adds a feeder from now on, until the returned function is called. */
export function feed(memory: SharedArrayBuffer, feeder: Feeder): () => void {
  const all = feeders.get(memory) ?? new Set();
  feeders.set(memory, all.add(feeder));
  return () => void all.delete(feeder);
}

export const feedersOf = (memory: SharedArrayBuffer): Iterable<Feeder> => feeders.get(memory) ?? [];

/** Says in words what all of them wait for, null if nobody feeds it. */
export function fedBy(memory: SharedArrayBuffer): string | null {
  const words = [...feedersOf(memory)]
    .map((feeder) => feeder.waitingFor())
    .filter((each) => each !== null);
  return words.length > 0 ? words.join('; ') : null;
}
