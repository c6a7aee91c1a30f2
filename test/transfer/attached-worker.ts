/** Attaches, submits one slot, lets go. */
import { parentPort, workerData } from 'node:worker_threads';
import { AttachedTransferBackend } from '../../src/transfer/attached.ts';
import type { SharedTransferBackend } from '../../src/transfer/backend.ts';

const { shared, slot, bytes } = workerData as { shared: SharedTransferBackend; slot: number; bytes: number };
const attached = new AttachedTransferBackend(shared);
parentPort?.postMessage(attached.submitSlot(slot, bytes));
attached.close();
