/**
 * Builds the software drivers that tests put in place of a vendor's: one shared library each, in build/drivers. An object is
 * compiled again when anything it was made from has changed, and shared between the drivers: kernels take long.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';
const flags = ['-std=c++17', '-g1', '-fPIC', '-fvisibility=hidden', '-ffp-contract=off', '-Inative'];
/** Sanitizers make optimised code slow to compile. */
const flagsOf = (sanitizer: string) =>
  sanitizer === '' ? ['-O2'] : ['-O1', '-fno-omit-frame-pointer', `-fsanitize=${sanitizer}`];

/** 'hip-old' is what ROCm 5.2 had of 'hip'. */
export type SoftwareDriver = 'level_zero' | 'cuda' | 'hip' | 'hip-old' | 'cublas';

const host = ['host', 'host_executor', 'host_managed', 'capture'].map((file) => `native/device/${file}.cpp`);
const drivers: Record<SoftwareDriver, { file: string; source: string; defines: string[]; device: string[] }> = {
  // It has queues of its own, stricter than the host device's, and runs the same kernels.
  level_zero: { file: 'libze_software.so.1', source: 'test/drivers/level_zero.cpp', defines: [], device: [] },
  // Over the software libcuda, and alone no driver: without kernels, and without a door.
  cublas: { file: 'libcublas.so.13', source: 'test/drivers/cublas.cpp', defines: [], device: [] },
  cuda: { file: 'libcuda.so.1', source: 'test/drivers/cuda.cpp', defines: [], device: host },
  hip: {
    file: 'libamdhip64.so.6',
    source: 'test/drivers/cuda.cpp',
    defines: ['-DHOTSLOT_SOFTWARE_HIP=7'],
    device: host,
  },
  'hip-old': {
    file: 'libamdhip64.so.5',
    source: 'test/drivers/cuda.cpp',
    defines: ['-DHOTSLOT_SOFTWARE_HIP=5'],
    device: host,
  },
};

export interface Unit {
  source: string;
  defines: readonly string[];
}

/** Why this driver cannot be built here, or null. */
export function missingForDriver(driver: SoftwareDriver): string | null {
  const headers = driver === 'level_zero' ? '#include <level_zero/ze_ddi.h>\n#include <level_zero/zes_ddi.h>\n' : '';
  const probe = spawnSync(compiler, ['-std=c++17', '-fsyntax-only', '-x', 'c++', '-'], {
    input: `${headers}int main() {}\n`,
    encoding: 'utf8',
  });
  if (probe.error) return `${compiler} is not installed`;
  if (probe.status !== 0) return "Level Zero's headers are not installed (Debian: libze-dev)";
  return null;
}

/** Of a sanitizer build, or of the plain one: nothing is shared between the two. */
const place = (sanitizer: string) =>
  join(root, 'build/drivers', sanitizer === '' ? 'plain' : sanitizer.replace(',', '-'));

function hash(parts: readonly string[]): string {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part).update('\0');
  return digest.digest('hex').slice(0, 32);
}

/** What the compiler said an object was made from. */
const madeFrom = (dependencies: string) =>
  readFileSync(dependencies, 'utf8')
    .replace(/^[^:]*:/, '')
    .replaceAll('\\\n', ' ')
    .trim()
    .split(/\s+/);

/** The same with the files' bytes as they are now. */
function made(command: readonly string[], dependencies: string): string | null {
  if (!existsSync(dependencies)) return null;
  const files = madeFrom(dependencies);
  const parts = [...command];
  for (const file of files) {
    const path = join(root, file);
    if (!existsSync(path)) return null;
    parts.push(file, readFileSync(path, 'utf8'));
  }
  return hash(parts);
}

function run(commands: readonly (readonly string[])[]): void {
  const lines = commands.map((words) => words.map((word) => `'${word}'`).join(' ')).join('\n');
  const jobs = String(Math.min(availableParallelism(), 8));
  const done = spawnSync('xargs', ['-d', '\n', '-P', jobs, '-n', '1', 'sh', '-c'], {
    cwd: root,
    input: lines,
    encoding: 'utf8',
  });
  if (done.error) throw done.error;
  if (done.status !== 0) throw new Error(`what tests need does not build:\n${done.stderr.slice(0, 8000)}`);
}

