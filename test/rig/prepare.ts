/**
 * Builds everything that the tests of a setting would each build when they need it, on all cores at
 * once.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  compileAll,
  missingForDriver,
  type Part,
  type SoftwareDriver,
  unitsOfDriver,
} from '../drivers/build.ts';
import { missingCallgrind } from '../guard/instructions.ts';
import { missing, type Sanitizer, unitsOf, unitsOfPieces } from '../native/harnesses.ts';
import { partsOfAddons } from '../native/sanitized.ts';
import { SETTING } from './setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const drivers: SoftwareDriver[] = [
  'level_zero',
  'cuda',
  'hip',
  'hip-old',
  'cublas',
  'nvrtc',
  'hiprtc',
];
const programs = [
  'test/drivers/level_zero_check.cpp',
  'test/drivers/cuda_check.cpp',
  'test/drivers/hip_check.cpp',
];

const can = (driver: SoftwareDriver) => missingForDriver(driver) === null;
const of = (driver: SoftwareDriver, sanitizer: Sanitizer): Part[] =>
  can(driver) ? [{ units: unitsOfDriver(driver, sanitizer), sanitizer }] : [];

/** A short run needs one family of GPUs and no harness. */
function partsOf(setting: string): Part[] {
  if (setting === 'short') return of('cuda', '');
  // Only the longest runs have the harness on every family, and drivers with memory checks: see
  // test/native.
  const sanitized = (sanitizer: Sanitizer, some: readonly SoftwareDriver[]): Part[] =>
    (setting === 'long' ? (['cuda', 'hip', 'level_zero'] as const) : some).flatMap((driver) =>
      of(driver, sanitizer),
    );
  const parts: Part[] = drivers.flatMap((driver) => of(driver, ''));
  const checks = programs.filter((source) =>
    can(source.includes('level_zero') ? 'level_zero' : 'cuda'),
  );
  parts.push({ units: checks.map((source) => ({ source, defines: [] })), sanitizer: '' });
  if (setting === 'long') parts.push({ units: unitsOf('kernels'), sanitizer: '' });
  if (missingCallgrind() === null) parts.push({ units: unitsOfPieces(), sanitizer: '' });
  if (missing('thread') === null) {
    const harnesses = ['cores', 'rows', 'lanes', 'ranks', 'core'] as const;
    parts.push(
      { units: harnesses.flatMap(unitsOf), sanitizer: 'thread' },
      ...sanitized('thread', ['cuda']),
    );
  }
  if (missing('address,undefined') === null) {
    const sanitizer = 'address,undefined';
    const harnesses = ['core', 'cores', 'rows', 'tree', 'lanes', 'ranks', 'kernels'] as const;
    parts.push({ units: harnesses.flatMap(unitsOf), sanitizer }, ...partsOfAddons());
    parts.push(...sanitized(sanitizer, []));
  }
  return parts;
}

/**
 * Builds what the tests of the setting need. Tests that need a part which does not build, or is
 * missing here, handle that themselves.
 */
export function buildForTests(setting: string): void {
  if (setting !== SETTING)
    throw new Error(`HOTSLOT_TEST_SETTING must be '${setting}' before setting.js is imported`);
  const begin = performance.now();
  process.stderr.write('hotslot: building what the tests need … ');
  try {
    compileAll(partsOf(setting));
  } catch {
    process.stderr.write('not all of it: ');
  }
  process.stderr.write(`${((performance.now() - begin) / 1000).toFixed(1)} s\n`);
  // Two test files would stage the package's addons at the same time, so they are staged here.
  if (setting !== 'short')
    spawnSync(process.execPath, ['src/cli/setup.mjs', '--stage'], { cwd: root, stdio: 'inherit' });
}
