/** Allocates tensors in a device's managed memory, counts them, and closes them together. */

import { checkKeys, describeValue } from '../../base/checks.ts';
import type { DType } from '../../base/dtype.ts';
import { closedError, typeError, UnifiedMemoryUnsupportedError } from '../../base/errors.ts';
import { openedDevices } from '../../device/checks.ts';
import type { Device, Tensor } from '../../device/device.ts';
import type { DeviceFamily } from '../../device/facts.ts';
import { openDevice } from '../../device/open.ts';
import { checkOpen, Owner, own } from '../../device/owner.ts';
import type { MemoryStorage } from '../../device/storage.ts';
import { compilationError, compileAllocatorSync, familyReason } from './compilation.ts';

export interface MempoolStats {
  /** number of open tensors */
  tensors: number;
  /** bytes reserved by open tensors. The driver creates pages at their first access or prefetch */
  bytes: number;
  /** maximum of `bytes` so far */
  peakBytes: number;
  /** number of tensors allocated so far */
  allocations: number;
}

/**
 * A pool of tensors in managed memory. createUnifiedMempool() creates it.
 * @example
 * const pool = createUnifiedMempool('cuda:0');
 * const weights = pool.allocate({ shape: [256, 64] });
 * pool.close();
 */
export class UnifiedMempool extends Owner {
  readonly device: Device;
  readonly #open = new Set<MemoryStorage>();
  #bytes = 0;
  #peakBytes = 0;
  #allocations = 0;

  /** Only createUnifiedMempool() calls this. With `owned`, the pool's close() closes the device. */
  constructor(device: Device, owned: boolean) {
    super(`this unified memory pool of ${device.name}`, 'make another');
    this.device = device;
    if (owned) own(this, device);
    own(this, {
      close: () => {
        for (const storage of this.#open) storage.close();
      },
    });
  }

  /**
   * Allocates a zeroed tensor in managed memory. The pool's device is the preferred location of its
   * pages, and has accessed-by advice for them. Close the tensor, or close the pool.
   *
   * @param options shape, and dtype (default float32)
   * @throws {ERR_HOTSLOT_MEMORY} if the memory cannot be allocated. The text names the bytes
   */
  allocate<D extends DType = 'float32'>(options: {
    shape: readonly number[];
    dtype?: D;
  }): Tensor<D> {
    checkOpen(this);
    checkKeys('allocate', options, ['shape', 'dtype']);
    const tensor = this.device.allocateManaged(options);
    const storage = tensor.storage as MemoryStorage;
    this.#open.add(storage);
    this.#bytes += storage.bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#bytes);
    this.#allocations++;
    storage.onClose = () => {
      this.#open.delete(storage);
      this.#bytes -= storage.bytes;
    };
    return tensor;
  }

  /** Returns the counts of tensors, bytes and allocations. */
  stats(): MempoolStats {
    const { size: tensors } = this.#open;
    return {
      tensors,
      bytes: this.#bytes,
      peakBytes: this.#peakBytes,
      allocations: this.#allocations,
    };
  }
}

/**
 * Creates a pool of managed memory on a device. `device` is an open device or a device's name. If
 * compileAllocator() has not run, this call runs its probe in a new process, which loads every
 * driver. The thread blocks until the probe ends. Await compileAllocator() first if the thread must
 * not block.
 *
 * Throws UnifiedMemoryUnsupportedError (ERR_HOTSLOT_UNAVAILABLE) with the reason if the device has
 * no managed memory. Throws the same class after a failed probe, with compilationError() as
 * `cause`. Throws ERR_HOTSLOT_STATE_BUSY if the probe is under way and the thread cannot wait for
 * it.
 *
 * The function is Megatron's, from core.inference.unified_memory.
 */
export function createUnifiedMempool(device: Device | string): UnifiedMempool {
  const named = typeof device === 'string';
  if (!named && !openedDevices.has(device as object))
    throw typeError(
      `createUnifiedMempool takes a device or its name, got ${describeValue(device)}`,
    );
  if (!named && device.closed) throw closedError(`device ${device.name}`, 'open it again');
  compileAllocatorSync();
  const cause = compilationError();
  if (cause)
    throw new UnifiedMemoryUnsupportedError(`managed memory is unavailable: ${cause.message}`, {
      cause,
    });
  // If the device's family failed the probe, throws before the device is opened.
  const family = named ? device.split(':')[0] : device.family;
  const unsupported = (name: string, reason: string) =>
    new UnifiedMemoryUnsupportedError(`${name} has no managed memory: ${reason}`);
  const failed = familyReason(family as DeviceFamily);
  if (failed) throw unsupported(named ? device : device.name, failed);
  const opened = named ? openDevice(device) : device;
  const reason = familyReason(opened.family) ?? opened.traits.noManaged;
  if (!reason) return new UnifiedMempool(opened, named);
  if (named) opened.close();
  throw unsupported(opened.name, reason);
}
