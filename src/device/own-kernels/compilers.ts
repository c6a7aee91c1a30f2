/**
 * Runs the system's compilers, for images that drivers do not compile themselves. These are a
 * shared library for CPU devices, PTX, SPIR-V and AMD's code objects. The compilers get the flags
 * of this package's images (native/CMakeLists.txt). Results are stored on disk by their content.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileError, unavailableError } from '../../base/errors.ts';
import { cached, contentKey } from './cache.ts';
import { headers, type KernelSource, kernelsIn, nativeFolder } from './source.ts';

interface Ran {
  /** exit status, or null if the program does not exist */
  status: number | null;
  output: string;
}

function run(program: string, args: readonly string[], cwd: string): Promise<Ran> {
  return new Promise((resolve) => {
    // Without HIP_PLATFORM, hipcc would use nvcc as its compiler if it finds one.
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, LC_ALL: 'C', HIP_PLATFORM: 'amd' },
    });
    let output = '';
    child.stdout.on('data', (text) => (output += text));
    child.stderr.on('data', (text) => (output += text));
    child.on('error', () => resolve({ status: null, output: '' }));
    child.on('close', (status) => resolve({ status: status ?? 1, output }));
  });
}

const versions = new Map<string, Promise<string | null>>();

/** Returns a program's output for --version, or null if it cannot be run. */
function versionOf(program: string): Promise<string | null> {
  let known = versions.get(program);
  if (!known) {
    known = run(program, ['--version'], '/').then(({ status, output }) =>
      status === 0 ? output : null,
    );
    versions.set(program, known);
  }
  return known;
}

/** Returns the first list of tools that all exist, or null if no list is complete. */
async function firstOf(
  candidates: readonly (readonly string[])[],
): Promise<readonly string[] | null> {
  for (const tools of candidates)
    if ((await Promise.all(tools.map(versionOf))).every((version) => version !== null))
      return tools;
  return null;
}

/**
 * Returns the versioned names of the tools, then the plain names. Version 14 is first, because this
 * package's own images are compiled with it.
 */
const numbered = (...names: string[]) =>
  [14, 15, 16, 17, 18, 19, 20, 21]
    .map((version) => names.map((name) => `${name}-${version}`))
    .concat([names]);
const clangs = numbered('clang');
const own = (variable: string) =>
  process.env[variable] ? [[process.env[variable] as string]] : [];
const rounding = ['-O2', '-ffp-contract=off'];

/**
 * A format of images, and the tools that compile a source to it. The source is the file in.gk, in a
 * folder that also contains gk.hpp.
 */
interface Format {
  ending: string;
  /** returns lists of tools, in order of preference */
  tools(): (readonly string[])[];
  missing: string;
  source(source: KernelSource, kernels: readonly string[]): string;
  /** returns the commands with their arguments, in order. The last one writes `out` */
  steps(tools: readonly string[], out: string): (readonly [program: string, ...args: string[]])[];
}

const device = ({ text, file }: KernelSource) =>
  `#include "gk.hpp"\n#line 1 ${JSON.stringify(file)}\n${text}\n`;

