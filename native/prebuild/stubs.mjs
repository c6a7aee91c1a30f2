// Writes link-time stand-ins for the C library of glibc 2.28. There is a shared library without
// code for each of its libraries. In a stand-in, every function has its newest version up to 2.28.
// Addons linked against the stand-ins run with glibc 2.28 or newer, whatever the build machine has.
// A linker binds a name to the default version that it finds. On the build machine this version may
// be years newer than the user's library.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The oldest glibc with which prebuilt addons run: RHEL 8, Debian 10, Ubuntu 18.10 and later. */
export const OLDEST = [2, 28];

const older = ([a, b], [c, d]) => a < c || (a === c && b <= d);
export const isOldEnough = (version) => older(numbers(version), OLDEST);
const numbers = (version) => {
  const [major, minor = 0] = version.split('.').map(Number);
  return [major, minor];
};

/** The libraries of glibc before 2.34. Since then libc.so.6 has the functions of all three. */
const homes = [
  { file: 'libdl.so', soname: 'libdl.so.2', holds: (name) => /^dl[a-z]/.test(name) },
  {
    file: 'libpthread.so',
    soname: 'libpthread.so.0',
    holds: (name) => /^(pthread|sem)_/.test(name),
  },
  { file: 'libc.so', soname: 'libc.so.6', holds: () => true },
];

function run(command, args, input) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    input,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')} failed: ${error?.message ?? stderr}`);
  return stdout;
}

/** Returns, for each name that a shared library exports, the newest version that is old enough. */
function exportsOf(objdump, library) {
  const found = new Map();
  for (const line of run(objdump, ['-T', library]).split('\n')) {
    // 000000000009c6a0 g    DF .text  0000000000000033 (GLIBC_2.2.5) dlsym
    const [, flags, section, version, name] =
      line.match(/^[0-9a-f]+ (.{7}) (\S+)\s+[0-9a-f]+\s+\(?GLIBC_([0-9.]+)\)?\s+(\S+)$/) ?? [];
    if (!name || section === '*UND*' || section === '*ABS*' || !isOldEnough(version)) continue;
    const known = found.get(name);
    if (!known || older(numbers(known.version), numbers(version)))
      found.set(name, { version, data: flags.endsWith('O') });
  }
  return found;
}

/**
 * Writes the stand-ins into `folder`. `compiler`, `objdump` and the name of the `loader` belong to
 * the target architecture.
 */
export function makeStubs(folder, { compiler, objdump, loader }) {
  mkdirSync(folder, { recursive: true });
  const path = (name) => run(compiler, [`-print-file-name=${name}`]).trim();
  const libc = exportsOf(objdump, path('libc.so.6'));
  const parts = new Map(homes.map((home) => [home, new Map()]));
  for (const [name, each] of libc)
    parts.get(homes.find(({ holds }) => holds(name))).set(name, each);
  for (const [file, soname] of [
    ['libm.so', 'libm.so.6'],
    ['libld.so', loader],
  ])
    parts.set({ file, soname }, exportsOf(objdump, path(soname)));
  for (const [{ file, soname }, names] of parts) {
    const lines = [...names].flatMap(([name, { version, data }], i) => [
      `.globl stub_of_${i}`,
      `.type stub_of_${i}, ${data ? '%object' : '%function'}`,
      `stub_of_${i}:`,
      `.symver stub_of_${i}, ${name}@@GLIBC_${version}`,
    ]);
    const versions = [...new Set([...names.values()].map(({ version }) => version))];
    const source = join(folder, `${file}.s`);
    const script = join(folder, `${file}.map`);
    writeFileSync(source, `.text\n${lines.join('\n')}\n`);
    // The lines above give each name its version. The script hides all other names.
    writeFileSync(
      script,
      versions
        .map((version, i) => `GLIBC_${version} {${i === 0 ? ' local: stub_of_*; ' : ''}};\n`)
        .join(''),
    );
    const how = ['-shared', '-nostdlib', `-Wl,-soname,${soname}`, `-Wl,--version-script=${script}`];
    run(compiler, [...how, source, '-o', join(folder, file)]);
  }
}
