/** What the process has open and pinned on its devices: a test leaves as much as it found. */
import { nativeHandles } from '../../src/device/native.ts';

/** Open handles by kind. */
export function openHandles(): Record<string, number> {
  return Object.fromEntries(
    Object.entries(nativeHandles().kinds).map(([name, kind]) => [
      name,
      nativeHandles().handleCount(kind).open,
    ]),
  );
}

/** Open handles that an actor or a backend pins. */
export function pinnedHandles(): number {
  return Object.values(nativeHandles().kinds).reduce(
    (sum, kind) => sum + nativeHandles().handleCount(kind).pinned,
    0,
  );
}
