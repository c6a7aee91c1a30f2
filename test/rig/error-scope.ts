/**
 * What a failing kernel takes down. On the CPU device and with most software drivers it is the
 * kernel's stream. On a GPU, and with the software driver of CUDA 13, it is everything that the
 * process has on the device. There a test with a failing kernel runs in its own process.
 */
import { listDevices } from '../../src/index.ts';

export type ErrorScope = 'stream' | 'device';

/** Returns what fails with a kernel. The name of a software driver contains its behavior. */
export function errorScope(device: string): ErrorScope {
  const { family, description = '' } = listDevices().find(({ name }) => name === device) ?? {};
  if (family === 'host') return 'stream';
  const software = description.startsWith('Hotslot software driver');
  return software && !description.includes('errors lose the context') ? 'stream' : 'device';
}

/**
 * The end of the title of a test that costs the process its device. test/gpu/units.ts looks for it.
 */
export const ALONE = '[alone]';

/**
 * Declares a test with a failing kernel. If that would cost the device, the test is pending unless
 * HOTSLOT_TEST_ALONE says that no test follows.
 */
export function itAlone(device: string, title: string, test: () => Promise<void>): void {
  if (errorScope(device) === 'stream') it(title, test);
  else if (process.env.HOTSLOT_TEST_ALONE) it(`${title} ${ALONE}`, test);
  else it.skip(`${title} ${ALONE}`, test);
}
