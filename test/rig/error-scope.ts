/**
 * What a failing kernel takes with it: its stream on the host device and over most software
 * drivers; on a GPU, and over the driver of CUDA 13, all that the process has there. A test that
 * lets a kernel fail has a process of its own there.
 */
import { listDevices } from '../../src/index.ts';

export type ErrorScope = 'stream' | 'device';

/** A software driver can behave in both ways, and its name says in which. */
export function errorScope(device: string): ErrorScope {
  const { family, description = '' } = listDevices().find(({ name }) => name === device) ?? {};
  if (family === 'host') return 'stream';
  const software = description.startsWith('Hotslot software driver');
  return software && !description.includes('errors lose the context') ? 'stream' : 'device';
}

/**
 * How the title of a test ends that costs the process its device; test/gpu/units.ts looks for it.
 */
export const ALONE = '[alone]';

/**
 * A test that lets a kernel fail: pending where that costs the device, unless HOTSLOT_TEST_ALONE
 * says that no test follows.
 */
export function itAlone(device: string, title: string, test: () => Promise<void>): void {
  if (errorScope(device) === 'stream') it(title, test);
  else if (process.env.HOTSLOT_TEST_ALONE) it(`${title} ${ALONE}`, test);
  else it.skip(`${title} ${ALONE}`, test);
}
