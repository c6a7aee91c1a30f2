/**
 * Runs scripts and tests on software drivers. A mode is an environment in which a process finds the
 * devices of one family, built on the CPU device. A process looks for a driver when it starts, so
 * every mode runs in its own process.
 */
import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { buildSoftwareDriver, missingForDriver, type SoftwareDriver } from './build.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

export interface Mode {
  name: string;
  device: string;
  driver: SoftwareDriver;
  /** the driver's options, as environment variables */
  told: Readonly<Record<string, string>>;
}

export const modes = {
  cuda12: {
    name: 'CUDA 12.0',
    device: 'cuda:0',
    driver: 'cuda',
    told: { HOTSLOT_SOFTWARE_CUDA: '12.0' },
  },
  cuda13: {
    name: 'CUDA 13.0',
    device: 'cuda:0',
    driver: 'cuda',
    told: { HOTSLOT_SOFTWARE_CUDA: '13.0' },
  },
  hipOld: { name: 'HIP of ROCm 5.2', device: 'rocm:0', driver: 'hip-old', told: {} },
  hip: { name: 'HIP of ROCm 7', device: 'rocm:0', driver: 'hip', told: {} },
  // The loader's validation layer knows Level Zero up to spec 1.4. Modes that use nothing newer
  // turn it on.
  ze14: {
    name: 'Level Zero 1.4',
    device: 'xpu:0',
    driver: 'level_zero',
    told: {
      HOTSLOT_SOFTWARE_ZE: 'spec=1.4',
      ZE_ENABLE_VALIDATION_LAYER: '1',
      ZE_ENABLE_PARAMETER_VALIDATION: '1',
    },
  },
  zeBare: {
    name: 'Level Zero 1.4 without timestamps or shared memory',
    device: 'xpu:0',
    driver: 'level_zero',
    told: {
      HOTSLOT_SOFTWARE_ZE: 'spec=1.4,timestamps=0,import=none,shared=none',
      ZE_ENABLE_VALIDATION_LAYER: '1',
      ZE_ENABLE_PARAMETER_VALIDATION: '1',
    },
  },
  ze: {
    name: 'Level Zero of today',
    device: 'xpu:0',
    driver: 'level_zero',
    told: { HOTSLOT_SOFTWARE_ZE: 'modern' },
  },
  zeIntel: {
    name: 'Level Zero with Intel’s import',
    device: 'xpu:0',
    driver: 'level_zero',
    told: { HOTSLOT_SOFTWARE_ZE: 'spec=1.9,import=intel,graph=listed-only' },
  },
  zeGraph: {
    name: 'Level Zero with graphs',
    device: 'xpu:0',
    driver: 'level_zero',
    told: { HOTSLOT_SOFTWARE_ZE: 'modern,graph=flag' },
  },
} as const satisfies Record<string, Mode>;

/** Returns why this machine cannot run the mode, or null if it can. */
export function missing(mode: Mode): string | null {
  const built = missingForDriver(mode.driver);
  if (built !== null || mode.driver !== 'level_zero') return built;
  const known = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' }).stdout ?? '';
  return known.includes('libze_loader.so.1')
    ? null
    : "Level Zero's loader is not installed (Debian: libze1)";
}

/**
 * Skips the test, or every test of a suite, if one of the modes cannot run here, and prints the
 * reason.
 */
export function need(context: Mocha.Context, ...wanted: Mode[]): void {
  const reasons = wanted.map(missing).filter((reason) => reason !== null);
  if (reasons.length === 0) return;
  console.log(`      skipped: ${reasons[0]}`);
  context.skip();
}

/**
 * Builds the mode's driver and returns the path of its library. Tests call its functions through
 * process.dlopen (addon.hpp).
 */
export const libraryOf = (mode: Mode): string => buildSoftwareDriver(mode.driver);

