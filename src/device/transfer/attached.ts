/**
 * Operates the slots of a backend in an actor's thread. The actor uses the backend's handles and
 * does not own the objects. CopyingTransferBackend calls the same functions in its own thread.
 */
import { answered } from '../../base/addon.ts';
import type { Device } from '../device.ts';
import { openDevice } from '../open.ts';
import type { ArmedSlots, SharedTransferBackend } from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

const State = { none: 0, submitted: 1, copied: 2 } as const;

/** Returns the shared state of new slots, which have no submission. */
export function unarmed(slots: number): ArmedSlots {
  const states = new Int32Array(new SharedArrayBuffer(4 * slots));
  return { states, bytes: new Float64Array(new SharedArrayBuffer(8 * slots)) };
}

// Only a slot's owner writes the slot's elements of `states` and `bytes` (Slot-1). It stores the
// state last, so a thread that reads a submitted state also reads the right bytes.

export const isArmed = ({ states }: ArmedSlots, slot: number): boolean =>
  Atomics.load(states, slot) !== State.none;

export function disarm({ states }: ArmedSlots, slot: number): void {
  Atomics.store(states, slot, State.none);
}

export function submitArmed(
  submitter: Submitter,
  armed: ArmedSlots,
  slot: number,
  bytes: number,
): number {
  const seconds = answered(submitter.submit(slot, bytes));
  armed.bytes[slot] = bytes;
  Atomics.store(armed.states, slot, State.submitted);
  return seconds;
}

/**
 * Makes the stream wait for the slot's copy. If the copy is deferred, the first call makes it on
 * the stream, and later calls only wait. Returns the host seconds spent on a deferred copy, or 0 if
 * this call made none.
 */
export function waitArmed(
  submitter: Submitter,
  armed: ArmedSlots,
  slot: number,
  stream: number,
  mode: TransferMode,
): number {
  const state = Atomics.load(armed.states, slot);
  if (state === State.none) return 0;
  if (mode !== TransferMode.deferred || state === State.copied) {
    answered(submitter.waitReady(stream, slot, 0));
    return 0;
  }
  const seconds = answered(submitter.waitReady(stream, slot, armed.bytes[slot] as number));
  Atomics.store(armed.states, slot, State.copied);
  return seconds;
}

export class AttachedTransferBackend {
  readonly device: Device;
  readonly #submitter: Submitter;
  readonly #armed: ArmedSlots;
  readonly #mode: TransferMode;
  constructor(shared: SharedTransferBackend) {
    this.device = openDevice(shared.device, { products: shared.products });
    this.#armed = shared.armed;
    this.#mode = shared.mode;
    this.#submitter = newSubmitter(shared);
  }
  submitSlot(slot: number, bytes: number): number {
    return submitArmed(this.#submitter, this.#armed, slot, bytes);
  }
  waitStreamForReady(slot: number, stream: number): void {
    waitArmed(this.#submitter, this.#armed, slot, stream, this.#mode);
  }
  close(): void {
    this.#submitter.close();
    this.device.close();
  }
}
