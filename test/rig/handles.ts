/** What the process has open and pinned on its devices: a test leaves as much as it found. */
import { HandleKind, native } from '../../src/device/native.ts';

/** Open handles by kind. */
export function openHandles(): Record<string, number> {
  return Object.fromEntries(Object.entries(HandleKind).map(([name, kind]) => [name, native().handleCount(kind).open]));
}

/** Open handles that an actor or a backend pins. */
export function pinnedHandles(): number {
  return Object.values(HandleKind).reduce<number>((sum, kind) => sum + native().handleCount(kind).pinned, 0);
}
