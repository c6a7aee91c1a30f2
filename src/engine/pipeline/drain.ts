/** Waits for the device's work on a pipeline's slots when the pipeline closes. */
import { ThreadEnding } from '../../base/addon.ts';
import { nativeEvents } from '../../device/native.ts';
import { Deadline } from '../../shm/wait.ts';
import type { Ring } from '../ring/ring.ts';
import { SlotState } from '../ring/slot.ts';
import type { Slots } from './slots.ts';

/**
 * Waits up to `ms` milliseconds for work that may use the slots. Returns true if the work is over,
 * and false if it still runs after that time. Work that failed with a sticky error counts as over.
 */
export async function drained(slots: Slots, ring: Ring, ms: number): Promise<boolean> {
  const { compute, device, spent, last } = slots;
  const deadline = new Deadline(ms);
  const replaying = spent.filter((_, slot) => ring.state(slot) === SlotState.Replaying);
  try {
    compute.record(last);
  } catch {
    return true;
  }
  for (const event of [...replaying, last]) {
    while (!doneOrFailed(() => event.query())) {
      if (deadline.left <= 0) return false;
      await nativeEvents()
        .waitEventAsync(device.handle, event.handle)
        .catch(() => true);
    }
  }
  return true;
}

export function doneOrFailed(query: () => boolean): boolean {
  try {
    return query();
  } catch (error) {
    // In a thread that is being ended, native calls fail, so the error says nothing about the work.
    if (error instanceof ThreadEnding) throw error;
    return true;
  }
}
