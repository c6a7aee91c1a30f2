/**
 * Builds the software drivers that tests load in place of a vendor's driver. Each is one shared
 * library in build/drivers. An object file is compiled again if one of its inputs has changed. The
 * drivers share object files, because the kernels take long to compile.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SETTING } from '../rig/setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';
const flags = [
  '-std=c++17',
  '-g1',
  '-fPIC',
  '-fvisibility=hidden',
  '-ffp-contract=off',
  '-Inative',
];
/**
 * Optimization flags. Tests compile with -Og, because they need not be fast and sanitizers make
 * optimized code slow to compile: -Og takes half of -O1's time. Code whose instructions test/guard
 * counts is optimized.
 */
const flagsOf = (sanitizer: string, source: string) =>
  sanitizer === ''
    ? [/^test\/(?!guard\/)/.test(source) ? '-Og' : '-O2']
    : [
        '-Og',
        '-fno-omit-frame-pointer',
        `-fsanitize=${sanitizer}`,
        ...unchecked(sanitizer, source),
        '-fno-sanitize-recover=all',
      ];
/**
 * Files that mostly pass pointers to a driver or to JavaScript. `test:all` does not check these
 * pointers for null and alignment, which saves a third of the files' compile time. Reading through
 * null ends a process anyway.
 */
const passing = /^native\/device\/(addon|cuda|hip|level_zero)\/|binding\.cpp$/;
const unchecked = (sanitizer: string, source: string) =>
  SETTING === 'all' && sanitizer.includes('undefined') && passing.test(source)
    ? ['-fno-sanitize=null,alignment,vptr']
    : [];

/**
 * Names of the software drivers. 'hip-old' has only the calls of ROCm 5.2. 'cublas-old' has neither
 * batches nor math modes.
 */
export type SoftwareDriver =
  | 'level_zero'
  | 'cuda'
  | 'hip'
  | 'hip-old'
  | 'cublas'
  | 'cublas-old'
  | 'nvrtc'
  | 'hiprtc';

const host = [
  ...['capture', 'device', 'guard', 'kernel_module', 'stream'].map(
    (file) => `native/device/core/${file}.cpp`,
  ),
  'native/device/host/all.cpp',
];
const drivers: Record<
  SoftwareDriver,
  { file: string; source: string; defines: string[]; device: string[] }
> = {
  // This driver has its own queues, which are stricter than those of the CPU device. It runs the
  // same kernels.
  level_zero: {
    file: 'libze_software.so.1',
    source: 'test/drivers/level_zero.cpp',
    defines: [],
    device: [],
  },
  // Libraries that tests load in addition to a software driver. They contain no kernels and no
  // JavaScript functions (addon.hpp).
  cublas: { file: 'libcublas.so.13', source: 'test/drivers/cublas.cpp', defines: [], device: [] },
  'cublas-old': {
    file: 'libcublas.so.11',
    source: 'test/drivers/cublas.cpp',
    defines: ['-DHOTSLOT_SOFTWARE_CUBLAS_OLD'],
    device: [],
  },
  nvrtc: { file: 'libnvrtc.so.13', source: 'test/drivers/nvrtc.cpp', defines: [], device: [] },
  hiprtc: {
    file: 'libhiprtc.so.6',
    source: 'test/drivers/nvrtc.cpp',
    defines: ['-DHOTSLOT_SOFTWARE_HIPRTC'],
    device: [],
  },
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

/** Returns why this machine cannot build the driver, or null if it can. */
export function missingForDriver(driver: SoftwareDriver): string | null {
  const headers =
    driver === 'level_zero'
      ? '#include <level_zero/ze_ddi.h>\n#include <level_zero/zes_ddi.h>\n'
      : '';
  const probe = spawnSync(compiler, ['-std=c++17', '-fsyntax-only', '-x', 'c++', '-'], {
    input: `${headers}int main() {}\n`,
    encoding: 'utf8',
  });
  if (probe.error) return `${compiler} is not installed`;
  if (probe.status !== 0) return "Level Zero's headers are not installed (Debian: libze-dev)";
  return null;
}

/**
 * Returns the output folder of a sanitizer build, or of the plain build. The two share no files.
 */
const place = (sanitizer: string) =>
  join(root, 'build/drivers', sanitizer === '' ? 'plain' : sanitizer.replace(',', '-'));

function hash(parts: readonly string[]): string {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part).update('\0');
  return digest.digest('hex').slice(0, 32);
}

