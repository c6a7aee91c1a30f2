/**
 * The C++ harnesses of the native code, built under sanitizers beside the software drivers and with their cache; and the
 * devices of every family that the core's harness runs on.
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

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';

export type Sanitizer = 'thread' | 'address,undefined';

const cpp = (folder: string) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith('.cpp'))
    .map((file) => `${folder}/${file}`);
const kernels = cpp('native/kernels');
/** All of the core but its face to JavaScript. */
const device = cpp('native/device').filter((file) => !/\/binding\w*\.cpp$/.test(file));
/** Where the host's executor is meant: without the net under lost wakes, see native/device/host.hpp. */
const stressed = ({ source }: Unit): Unit => ({
  source,
  defines: /\/(host|host_executor|stress_pause)\.cpp$/.test(source) ? ['-DHOTSLOT_STRESS'] : [],
});

const sources = {
  core: [
    ...['core_harness', 'core_host', 'core_life', 'core_shared', 'stress_pause'].map(
      (file) => `test/native/${file}.cpp`,
    ),
    ...device,
    ...kernels,
    ...cpp('native/kernels/generated'),
  ],
  rows: ['test/native/rows_harness.cpp', ...['copy', 'rows', 'sampler'].map((file) => `native/rows/${file}.cpp`)],
  kernels: ['test/native/kernels_harness.cpp', ...kernels],
} as const;
export type Harness = keyof typeof sources;

/** Why programs cannot be built with this sanitizer here, or null. */
export function missing(sanitizer: Sanitizer): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-probe-'));
  try {
    const source = join(folder, 'probe.cpp');
    writeFileSync(source, '#include <thread>\nint main() { std::thread([] {}).join(); }\n');
    const program = join(folder, 'probe');
    const built = spawnSync(compiler, [source, `-fsanitize=${sanitizer}`, '-pthread', '-o', program], {
      encoding: 'utf8',
    });
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

/** The program's path. */
export function build(harness: Harness, sanitizer: Sanitizer): string {
  const units = sources[harness].map((source) => stressed({ source, defines: [] }));
  return buildDriverProgram(units, ['-ldl'], sanitizer);
}

/** What a family's devices are here. */
export interface Rig {
  name: string;
  family: 'host' | 'cuda' | 'rocm' | 'xpu';
  /** what the driver is told to be */
  told: Readonly<Record<string, string>>;
}

const drivers: Partial<Record<Rig['family'], { driver: SoftwareDriver; variable: string }>> = {
  cuda: { driver: 'cuda', variable: 'HOTSLOT_CUDA' },
  rocm: { driver: 'hip', variable: 'HOTSLOT_HIP' },
  // The loader finds it among the drivers that it is told of.
  xpu: { driver: 'level_zero', variable: 'ZE_ENABLE_ALT_DRIVERS' },
};

/** Why there can be no such devices here, or null. */
export function missingRig(rig: Rig): string | null {
  const driver = drivers[rig.family]?.driver;
  return driver ? missingForDriver(driver) : null;
}

/** The environment in which a program finds the rig's devices; its driver is built when it is out of date. */
export function environment(rig: Rig, sanitizer: Sanitizer): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(HOTSLOT_|ZE)/.test(name));
  const used = drivers[rig.family];
  return {
    ...Object.fromEntries(own),
    HOTSLOT_CUDA: 'none',
    HOTSLOT_HIP: 'none',
    ...(rig.family === 'xpu' ? {} : { HOTSLOT_LEVEL_ZERO: 'none' }),
    HOTSLOT_SOFTWARE_STRICT: 'abort',
    ...(used ? { [used.variable]: buildSoftwareDriver(used.driver, sanitizer) } : {}),
    ...rig.told,
  };
}

/** Runs a program; rejects with what it printed when it found something. */
export function run(program: string, args: readonly string[] = [], env = process.env): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const said: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const text = Buffer.concat(said).toString().slice(0, 8000);
      if (code === 0) resolve();
      else reject(new Error(`${basename(program)} ${args.join(' ')} ended with ${code ?? signal}:\n${text}`));
    });
  });
}
