/** Attaches a backend, submits one slot, and closes the attached backend. */
import { AttachedTransferBackend } from '../../src/device/transfer/attached.ts';
import type { SharedTransferBackend } from '../../src/device/transfer/backend.ts';
import { givenTask, perform } from '../rig/test-thread.ts';

export interface Submitting {
  shared: SharedTransferBackend;
  slot: number;
  bytes: number;
}

await perform(() => {
  const { shared, slot, bytes } = givenTask<Submitting>();
  const attached = new AttachedTransferBackend(shared);
  const seconds = attached.submitSlot(slot, bytes);
  attached.close();
  return seconds;
});
