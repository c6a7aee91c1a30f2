/**
 * The feeders that this thread has opened. A feeder brings rows of other machines into a buffer. It
 * reports why no rows arrive, and gives traces the time spans of its threads. It is found by the
 * buffer's memory, which is the same for every object that attaches the buffer.
 */
import type { Spans } from './spans.ts';

export interface Feeder {
  /** returns as text why no rows come, or null if it waits for nothing */
  waitingFor(): string | null;
  /** the spans of each of its threads */
  readonly spans: readonly Spans[];
}

const feeders = new WeakMap<SharedArrayBuffer, Set<Feeder>>();

/** Registers a feeder. The returned function removes it. */
export function feed(memory: SharedArrayBuffer, feeder: Feeder): () => void {
  const all = feeders.get(memory) ?? new Set();
  feeders.set(memory, all.add(feeder));
  return () => void all.delete(feeder);
}

export const feedersOf = (memory: SharedArrayBuffer): Iterable<Feeder> => feeders.get(memory) ?? [];

/** Returns as text what the buffer's feeders wait for, or null if no feeder waits. */
export function fedBy(memory: SharedArrayBuffer): string | null {
  const words = [...feedersOf(memory)]
    .map((feeder) => feeder.waitingFor())
    .filter((each) => each !== null);
  return words.length > 0 ? words.join('; ') : null;
}