/** Returns the input files of an object, read from the compiler's dependency file. */
const madeFrom = (dependencies: string) =>
  readFileSync(dependencies, 'utf8')
    .replace(/^[^:]*:/, '')
    .replaceAll('\\\n', ' ')
    .trim()
    .split(/\s+/);

/**
 * Hashes the command and the current bytes of the object's input files. Returns null if one of the
 * files is missing.
 */
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
  if (done.status !== 0)
    throw new Error(`what tests need does not build:\n${done.stderr.slice(0, 8000)}`);
}

/**
 * Sources of one library or program, and the sanitizer that they are compiled with ('' for none).
 */
export interface Part {
  units: readonly Unit[];
  sanitizer: string;
}

/**
 * Sources that no program runs under the sanitizer in `test:all`. These are families without a test
 * rig. Under the thread sanitizer they are also kernels that its programs do not launch.
 */
const idle: Readonly<Record<string, RegExp>> = {
  thread: /^native\/(device\/(hip|level_zero)\/|kernels\/(blas|gemm|gemm_builtin|halo|overlap)\.)/,
  'address,undefined': /^native\/device\/hip\//,
};
const isIdle = (source: string, sanitizer: string) =>
  SETTING !== 'long' && (idle[sanitizer]?.test(source) ?? false);

/**
 * Returns the object file that node-gyp compiled for an addon, or null. Plain builds reuse these
 * objects, because users run them. Sanitizer builds reuse the objects of idle sources, which only
 * have to link.
 */
const ofAddon = ({ source, defines }: Unit, sanitizer: string): string | null => {
  const without = isIdle(source, sanitizer);
  const ofDevice =
    source.startsWith('native/kernels/') || (without && source.startsWith('native/device/'));
  const addon = ofDevice ? 'device' : source === 'native/rows/all.cpp' ? 'rows' : null;
  if (addon === null || (sanitizer !== '' && !without) || defines.length > 0) return null;
  const object = join(
    root,
    'build/Release/obj.target',
    addon,
    `${source.slice(0, -'.cpp'.length)}.o`,
  );
  return existsSync(object) ? object : null;
};

const objectOf = ({ source, defines }: Unit, sanitizer: string) => {
  const form = defines.length > 0 ? `-${hash(defines).slice(0, 8)}` : '';
  return join(place(sanitizer), 'objects', `${source.replaceAll('/', '-')}${form}.o`);
};

/** Compiles all objects that are out of date, in parallel. */
export function compileAll(parts: readonly Part[]): void {
  const stale = new Map<string, { temporary: string; command: string[] }>();
  for (const { units, sanitizer } of parts) {
    mkdirSync(join(place(sanitizer), 'objects'), { recursive: true });
    for (const unit of units.filter((each) => ofAddon(each, sanitizer) === null)) {
      const object = objectOf(unit, sanitizer);
      const command = [
        compiler,
        ...flags,
        ...flagsOf(sanitizer, unit.source),
        ...unit.defines,
        unit.source,
      ];
      const key = existsSync(`${object}.key`) ? readFileSync(`${object}.key`, 'utf8') : null;
      if (key === null || !existsSync(object) || key !== made(command, `${object}.d`))
        stale.set(object, { temporary: `${object}.${process.pid}`, command });
    }
  }
  const begin = Date.now();
  const commands = [...stale.values()].map(({ temporary, command }) => {
    return [...command, '-c', '-MMD', '-MF', `${temporary}.d`, '-o', temporary];
  });
  if (commands.length > 0) run(commands);
  // Renames finished files, because another process may build the same object.
  for (const [object, { temporary, command }] of stale) {
    renameSync(`${temporary}.d`, `${object}.d`);
    renameSync(temporary, object);
    // If an input changed during the compilation, the compiler may have read its old text. The key
    // then never matches, so the next build compiles the object again.
    const changed = madeFrom(`${object}.d`).some(
      (file) => statSync(join(root, file)).mtimeMs >= begin,
    );
    writeFileSync(`${object}.key`, changed ? `${begin}` : (made(command, `${object}.d`) ?? ''));
  }
}

