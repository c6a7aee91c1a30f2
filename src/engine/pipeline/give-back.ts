/**
 * Takes back the batches of sequences after the end of a group's run. These batches are never
 * applied. The opener takes them back after requester and replay have paused. Later ticks use the
 * same sequences again.
 *
 * If a view's steps live on the device, each of these batches contains steps that the device does
 * not have yet. Later batches do not bring these steps again. So the steps are written to their
 * places, in the order of ticks.
 */
import { Pause } from '../ring/header.ts';
import { SlotState } from '../ring/slot.ts';
import type { PipelineRuntime } from './runtime.ts';

/**
 * Call it when no other tick is under way. The opener owns the slots that poll made Ready, because
 * replay has paused.
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
  // Slot-5: waits until the device is done with the slots.
  await parts.until(() => last.query());
  // Takes back the newest batch first, so that the remaining ones are always the oldest (Slot-8).
  for (const slot of following.toReversed()) ring.takeBack(slot);
  header.rewind();
  // The requester acknowledges this pause after it has found its new slot. By then it has given
  // back what the limiter counted for these sequences.
  header.pause(Pause.end);
  await parts.until(() => {
    if (!header.paused) ring.bells.of('replay').ring();
    return header.paused;
  });
}
