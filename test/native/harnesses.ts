/** The C++ harnesses of the native code, built under sanitizers into a folder of their own, each source once. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';
const flags = ['-std=c++17', '-O1', '-g1', '-ffp-contract=off', '-DHOTSLOT_STRESS', `-I${root}native`];

export type Sanitizer = 'thread' | 'address,undefined';

const kernels = readdirSync(`${root}native/kernels`)
  .filter((file) => file.endsWith('.cpp'))
  .map((file) => `native/kernels/${file}`);
/** What each harness needs beside itself. */
const needs = {
  core: [
    'test/native/stress_pause.cpp',
    'native/device/capture.cpp',
    'native/device/host.cpp',
    'native/device/host_executor.cpp',
    ...kernels,
  ],
  rows: ['copy', 'rows', 'sampler'].map((file) => `native/rows/${file}.cpp`),
  kernels,
} as const;
export type Harness = keyof typeof needs;

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

function run(command: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    const said: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else
        reject(
          new Error(
            `${basename(command)} ended with ${code ?? signal}:\n${Buffer.concat(said).toString().slice(0, 8000)}`,
          ),
        );
    });
  });
}

/** Builds harnesses with one sanitizer; `folder` keeps the objects. */
export async function build(folder: string, sanitizer: Sanitizer, harnesses: readonly Harness[]): Promise<void> {
  const objects = (harness: Harness) => [`test/native/${harness}_harness.cpp`, ...needs[harness]];
  const waiting = [...new Set(harnesses.flatMap(objects))];
  mkdirSync(folder, { recursive: true });
  const object = (source: string) => join(folder, `${source.replaceAll('/', '-')}.o`);
  const work = async () => {
    for (let source = waiting.shift(); source !== undefined; source = waiting.shift())
      await run(compiler, [...flags, `-fsanitize=${sanitizer}`, '-c', source, '-o', object(source)]);
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), 8) }, work));
  for (const harness of harnesses) {
    const link = ['-ldl', '-lpthread', `-fsanitize=${sanitizer}`, '-o', join(folder, harness)];
    await run(compiler, [...objects(harness).map(object), ...link]);
  }
}

/** Runs one; rejects with what it printed when it found something. */
export async function runHarness(folder: string, harness: Harness): Promise<void> {
  const program = join(folder, harness);
  if (!existsSync(program)) throw new Error(`${program} was not built`);
  await run(program, []);
}
