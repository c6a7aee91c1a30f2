/** Lends host memory to a device: pinned where the driver pins it, else as it is, and a warning says why. */
import type { TypedArray } from '../dtype.ts';
import { DeviceError } from '../errors.ts';
import type { Device, HostMemory } from './device.ts';
import { allOrNothing } from './owner.ts';

/**
 * All or nothing, and all alike: when the driver refuses to pin one of `views`, none is pinned, and `warn` is told. `what`
 * names them there.
 */
export function lendHost(
  device: Device,
  what: string,
  views: readonly TypedArray[],
  warn: (message: string) => void,
): HostMemory[] {
  const lend = (pin: boolean) => allOrNothing((own) => views.map((view) => own(device.registerHost(view, { pin }))));
  try {
    return lend(true);
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    const lent = lend(false);
    warn(`${what} not pinned, so copies to ${device.name} take longer: ${error.message}`);
    return lent;
  }
}
