/**
 * Registers host memory with a device. The memory is pinned if the driver can pin it. Otherwise it
 * stays unpinned, and a warning has the reason.
 */
import type { TypedArray } from '../base/dtype.ts';
import { DeviceError } from '../base/errors.ts';
import type { Device, HostMemory } from './device.ts';
import type { HostKind } from './facts.ts';
import { allOrNothing } from './owner.ts';
import { PinnedHost } from './storage.ts';

/**
 * Registers all of `views` in the same way, or none of them. If the driver cannot pin one of the
 * views, all are registered without pinning, and `warn` is called. `what` is the memory's name in
 * that warning.
 */
export function lendHost(
  device: Device,
  what: string,
  views: readonly TypedArray[],
  warn: (message: string) => void,
): HostMemory[] {
  const lend = (pin: boolean) =>
    allOrNothing((own) => views.map((view) => own(device.registerHost(view, { pin }))));
  try {
    return lend(true);
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    const lent = lend(false);
    warn(`${what} not pinned, so copies to ${device.name} take longer: ${error.message}`);
    return lent;
  }
}

/**
 * Returns pinned memory of the driver into which a readback copies, because its destination is not
 * pinned. A copy directly to such a destination would block its caller until the copy is done. The
 * thread that finds the copy done then copies the bytes on to the destination (`copyOut`).
 *
 * Returns null if the destination needs no such memory. Also returns null if no memory can be
 * pinned, after it has called `warn`.
 */
export function readbackBufferFor(
  device: Device,
  kind: HostKind,
  bytes: number,
  warn: (message: string) => void,
): PinnedHost | null {
  if (kind !== 'pageable' || device.family === 'host') return null;
  try {
    return new PinnedHost(device, bytes);
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (!(error instanceof DeviceError) && code !== 'ERR_HOTSLOT_MEMORY') throw error;
    warn(
      `copies from ${device.name} to the host take longer, because no memory could be pinned: ${message}`,
    );
    return null;
  }
}
