/**
 * A backend's slots seen from an actor's thread: the same native operations over the same handles, nothing owned. The
 * operations themselves, which the backend uses too.
 */
import { answered } from '../addon.ts';
import type { Device } from '../device/device.ts';
import { openDevice } from '../device/open.ts';
import type { SharedTransferBackend } from './backend.ts';
import { newSubmitter, type Submitter, TransferMode } from './native.ts';

// Arming, one Int32 per slot: 0 until submitted, then the bytes submitted, negated once a deferred copy was made. A slot's
// arming has one writer at a time, its owner (I1).

export function submitArmed(submitter: Submitter, armed: Int32Array, slot: number, bytes: number): number {
  const seconds = answered(submitter.submit(slot, bytes));
  Atomics.store(armed, slot, bytes);
  return seconds;
}

/** Host seconds spent on a deferred copy; 0 when none was made: the first wait makes it, later ones only order behind it. */
export function waitArmed(
  submitter: Submitter,
  armed: Int32Array,
  slot: number,
  stream: number,
  mode: TransferMode,
): number {
  const bytes = Atomics.load(armed, slot);
  if (bytes === 0) return 0;
  if (mode !== TransferMode.deferred || bytes < 0) {
    answered(submitter.waitReady(stream, slot, 0));
    return 0;
  }
  const seconds = answered(submitter.waitReady(stream, slot, bytes));
  Atomics.store(armed, slot, -bytes);
  return seconds;
}

export class AttachedTransferBackend {
  readonly device: Device;
  readonly #submitter: Submitter;
  readonly #armed: Int32Array;
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
