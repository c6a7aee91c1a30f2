/**
 * Registers host memory with a device: pinned if the driver pins it, otherwise unpinned with a
 * warning that has the reason.
 */
import type { TypedArray } from '../base/dtype.ts';
import { DeviceError } from '../base/errors.ts';
import type { Device, HostMemory } from './device.ts';
import type { HostKind } from './facts.ts';
import { allOrNothing } from './owner.ts';
import { PinnedHost } from './storage.ts';

/**
 * Registers all or none of `views`, in the same way: if the driver cannot pin one of them, none is
 * pinned, and `warn` is called. `what` names them there.
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
 * Returns pinned memory of the driver for readbacks, if their destination is not pinned: a copy to
 * that would block its caller until it is done. The thread that sees the work done fetches the
 * bytes (`copyOut`). Returns null if no such memory is needed, or if none is available, after a
 * call of `warn`.
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
