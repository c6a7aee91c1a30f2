/**
 * Marks errors that a restart of the collector cannot mend, because the user's policy caused them.
 * Then the pool fails, although its `restart` allows restarts.
 */

const marked = new WeakSet<object>();
/** Most errors of a chain of causes that are looked at. The chain may contain a cycle. */
const MAX_CAUSES = 8;

/** Marks an error, and returns it. */
export function neverRestarted<E extends Error>(error: E): E {
  marked.add(error);
  return error;
}

/** Returns whether the error, or one of its causes, is marked. */
export function isNeverRestarted(error: unknown): boolean {
  for (let i = 0, at = error; i < MAX_CAUSES && typeof at === 'object' && at !== null; i++) {
    if (marked.has(at)) return true;
    at = (at as Error).cause;
  }
  return false;
}
