/**
 * Who brings rows into a buffer from other machines, as far as this thread opened it: what keeps
 * such rows from coming, in words, and what the threads that bring them did, for traces. By the
 * buffer's memory, which is the same wherever the buffer is attached.
 */
import type { Spans } from './spans.ts';

export interface Feeder {
  /** null where there is nothing to say */
  waitingFor(): string | null;
  /** of each of its threads */
  readonly spans: readonly Spans[];
}

const feeders = new WeakMap<SharedArrayBuffer, Set<Feeder>>();

/** From now on, until the function is called that comes back. */
export function feed(memory: SharedArrayBuffer, feeder: Feeder): () => void {
  const all = feeders.get(memory) ?? new Set();
  feeders.set(memory, all.add(feeder));
  return () => void all.delete(feeder);
}

export const feedersOf = (memory: SharedArrayBuffer): Iterable<Feeder> => feeders.get(memory) ?? [];

/** All of them, in words; null where nobody feeds it. */
export function fedBy(memory: SharedArrayBuffer): string | null {
  const words = [...feedersOf(memory)]
    .map((feeder) => feeder.waitingFor())
    .filter((each) => each !== null);
  return words.length > 0 ? words.join('; ') : null;
}
