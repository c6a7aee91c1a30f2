/**
 * A backend's slots in an actor's thread: the same native operations over the same handles, without
 * ownership. The backend uses these operations too.
 */
import { answered } from '../../base/addon.ts';
import type { Device } from '../device.ts';
import { openDevice } from '../open.ts';
import type { ArmedSlots, SharedTransferBackend } from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

const State = { none: 0, submitted: 1, copied: 2 } as const;

/** Returns the shared state of slots without a submission. */
export function unarmed(slots: number): ArmedSlots {
  const states = new Int32Array(new SharedArrayBuffer(4 * slots));
  return { states, bytes: new Float64Array(new SharedArrayBuffer(8 * slots)) };
}

// A slot's arming has one writer at a time, its owner (Slot-1). The state, which is stored last,
// says that the bytes are there.

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
 * Returns the host seconds spent on a deferred copy, or 0 if none was made. The first wait makes
 * the copy, and later ones only order the stream after it.
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
    this.device = openDevice(shared.device);
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
