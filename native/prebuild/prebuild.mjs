// Builds the addons that the package ships, into prebuilds/<platform>-<arch>. The addons run with
// glibc 2.28 or newer and include their C++ library. For the machine's own architecture it links
// the objects that node-gyp compiled. For the other architecture it cross-compiles the sources.
// `npm pack` runs this file.
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { makeStubs } from './stubs.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const triples = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };
const loaders = { x64: 'ld-linux-x86-64.so.2', arm64: 'ld-linux-aarch64.so.1' };

/** The architectures of the package, each with its compiler and the compiler's Debian package. */
export const architectures = Object.entries(triples).map(([arch, triple]) => ({
  arch,
  compiler: `${triple}-g++`,
  debian: `g++-${triple.replace('_', '-')}`,
}));

export const hasCompiler = (compiler) => spawnSync(compiler, ['--version']).error === undefined;

// node-gyp reads the same description of the addons.
const json = (file) => JSON.parse(readFileSync(join(root, file), 'utf8'));
const { target_defaults: defaults, targets } = json('binding.gyp');
const { variables } = json('native/sources.gypi');
const literal = (values) => values.filter((value) => !value.startsWith('<'));

function headers() {
  const require = createRequire(import.meta.url);
  const nodedir = process.env.npm_config_nodedir ?? dirname(dirname(process.execPath));
  const node = join(nodedir, 'include/node');
  if (!existsSync(join(node, 'node_api.h')))
    throw new Error(`Node's headers are not in ${node}: set npm's nodedir`);
  return [
    node,
    join(root, require('node-addon-api').include_dir),
    require('node-addon-api').include_dir,
  ];
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${command} ${args.join(' ')} failed`)),
    );
  });
}

async function inParallel(items, work) {
  const waiting = [...items];
  const lane = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
}

const objectIn = (folder, source) => join(folder, `${source.replaceAll('/', '-')}.o`);

async function compileAll(compiler, folder) {
  const flags = [
    '-fPIC',
    ...literal(defaults.cflags_cc),
    '-DNAPI_CPP_EXCEPTIONS',
    '-DBUILDING_NODE_EXTENSION',
    ...defaults.defines.map((each) => `-D${each}`),
    ...headers().flatMap((path) => ['-isystem', path]),
    // The assembler also searches these folders for images.
    ...defaults.include_dirs.map((path) => `-I${path}`),
  ];
  const sources = new Set(targets.flatMap(({ target_name: name }) => variables[`${name}_sources`]));
  await inParallel(sources, (source) =>
    run(compiler, [...flags, '-c', source, '-o', objectIn(folder, source)]),
  );
}

/** Returns the path of the object that node-gyp compiled for this machine's architecture. */
const compiled = (name, source) =>
  join(root, `build/Release/obj.target/${name}/${source.replace(/\.cpp$/, '.o')}`);

/** Builds the addons for one architecture, whose compiler must be installed. */
export async function prebuild(arch) {
  const triple = triples[arch];
  const compiler = `${triple}-g++`;
  const own = arch === process.arch;
  const folder = join(root, 'build/prebuild', arch);
  mkdirSync(join(folder, 'stubs'), { recursive: true });
  makeStubs(join(folder, 'stubs'), {
    compiler,
    objdump: `${triple}-objdump`,
    loader: loaders[arch],
  });
  if (!own) await compileAll(compiler, folder);
  const libc = join(folder, 'old_libc.o');
  await run(compiler, [
    '-x',
    'c',
    '-O2',
    '-fPIC',
    '-fvisibility=hidden',
    '-c',
    'native/prebuild/old_libc.c',
    '-o',
    libc,
  ]);
  const place = join(root, 'prebuilds', `linux-${arch}`);
  mkdirSync(place, { recursive: true });
  await inParallel(targets, ({ target_name: name }) => {
    const objects = variables[`${name}_sources`].map((source) =>
      own ? compiled(name, source) : objectIn(folder, source),
    );
    return run(compiler, [
      '-shared',
      '-s',
      '-pthread',
      ...literal(defaults.ldflags),
      ...objects,
      libc,
      // Hides the C++ library's names, because Node has its own C++ library of another version.
      '-static-libstdc++',
      '-Wl,--exclude-libs,ALL',
      `-L${join(folder, 'stubs')}`,
      '-Wl,--no-as-needed',
      '-lpthread',
      '-ldl',
      '-lld',
      '-Wl,--gc-sections',
      '-o',
      join(place, `${name}.node`),
    ]);
  });
  // The copy is not in the package's root, where npm would compile it (see `hotslot build`).
  copyFileSync(join(root, 'binding.gyp'), join(root, 'prebuilds/binding.gyp'));
}
