/**
 * Takes back the batches after the end of a group's run, which are never applied. The opener does
 * so once requester and replay have paused, and the ring goes on from the first of their sequences.
 * If steps live on the device, each batch brings some that are new: they are put to their places
 * all the same, in the order of ticks.
 */
import { Pause } from '../ring/header.ts';
import { SlotState } from '../ring/slot.ts';
import type { PipelineRuntime } from './runtime.ts';

/**
 * Call this when the run is quiet. Slots that poll passed on stay the opener's: only replay, which
 * has paused, would take them up.
 */
export async function giveBack(parts: PipelineRuntime): Promise<void> {
  const { ring, slots } = parts;
  const { header } = ring;
  const following = Array.from({ length: ring.depth }, (_, slot) => slot)
    .filter((slot) => ring.state(slot) === SlotState.Ready)
    .sort((a, b) => ring.sequence(a) - ring.sequence(b));
  if (following.length === 0) return;
  const { compute, last, deviceStore } = slots;
  for (const slot of following) {
    slots.backend.waitCurrentStreamForReady(slot, compute);
    if (deviceStore) slots.beginUpdate(slot, compute);
  }
  compute.record(last);
  // Slot-5: the device is done with the slots.
  await parts.until(() => last.query());
  // The newest first, so that those that are left are always the oldest (Slot-8).
  for (const slot of following.toReversed()) ring.takeBack(slot);
  header.rewind();
  // The requester answers from its new seat: what the limiter counted for these sequences is given
  // back by then.
  header.pause(Pause.end);
  await parts.until(() => {
    if (!header.paused) ring.bells.of('replay').ring();
    return header.paused;
  });
}