/** Compiles objects that are out of date, and returns the paths of all. */
function compile(units: readonly Unit[], sanitizer: string): string[] {
  compileAll([{ units, sanitizer }]);
  // The linker takes the first copy of each inline function. That copy must be one with the
  // sanitizer, so idle sources come last.
  const last = (unit: Unit) => Number(isIdle(unit.source, sanitizer));
  return [...units]
    .sort((a, b) => last(a) - last(b))
    .map((unit) => ofAddon(unit, sanitizer) ?? objectOf(unit, sanitizer));
}

/**
 * Returns the key of an object: the hash of its command and inputs, or of its bytes if node-gyp
 * compiled it.
 */
const keyOf = (object: string) =>
  existsSync(`${object}.key`)
    ? readFileSync(`${object}.key`, 'utf8')
    : hash([readFileSync(object, 'latin1')]);

function link(
  file: string,
  objects: readonly string[],
  sanitizer: string,
  extra: readonly string[],
): void {
  // Objects in `extra` have no key, so their bytes are hashed.
  const made = extra
    .filter((each) => each.endsWith('.o'))
    .map((path) => readFileSync(path, 'latin1'));
  const key = hash([...extra, ...made, ...objects.map(keyOf)]);
  if (existsSync(file) && existsSync(`${file}.key`) && readFileSync(`${file}.key`, 'utf8') === key)
    return;
  const temporary = `${file}.${process.pid}`;
  const sanitize = sanitizer === '' ? [] : [`-fsanitize=${sanitizer}`];
  run([[compiler, ...objects, ...sanitize, ...extra, '-pthread', '-ldl', '-o', temporary]]);
  renameSync(temporary, file);
  writeFileSync(`${file}.key`, key);
}

/** Returns the sources of a driver. */
export function unitsOfDriver(driver: SoftwareDriver, sanitizer = ''): Unit[] {
  const { source, defines, device } = drivers[driver];
  const kernels = readdirSync(join(root, 'native/kernels'))
    .filter((name) => name.endsWith('.cpp'))
    .map((name) => `native/kernels/${name}`);
  const library = ['cublas', 'cublas-old', 'nvrtc', 'hiprtc'].includes(driver);
  const shared = library
    ? []
    : [...kernels, ...device.filter((path) => existsSync(join(root, path)))];
  // addon.hpp adds functions that tests call from JavaScript. Tests do not look for undefined
  // behavior in a driver, and those checks triple its compile time.
  const door = library ? [] : ['-include', 'test/drivers/addon.hpp'];
  const unchecked = sanitizer.includes('undefined') ? ['-fno-sanitize=undefined'] : [];
  const own = { source, defines: [...defines, ...door, ...unchecked] };
  return [own, ...shared.map((path) => ({ source: path, defines: [] }))];
}

/** Returns the path of the shared library `name`, and builds the library if it is out of date. */
export function buildLibrary(name: string, units: readonly Unit[], sanitizer: string): string {
  const library = join(place(sanitizer), name);
  mkdirSync(dirname(library), { recursive: true });
  link(library, compile(units, sanitizer), sanitizer, [
    '-shared',
    '-Wl,-z,nodelete',
    `-Wl,-soname,${basename(name)}`,
  ]);
  return library;
}

/** Builds a software driver and returns the path of its library. */
export const buildSoftwareDriver = (driver: SoftwareDriver, sanitizer = ''): string =>
  buildLibrary(drivers[driver].file, unitsOfDriver(driver, sanitizer), sanitizer);

/**
 * Builds a program that uses the drivers, and returns its path. The program is named after its
 * first source.
 */
export function buildDriverProgram(
  sources: readonly (string | Unit)[],
  libraries: readonly string[],
  sanitizer = '',
): string {
  const units = sources.map((source) =>
    typeof source === 'string' ? { source, defines: [] } : source,
  );
  const program = join(place(sanitizer), basename(units[0]!.source, '.cpp'));
  link(program, compile(units, sanitizer), sanitizer, libraries);
  return program;
}
