/**
 * What a failing kernel takes with it. On the host device and over most software drivers that is its stream; on a GPU it is
 * everything the process has there, so whatever lets a kernel fail then runs in a process of its own.
 */
import { listDevices } from '../../src/index.ts';

export type ErrorScope = 'stream' | 'device';

/** A software driver can behave in both ways; HOTSLOT_TEST_ERROR_SCOPE says which it was told. */
export function errorScope(device: string): ErrorScope {
  const { family, description = '' } = listDevices().find(({ name }) => name === device) ?? {};
  if (family === 'host') return 'stream';
  const told = process.env.HOTSLOT_TEST_ERROR_SCOPE;
  if (told === 'stream' || told === 'device') return told;
  if (told !== undefined) throw new Error(`HOTSLOT_TEST_ERROR_SCOPE is stream or device, got '${told}'`);
  return description.startsWith('Hotslot software driver') ? 'stream' : 'device';
}

/** How the title of a test ends that costs the process its device; test/gpu/units.ts looks for it. */
export const ALONE = '[alone]';

/** A test that lets a kernel fail: pending where that costs the device, unless HOTSLOT_TEST_ALONE says that no test follows. */
export function itAlone(device: string, title: string, test: () => Promise<void>): void {
  if (errorScope(device) === 'stream') it(title, test);
  else if (process.env.HOTSLOT_TEST_ALONE) it(`${title} ${ALONE}`, test);
  else it.skip(`${title} ${ALONE}`, test);
}
