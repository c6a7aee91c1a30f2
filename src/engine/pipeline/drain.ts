/** Whether the device's work on a pipeline's slots is over, when the pipeline closes. */
import { ThreadEnding } from '../../base/addon.ts';
import { nativeEvents } from '../../device/native.ts';
import { Deadline } from '../../shm/wait.ts';
import type { Ring } from '../ring/ring.ts';
import { SlotState } from '../ring/slot.ts';
import type { Slots } from './slots.ts';

/**
 * Waits up to `ms` until work that may still touch the slots is over. A sticky error counts as over
 * too.
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
    // The state of the work is unknown if its thread is being ended.
    if (error instanceof ThreadEnding) throw error;
    return true;
  }
}
