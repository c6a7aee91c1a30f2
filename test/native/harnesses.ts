/**
 * Builds the C++ harnesses of the native code under sanitizers, with the cache of the software
 * drivers. Lists the devices of every family that the harness of the core runs on.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  buildDriverProgram,
  buildSoftwareDriver,
  missingForDriver,
  type SoftwareDriver,
  type Unit,
} from '../drivers/build.ts';
import { driverEnvironment } from '../drivers/software.ts';
import { SETTING } from '../rig/setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';

/** The sanitizer's name, or '' for a plain build. */
export type Sanitizer = '' | 'thread' | 'address,undefined';

const cpp = (folder: string) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith('.cpp'))
    .map((file) => `${folder}/${file}`);
const kernels = cpp('native/kernels');
/** Sources of the core without its JavaScript bindings. One file includes a whole folder. */
const device = [
  ...['core', 'host', 'cuda', 'level_zero'].map((room) => `native/device/${room}/all.cpp`),
  ...cpp('native/device/hip'),
];
/**
 * Adds HOTSLOT_STRESS to the sources of the host's executor. It removes the timeout that hides lost
 * wakes (native/device/host/executor.hpp).
 */
export const stressed = ({ source, defines }: Unit): Unit => ({
  source,
  defines: /\/(device\/host\/all|stress_pause)\.cpp$/.test(source)
    ? [...defines, '-DHOTSLOT_STRESS']
    : defines,
});

const sources = {
  core: [
    ...['core_harness', 'core_host', 'core_life', 'core_shared', 'stress_pause'].map(
      (file) => `test/native/${file}.cpp`,
    ),
    ...device,
    ...kernels,
    'native/kernels/images/images.cpp',
  ],
  rows: ['test/native/rows_harness.cpp', 'native/rows/all.cpp'],
  cores: ['test/native/cores_harness.cpp'],
  lanes: ['test/native/lanes_harness.cpp', 'native/rows/all.cpp'],
  ranks: [
    'test/native/ranks_harness.cpp',
    'test/native/ranks_helpers.cpp',
    'native/ranks/halo.cpp',
    'native/ranks/thread.cpp',
  ],
  tree: ['test/native/tree_harness.cpp'],
  kernels: [
    'test/native/kernels_harness.cpp',
    'test/native/kernels_ops.cpp',
    'test/native/kernels_learners.cpp',
    'test/native/kernels_batched.cpp',
    'test/native/kernels_overlap.cpp',
    'test/native/kernels_products.cpp',
    'test/native/kernels_traced.cpp',
    ...kernels,
  ],
} as const;
export type Harness = keyof typeof sources;

/** Returns why programs cannot be built or run with this sanitizer here, or null. */
export function missing(sanitizer: Sanitizer): string | null {
  if (sanitizer === '') return missingForDriver('cuda');
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-probe-'));
  try {
    const source = join(folder, 'probe.cpp');
    writeFileSync(source, '#include <thread>\nint main() { std::thread([] {}).join(); }\n');
    const program = join(folder, 'probe');
    const built = spawnSync(
      compiler,
      [source, `-fsanitize=${sanitizer}`, '-pthread', '-o', program],
      {
        encoding: 'utf8',
      },
    );
    if (built.error) return `${compiler} is not installed`;
    if (built.status !== 0) return `${compiler} has no runtime for -fsanitize=${sanitizer}`;
    const ran = spawnSync(program, { encoding: 'utf8' });
    return ran.status === 0
      ? null
      : `programs with -fsanitize=${sanitizer} do not start here: ${ran.stderr.split('\n')[0]}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const unitsOf = (harness: Harness): Unit[] =>
  sources[harness].map((source) => stressed({ source, defines: [] }));

/** Sources of the program whose instructions test/guard counts. */
export const unitsOfPieces = (): Unit[] =>
  ['test/guard/pieces.cpp', 'native/rows/all.cpp', ...kernels].map((source) => ({
    source,
    defines: [],
  }));

/** Builds the harness and returns the path of its program. */
export function build(harness: Harness, sanitizer: Sanitizer): string {
  return buildDriverProgram(unitsOf(harness), ['-ldl'], sanitizer);
}

/** The devices of a family that a harness runs on. */
export interface Rig {
  name: string;
  family: 'host' | 'cuda' | 'rocm' | 'xpu';
  /** the driver's options, as environment variables */
  told: Readonly<Record<string, string>>;
}

const drivers: Readonly<Record<Rig['family'], SoftwareDriver | null>> = {
  host: null,
  cuda: 'cuda',
  rocm: 'hip',
  xpu: 'level_zero',
};

/** Returns why this machine cannot have such devices, or null. */
export function missingRig({ family }: Rig): string | null {
  const driver = drivers[family];
  return driver ? missingForDriver(driver) : null;
}

/**
 * Returns the sanitizer of the driver for a program with `sanitizer`. The thread sanitizer must see
 * every synchronization, so it also needs the driver. The address sanitizer does not test the
 * driver, so only the longest runs build the driver with it.
 */
export const sanitizerOfDriver = (sanitizer: Sanitizer): Sanitizer =>
  sanitizer === 'thread' || SETTING === 'long' ? sanitizer : '';

/**
 * Returns the environment in which a program finds the rig's devices. Builds the driver if it is
 * out of date.
 */
export function environment({ family, told }: Rig, sanitizer: Sanitizer): NodeJS.ProcessEnv {
  const driver = drivers[family];
  const library = driver ? buildSoftwareDriver(driver, sanitizerOfDriver(sanitizer)) : '';
  return { ...driverEnvironment(driver, library), ...told };
}

/** Runs a program. Rejects with its output if it fails. */
export function run(
  program: string,
  args: readonly string[] = [],
  env = process.env,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const said: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => said.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const text = Buffer.concat(said).toString().slice(0, 8000);
      if (code === 0) resolve();
      else
        reject(
          new Error(
            `${basename(program)} ${args.join(' ')} ended with ${code ?? signal}:\n${text}`,
          ),
        );
    });
  });
}