/** Builds what is out of date; the objects' paths. */
function compile(units: readonly Unit[], sanitizer: string): string[] {
  const folder = join(place(sanitizer), 'objects');
  mkdirSync(folder, { recursive: true });
  const stale: { temporary: string; object: string; command: string[] }[] = [];
  const objects = units.map(({ source, defines }) => {
    const command = [compiler, ...flags, ...flagsOf(sanitizer), ...defines, source];
    const object = join(folder, `${[source, ...defines].join('').replaceAll('/', '-')}.o`);
    const key = existsSync(`${object}.key`) ? readFileSync(`${object}.key`, 'utf8') : null;
    if (key === null || !existsSync(object) || key !== made(command, `${object}.d`))
      stale.push({ temporary: `${object}.${process.pid}`, object, command });
    return object;
  });
  const begin = Date.now();
  if (stale.length > 0)
    run(stale.map(({ temporary, command }) => [...command, '-c', '-MMD', '-MF', `${temporary}.d`, '-o', temporary]));
  // Whole or not at all: another process may build the same.
  for (const { temporary, object, command } of stale) {
    renameSync(`${temporary}.d`, `${object}.d`);
    renameSync(temporary, object);
    // Something that was changed meanwhile may have been read before: such an object is made again the next time.
    const changed = madeFrom(`${object}.d`).some((file) => statSync(join(root, file)).mtimeMs >= begin);
    writeFileSync(`${object}.key`, changed ? `${begin}` : (made(command, `${object}.d`) ?? ''));
  }
  return objects;
}

function link(file: string, objects: readonly string[], sanitizer: string, extra: readonly string[]): void {
  const key = hash([...extra, ...objects.map((object) => readFileSync(`${object}.key`, 'utf8'))]);
  if (existsSync(file) && existsSync(`${file}.key`) && readFileSync(`${file}.key`, 'utf8') === key) return;
  const temporary = `${file}.${process.pid}`;
  const sanitize = sanitizer === '' ? [] : [`-fsanitize=${sanitizer}`];
  run([[compiler, ...objects, ...sanitize, ...extra, '-pthread', '-ldl', '-o', temporary]]);
  renameSync(temporary, file);
  writeFileSync(`${file}.key`, key);
}

/** The path of the driver's library, built when it is not up to date. */
export function buildSoftwareDriver(driver: SoftwareDriver, sanitizer = ''): string {
  const { file, source, defines, device } = drivers[driver];
  const kernels = readdirSync(join(root, 'native/kernels'))
    .filter((name) => name.endsWith('.cpp'))
    .map((name) => `native/kernels/${name}`);
  const shared = driver === 'cublas' ? [] : [...kernels, ...device.filter((path) => existsSync(join(root, path)))];
  // A door for tests in JavaScript: see addon.hpp. A driver is not what is tested, and checks of undefined behaviour make it
  // thrice as long to compile.
  const door = driver === 'cublas' ? [] : ['-include', 'test/drivers/addon.hpp'];
  const unchecked = sanitizer.includes('undefined') ? ['-fno-sanitize=undefined'] : [];
  const own = { source, defines: [...defines, ...door, ...unchecked] };
  const units: Unit[] = [own, ...shared.map((path) => ({ source: path, defines: [] }))];
  const library = join(place(sanitizer), file);
  link(library, compile(units, sanitizer), sanitizer, ['-shared', '-Wl,-z,nodelete', `-Wl,-soname,${file}`]);
  return library;
}

/** A program beside the drivers; it is named after its first source. */
export function buildDriverProgram(
  sources: readonly (string | Unit)[],
  libraries: readonly string[],
  sanitizer = '',
): string {
  const units = sources.map((source) => (typeof source === 'string' ? { source, defines: [] } : source));
  const program = join(place(sanitizer), basename(units[0]!.source, '.cpp'));
  link(program, compile(units, sanitizer), sanitizer, libraries);
  return program;
}
