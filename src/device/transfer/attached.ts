/**
 * A backend's slots seen from an actor's thread: the same native operations over the same handles,
 * nothing owned. The operations themselves, which the backend uses too.
 */
import { answered } from '../../base/addon.ts';
import type { Device } from '../device.ts';
import { openDevice } from '../open.ts';
import type { ArmedSlots, SharedTransferBackend } from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

const State = { none: 0, submitted: 1, copied: 2 } as const;

/** Of slots that nothing was submitted for. */
export function unarmed(slots: number): ArmedSlots {
  const states = new Int32Array(new SharedArrayBuffer(4 * slots));
  return { states, bytes: new Float64Array(new SharedArrayBuffer(8 * slots)) };
}

// A slot's arming has one writer at a time, its owner (I1). The state, which is stored last, says
// that the bytes are there.

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
 * Host seconds spent on a deferred copy; 0 when none was made: the first wait makes it, later ones
 * only order behind it.
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
