/** Captures the learner's update once per slot: what the caller enqueues, then the mark and the scalars' way home. */
import type { GraphExec, Stream } from '../device/device.ts';
import { Tensor } from '../device/tensor.ts';
import { checkKeys, rangeError, stateError, typeError } from '../errors.ts';
import { captureGraph, type GraphPool, getSharedGraphPool } from '../graph/shared.ts';
import { MOST_SCALARS } from '../ring/slot.ts';
import { type Batch, lendStream, type Slots } from './slots.ts';

export interface CaptureContext {
  /** enqueue here; it is also the device's current stream while the function runs */
  stream: Stream;
  /** float64[32] on the device: tick, sequence + 1, rows, snapshot ptr, snapshot size, seed */
  params: Tensor;
  /** float32[48] on the device: what the learner writes here comes back with the tick */
  out: Tensor;
  slot: number;
  /** lends memory for what lives only inside the update; the device's graphs share it */
  pool: GraphPool;
}

/** Enqueues one update on `batch`. Called once per slot; nothing but device work inside. */
export type CaptureFunction = (batch: Batch, context: CaptureContext) => void;

export interface CaptureOptions {
  /** names of the first elements of `out`, for events and summaries */
  scalars?: readonly string[];
  /** contiguous float32 tensor on the device: copied to the mailbox when a tick publishes */
  weights?: Tensor;
}

export function checkCapture(fn: unknown, options: CaptureOptions, mailboxLength: number | null, device: string): void {
  if (typeof fn !== 'function') throw typeError(`capture needs a function, got ${typeof fn}`);
  checkKeys('capture', options, ['scalars', 'weights']);
  const { scalars = [], weights } = options;
  if (scalars.length > MOST_SCALARS)
    throw rangeError(`capture takes at most ${MOST_SCALARS} scalars, got ${scalars.length}`);
  for (const name of scalars) if (typeof name !== 'string') throw typeError(`scalars are names, got ${String(name)}`);
  if (weights === undefined) return;
  if (!(weights instanceof Tensor)) throw typeError(`weights must be a tensor, got ${String(weights)}`);
  weights.checkOpen();
  if (weights.device.name !== device)
    throw typeError(`weights must be on ${device}, got a tensor on ${weights.device.name}`);
  if (mailboxLength === null)
    throw stateError('CAPTURE', 'capture was given weights, but the pipeline was opened without a mailbox');
  if (weights.dtype !== 'float32' || !weights.contiguous)
    throw typeError('weights must be a contiguous float32 tensor');
  if (weights.size !== mailboxLength) {
    throw rangeError(`weights has ${weights.size} elements, the mailbox holds ${mailboxLength}`);
  }
}

/** One graph per slot, or none at all: whatever went wrong, every capture is ended and everything made is closed. */
export function captureSlots(slots: Slots, fn: CaptureFunction): GraphExec[] {
  const made: GraphExec[] = [];
  let nodes = -1;
  try {
    for (const [slot, batch] of slots.batches.entries()) {
      const { nodeCount, exec } = captureSlot(slots, slot, batch, fn);
      made.push(exec);
      if (nodes >= 0 && nodeCount !== nodes) {
        throw stateError(
          'CAPTURE',
          `the capture enqueued ${nodes} operations for slot 0 and ${nodeCount} for slot ${slot}: it must do the same for every slot`,
        );
      }
      nodes = nodeCount;
    }
  } catch (error) {
    for (const exec of made) exec.close();
    throw error;
  }
  return made;
}

function captureSlot(
  slots: Slots,
  slot: number,
  batch: Batch,
  fn: CaptureFunction,
): { nodeCount: number; exec: GraphExec } {
  const pool = getSharedGraphPool(slots.device);
  return captureGraph(slots.device, { what: `the capture for slot ${slot}`, pool }, (stream) => {
    const lent = lendStream(stream);
    const [params, out] = [slots.params[slot] as Tensor, slots.scalars[slot] as Tensor];
    const result = slots.device.withStream(lent, () => fn(batch, { stream: lent, params, out, slot, pool }));
    slots.finishCapture(slot, stream);
    return result;
  });
}
