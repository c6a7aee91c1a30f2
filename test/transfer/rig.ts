/** A backend with its host and device slots, set up as by a pipeline. */
import { nativeStreams } from '../../src/device/native.ts';
import type { ReplayTransferBackend } from '../../src/device/transfer/backend.ts';
import { buildReplayTransferBackend } from '../../src/device/transfer/build.ts';
import type { TransferMode } from '../../src/device/transfer/native.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

/** The transfer modes of the tested device. */
export const transfers: readonly TransferMode[] = ON_HOST
  ? ['immediate', 'deferred', 'direct']
  : ['immediate'];
export const DEPTH = 3;
export const FLOATS = 16;
export const BYTES = 4 * FLOATS;

export class Bench implements Disposable {
  readonly device: Device;
  readonly backend: ReplayTransferBackend;
  readonly hosts: Uint8Array[];
  readonly slots: Tensor[];
  /** a stream that belongs to the consumer */
  readonly stream: Stream;
  readonly #latch: Latch;

  constructor(transfer: TransferMode = 'immediate', floats = FLOATS) {
    this.device = openDevice(TESTED);
    this.backend = buildReplayTransferBackend({ device: TESTED, ringDepth: DEPTH, transfer });
    this.hosts = sharedSlots(DEPTH, 4 * floats);
    this.backend.registerHostSlots(this.hosts);
    this.slots = this.backend.allocateDeviceSlots({ shape: [floats], dtype: 'float32' });
    this.stream = this.device.createStream();
    this.#latch = new Latch(this.device);
  }

  /** Writes `value` into all elements of a slot's host buffer. */
  pack(slot: number, value: number): this {
    floatsOf(this.hosts[slot]!).fill(value);
    return this;
  }
  submit(slot: number): number {
    return this.backend.submitH2d({ slot, dst: this.slots[slot]!, src: this.hosts[slot]! });
  }
  holdStream(): void {
    this.#latch.hold(this.stream);
  }
  /** Holds the backend's copy stream: it waits for the held stream. */
  holdCopies(): void {
    this.holdStream();
    using event = this.device.createEvent();
    this.stream.record(event);
    nativeStreams().wait(this.backend.share().stream, event.handle);
  }
  letCopiesGo(): void {
    this.#latch.open();
  }
  [Symbol.dispose](): void {
    this.#latch[Symbol.dispose]();
    this.backend.close();
    this.stream.close();
    this.device.close();
  }
}

export function sharedSlots(count: number, bytes: number): Uint8Array[] {
  const memory = new SharedArrayBuffer(count * bytes);
  return Array.from({ length: count }, (_, i) => new Uint8Array(memory, i * bytes, bytes));
}

export const floatsOf = (slot: Uint8Array) =>
  new Float32Array(slot.buffer, slot.byteOffset, slot.length / 4);