export const formats = {
  host: {
    ending: `.linux-${process.arch}.so`,
    tools: () => [...own('CXX'), ['c++'], ['g++'], ['clang++']],
    missing: 'a C++ compiler (apt-get install g++)',
    source: (source, kernels) =>
      `#include "kernels/gk.hpp"\n#line 1 ${JSON.stringify(source.file)}\n${source.text}\n#line 1 "the kernels declared for ${source.file.replace(/["\\]/g, '')}"\n#include "kernels/library.hpp"\nHOTSLOT_LIBRARY(${kernels.map((name) => `HOTSLOT_LISTED(${name})`).join(', ')});\n`,
    steps: ([compiler = ''], out) => [
      [
        compiler,
        '-std=c++17',
        '-O3',
        '-fno-trapping-math',
        '-ffp-contract=off',
        '-fPIC',
        '-shared',
        '-fvisibility=hidden',
      ].concat([
        `-I${nativeFolder}`,
        `-I${nativeFolder}kernels`,
        '-x',
        'c++',
        'in.gk',
        '-o',
        out,
      ]) as [string, ...string[]],
    ],
  },
  ptx: {
    ending: '.ptx',
    tools: () => clangs,
    missing: 'clang (apt-get install clang-14)',
    source: device,
    steps: ([clang = ''], out) => [
      [
        clang,
        '-x',
        'cuda',
        '--cuda-device-only',
        '--cuda-gpu-arch=sm_60',
        '-nocudainc',
        '-nocudalib',
        '-Wno-unknown-cuda-version',
      ].concat([
        '-Xclang',
        '-target-feature',
        '-Xclang',
        '+ptx63',
        ...rounding,
        '-I.',
        '-S',
        '-o',
        out,
        'in.gk',
      ]) as [string, ...string[]],
    ],
  },
  spirv: {
    ending: '.spv',
    tools: () => numbered('clang', 'llvm-spirv'),
    missing: 'clang and llvm-spirv of one version (apt-get install clang-14 llvm-spirv-14)',
    source: device,
    steps: ([clang = '', translator = ''], out) => [
      [
        clang,
        '-x',
        'cl',
        '-cl-std=CL1.2',
        '-target',
        'spir64-unknown-unknown',
        '-Xclang',
        '-finclude-default-header',
      ].concat(
        [
          ...rounding,
          '-fno-builtin',
          '-fno-vectorize',
          '-fno-slp-vectorize',
          '-Xclang',
          '-disable-lifetime-markers',
        ],
        ['-I.', '-emit-llvm', '-c', '-o', 'out.bc', 'in.gk'],
      ) as [string, ...string[]],
      [translator, '--spirv-max-version=1.2', '--spirv-fp-contract=off', '-o', out, 'out.bc'],
    ],
  },
} as const satisfies Record<string, Format>;

/** Returns the format of AMD code objects for one kind of GPU, such as 'gfx90a'. */
export const codeObject = (arch: string): Format => ({
  ending: `.${arch}.hsaco`,
  tools: () => [
    ...own('HOTSLOT_HIP_CLANG'),
    ['amdclang'],
    ['/opt/rocm/bin/amdclang'],
    ['hipcc'],
    ['/opt/rocm/bin/hipcc'],
  ],
  missing: "ROCm's compiler (amdclang or hipcc)",
  source: device,
  steps: ([clang = ''], out) => [
    [
      clang,
      '-x',
      'hip',
      '-nogpuinc',
      '--cuda-device-only',
      '--no-gpu-bundle-output',
      ...rounding,
    ].concat([`--offload-arch=${arch}`, '-I.', '-c', '-o', out, 'in.gk']) as [string, ...string[]],
  ],
});

/** Returns the names of the tools that are missing for this format, or null if all tools exist. */
export async function missingFor(format: Format): Promise<string | null> {
  return (await firstOf(format.tools())) === null ? format.missing : null;
}

/**
 * Compiles the source, and returns the path of the image. Throws ERR_HOTSLOT_UNAVAILABLE if the
 * tools are missing, or ERR_HOTSLOT_COMPILE with their output.
 */
export async function compileWith(
  format: Format,
  source: KernelSource,
  kernels: readonly string[] = kernelsIn(source.text),
): Promise<string> {
  const tools = await firstOf(format.tools());
  if (tools === null)
    throw unavailableError(`${source.file} cannot be compiled; install ${format.missing}`);
  const text = format.source(source, kernels);
  const versions = (await Promise.all(tools.map(versionOf))).join('\n');
  const parts = ['kernel.hpp', 'library.h', 'library.hpp'].map((file) =>
    readFile(`${nativeFolder}kernels/${file}`, 'utf8'),
  );
  const more = format.source === formats.host.source ? await Promise.all(parts) : [];
  const steps = format.steps(tools, 'out');
  const words = headers().map((header) => header.text);
  const key = contentKey(text, ...words, versions, JSON.stringify(steps), process.arch, ...more);
  return cached(`${key}${format.ending}`, async (path) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotslot-compile-'));
    try {
      await writeFile(join(folder, 'in.gk'), text);
      for (const header of headers()) await writeFile(join(folder, header.name), header.text);
      for (const [program, ...args] of format.steps(tools, path)) {
        const { status, output: log } = await run(program, args, folder);
        if (status !== 0)
          throw compileError(
            `${source.file} does not compile (${program}):\n${log.trim().slice(0, 16_000)}`,
          );
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}
