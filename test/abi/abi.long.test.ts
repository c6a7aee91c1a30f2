/**
 * Compiles our declarations of the drivers' interfaces together with the vendors' headers. A
 * static_assert fails for each difference.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { env } = process;

interface Check {
  vendor: string;
  source: string;
  /** the vendor's header that the source includes */
  header: string;
  /** folders that may have the header, besides the compiler's own */
  folders: (string | undefined)[];
  /**
   * whether the header must be in one of the folders, because the compiler may find another
   * vendor's header of that name
   */
  named?: boolean;
  missing: string;
  /** messages of the build with -DNEGATIVE, which must have no others */
  wrong: string[];
}

const cudas = existsSync('/usr/local')
  ? readdirSync('/usr/local').filter((name) => name.startsWith('cuda'))
  : [];
const checks: Check[] = [
  {
    vendor: 'CUDA',
    source: 'cuda_abi_check.cpp',
    header: 'cudaTypedefs.h',
    folders: [
      env.CUDA_HOME && join(env.CUDA_HOME, 'include'),
      ...cudas.map((name) => `/usr/local/${name}/include`),
    ],
    missing: "the CUDA toolkit's headers (cuda.h and cudaTypedefs.h, 12.0 or newer)",
    wrong: [
      'wrong: a parameter too few',
      'wrong: a structure by address',
      'event_disable_timing is not CU_EVENT_BLOCKING_SYNC',
      'Shifted::result is not where CUgraphExecUpdateResultInfo::result is',
      'Uuid has not the size of CUgraphExecUpdateResultInfo',
    ],
  },
  {
    vendor: 'Level Zero',
    source: 'level_zero_abi_check.cpp',
    header: 'level_zero/loader/ze_loader.h',
    folders: [],
    missing: "Level Zero's headers (Debian: libze-dev)",
    wrong: [
      'wrong: two parameters too few',
      'wrong: a count of 8 bytes',
      'Priority::low is not ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH',
      'Shifted::ordinal is not where ze_command_queue_desc_t::ordinal is',
      'KernelDesc has not the size of ze_host_mem_alloc_desc_t',
    ],
  },
  {
    vendor: 'HIP',
    source: 'hip_abi_check.cpp',
    header: 'hip/hip_runtime_api.h',
    folders: [env.ROCM_PATH && join(env.ROCM_PATH, 'include'), '/opt/rocm/include'],
    missing: "HIP's headers (Debian: libamdhip64-dev)",
    wrong: [
      'wrong: two parameters too few',
      'wrong: a byte as a word',
      'attribute_integrated is not cuda::attribute_integrated',
    ],
  },
];

for (const [vendor, folders, packageOf] of [
  [
    'Open MPI',
    ['/usr/lib/x86_64-linux-gnu/openmpi/include', '/usr/lib/aarch64-linux-gnu/openmpi/include'],
    'libopenmpi-dev',
  ],
  [
    'MPICH',
    ['/usr/include/x86_64-linux-gnu/mpich', '/usr/include/aarch64-linux-gnu/mpich'],
    'libmpich-dev',
  ],
  [
    'MPI-5',
    [env.MPI_ABI_INCLUDE],
    "none yet: MPI_ABI_INCLUDE names a folder with the standard ABI's mpi.h",
  ],
] as const)
  checks.push({
    vendor,
    source: 'mpi_abi_check.cpp',
    header: 'mpi.h',
    folders: [...folders],
    named: true,
    missing: `${vendor}'s headers (Debian: ${packageOf})`,
    wrong: [
      'wrong: a parameter too few',
      'wrong: a parameter too many',
      'Ours::tag_ub + 1 is not MPI_TAG_UB',
      'Ours::status_ignore + 2 is not MPI_STATUS_IGNORE',
    ],
  });

function works(compiler: string): boolean {
  return spawnSync(compiler, ['--version']).status === 0;
}

/**
 * Returns g++ (or CXX), and a clang if there is one. The two differ in what they accept as a
 * constant.
 */
function compilers(): string[] {
  const clang = ['clang++', 'clang++-19', 'clang++-16', 'clang++-14'].find(works);
  return [env.CXX ?? 'g++', clang].filter((name) => name !== undefined && works(name)) as string[];
}

/**
 * Returns the folder to include from, '' for the compiler's own, or null if the header is missing.
 */
function folderOf({ header, folders, named }: Check, compiler: string): string | null {
  const found = folders.find((folder) => folder && existsSync(join(folder, header)));
  if (found) return found;
  if (named) return null;
  const input = `#if !__has_include(<${header}>)\n#error\n#endif\n`;
  return spawnSync(compiler, ['-fsyntax-only', '-x', 'c++', '-'], { input }).status === 0
    ? ''
    : null;
}

/**
 * Returns the compiler's errors: the message of each failed assertion, and every other line as it
 * is.
 */
function errors(
  compiler: string,
  { source }: Check,
  folder: string,
  flags: readonly string[],
): string[] {
  const include = folder === '' ? [] : ['-isystem', folder];
  const command = [
    '-std=c++17',
    '-Wall',
    '-Wextra',
    '-fsyntax-only',
    '-Inative',
    '-Itest/abi',
    ...include,
    ...flags,
  ];
  const done = spawnSync(compiler, [...command, join('test/abi', source)], {
    cwd: root,
    encoding: 'utf8',
    env: { ...env, LC_ALL: 'C' },
  });
  const lines = done.stderr.split('\n').filter((line) => /\b(error|warning): /.test(line));
  // g++ and newer clangs end with the message, and older clangs quote the message.
  return lines.map(
    (line) =>
      /static assertion failed(?: due to requirement .*')?: (.*)$/.exec(line)?.[1] ??
      /static_assert failed.*"(.*)"$/.exec(line)?.[1] ??
      line,
  );
}

describeAll('ABI declarations', () => {
  const found = compilers();
  if (found.length === 0) it.skip('are not checked without a C++ compiler: install g++');
  for (const check of checks) {
    const folder = found.length === 0 ? null : folderOf(check, found[0] as string);
    if (folder === null) {
      it.skip(`are not checked against ${check.vendor}: install ${check.missing}`);
      continue;
    }
    for (const compiler of found) {
      it(`match the headers of ${check.vendor} with ${compiler}`, () => {
        expect(errors(compiler, check, folder, [])).to.deep.equal([]);
      });
      it(`with deliberate mistakes fail to compile against ${check.vendor} headers with ${compiler}`, () => {
        expect(errors(compiler, check, folder, ['-DNEGATIVE'])).to.have.members(check.wrong);
      });
    }
  }
});