const variables: Partial<Record<SoftwareDriver, string>> = {
  cuda: 'HOTSLOT_CUDA',
  hip: 'HOTSLOT_HIP',
  'hip-old': 'HOTSLOT_HIP',
};
/** The number of hardware queues for streams that Hotslot itself sets for CUDA. */
const queues = { GPU_MAX_HW_QUEUES: '32' };

/**
 * Returns the environment of a process that has this driver's devices and the CPU device. If
 * `driver` is null, the process has only the CPU device.
 */
export function driverEnvironment(
  driver: SoftwareDriver | null,
  library: string,
): NodeJS.ProcessEnv {
  const passed = ['HOTSLOT_ADDONS', 'HOTSLOT_TEST_SETTING'];
  const own = Object.entries(process.env).filter(
    ([name]) => passed.includes(name) || !/^(HOTSLOT_|ZE)/.test(name),
  );
  const env: NodeJS.ProcessEnv = {
    ...Object.fromEntries(own),
    HOTSLOT_CUDA: 'none',
    HOTSLOT_HIP: 'none',
    HOTSLOT_LEVEL_ZERO: 'none',
    HOTSLOT_SOFTWARE_STRICT: 'abort',
    // The driver ends a process that enqueues operations on the same memory without an order
    // (order.hpp).
    HOTSLOT_SOFTWARE_ORDER: '1',
    ...queues,
  };
  if (driver === 'level_zero') {
    // The real loader loads this library in place of the drivers that it knows.
    env.ZE_ENABLE_ALT_DRIVERS = library;
    delete env.HOTSLOT_LEVEL_ZERO;
  } else if (driver !== null) env[variables[driver] as string] = library;
  return env;
}

export const environmentOf = (
  mode: Mode,
  more: Record<string, string> = {},
): NodeJS.ProcessEnv => ({
  ...driverEnvironment(mode.driver, libraryOf(mode)),
  HOTSLOT_TEST_DEVICE: mode.device,
  ...mode.told,
  ...more,
});

export interface Ended {
  status: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs a script in the mode, and kills it after `timeout` ms. Paths are relative to the
 * repository's root.
 */
export async function run(
  mode: Mode,
  args: readonly string[],
  more: Record<string, string> = {},
  timeout = 0,
): Promise<Ended> {
  const child = spawn(process.execPath, ['--enable-source-maps', ...args], {
    cwd: root,
    env: environmentOf(mode, more),
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout,
    killSignal: 'SIGKILL',
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      said[name] += chunk.toString();
    });
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status, signal) => resolve({ status, signal, ...said }));
  });
}

interface Report {
  stats: { passes: number; failures: number; pending: number };
  failures: { fullTitle: string; err: { message?: string; stack?: string } }[];
}

/**
 * Runs test files in the mode, and returns the number of tests that pass. Throws an error with the
 * failures if a test fails.
 */
export async function runTests(
  mode: Mode,
  files: readonly string[],
  more: Record<string, string> = {},
): Promise<number> {
  const mocha = [
    'node_modules/mocha/bin/mocha.js',
    '--no-config',
    '--timeout',
    '60000',
    '--reporter',
    'json',
  ];
  mocha.push('--require', 'dist/test/rig/timed-out.js');
  const { stdout, stderr, status, signal } = await run(mode, [...mocha, ...files], more);
  let report: Report;
  try {
    report = JSON.parse(stdout.slice(stdout.indexOf('{\n'))) as Report;
  } catch {
    throw new Error(
      `the tests ended with ${status ?? signal}:\n${stderr.slice(-4000)}\n${stdout.slice(-2000)}`,
    );
  }
  if (report.stats.failures > 0 || status !== 0) {
    const failures = report.failures.map(
      ({ fullTitle, err }) => `${fullTitle}:\n  ${err.stack ?? err.message}`,
    );
    throw new Error(
      `${report.stats.failures} failed in ${mode.name}:\n${failures.join('\n')}\n${stderr.slice(-2000)}`,
    );
  }
  return report.stats.passes;
}
