/**
 * Lends host memory to a device: pinned where the driver pins it, else as it is, and a warning says
 * why.
 */
import type { TypedArray } from '../base/dtype.ts';
import { DeviceError } from '../base/errors.ts';
import type { Device, HostMemory } from './device.ts';
import type { HostKind } from './facts.ts';
import { allOrNothing } from './owner.ts';
import { PinnedHost } from './storage.ts';

/**
 * All or nothing, and all alike: when the driver refuses to pin one of `views`, none is pinned, and
 * `warn` is told. `what` names them there.
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
 * Pinned memory of the driver's own for what the device writes home, where the memory it belongs in
 * is not pinned: a copy to that would keep its caller until it is done. Whoever sees the work done
 * fetches the bytes (`copyOut`). Null where none is needed, or to be had; `warn` is told of the
 * latter.
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
    warn(`what ${device.name} writes home takes longer, for want of pinned memory: ${message}`);
    return null;
  }
}
