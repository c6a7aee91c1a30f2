/**
 * Counts what the process has open and pinned on its devices. A test must leave as much as there
 * was before.
 */
import { nativeHandles } from '../../src/device/native.ts';

/** Returns the number of open handles by kind. */
export function openHandles(): Record<string, number> {
  return Object.fromEntries(
    Object.entries(nativeHandles().kinds).map(([name, kind]) => [
      name,
      nativeHandles().handleCount(kind).open,
    ]),
  );
}

/** Returns the number of open handles that an actor or a backend pins. */
export function pinnedHandles(): number {
  return Object.values(nativeHandles().kinds).reduce(
    (sum, kind) => sum + nativeHandles().handleCount(kind).pinned,
    0,
  );
}
