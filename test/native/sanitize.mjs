// `npm run test:sanitize`: builds every addon with the address and undefined-behaviour sanitizers, in a folder of their own,
// and runs the tests that lean on native code with them. Plain JavaScript, like the set-up it stands beside.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, 'node_modules/.hotslot/sanitized');
const compiler = process.env.CXX ?? 'g++';
const specs = process.argv.slice(2);
const chosen =
  specs.length > 0 ? specs : ['device', 'transfer', 'buffer', 'wait', 'pipeline', 'halo'].map((name) => `test/${name}`);

const { variables } = JSON.parse(readFileSync(join(root, 'native/sources.gypi'), 'utf8'));
const addons = Object.entries(variables)
  .filter(([name]) => name.endsWith('_sources'))
  .map(([name, sources]) => ({ name: name.slice(0, -'_sources'.length), sources }));
// Without the net under lost wakes; see native/device/host/executor.hpp.
addons.find((addon) => addon.name === 'device').sources.push('test/native/stress_pause.cpp');

// As binding.gyp builds them, except for the optimisation; vptr checks need type information that Node's headers lack.
const { include_dir: napi } = createRequire(import.meta.url)('node-addon-api');
const headers = [
  join(dirname(dirname(process.execPath)), 'include/node'),
  join(root, napi),
  napi,
  join(root, 'native'),
];
const flags = [
  ...['-std=c++17', '-O1', '-g1', '-fPIC', '-Wall', '-Wextra', '-fvisibility=hidden', '-ffp-contract=off'],
  ...['-fsanitize=address,undefined', '-fno-sanitize=vptr', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'],
  ...['NAPI_VERSION=9', 'NODE_ADDON_API_DISABLE_DEPRECATED', 'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS'].map(
    (d) => `-D${d}`,
  ),
  ...['-DNAPI_CPP_EXCEPTIONS', '-DHOTSLOT_STRESS', '-DBUILDING_NODE_EXTENSION', ...headers.map((path) => `-I${path}`)],
];

function fail(sentence) {
  console.error(`hotslot: ${sentence}`);
  process.exit(1);
}

function compile(args) {
  return new Promise((resolve) => {
    const child = spawn(compiler, args, { cwd: root, stdio: 'inherit' });
    child.on('error', () => fail(`${compiler} is not installed`));
    child.on('close', (code) => (code === 0 ? resolve() : fail(`${compiler} ${args.join(' ')} failed`)));
  });
}

async function inParallel(items, work) {
  const waiting = [...items];
  const lane = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
}

mkdirSync(folder, { recursive: true });
const object = (source) => join(folder, `${source.replaceAll('/', '-')}.o`);
const sources = [...new Set(addons.flatMap((addon) => addon.sources))];
console.error(`hotslot: building ${addons.length} addons with sanitizers (a minute)`);
await inParallel(sources, (source) => compile([...flags, '-c', source, '-o', object(source)]));
await inParallel(addons, ({ name, sources }) =>
  compile([
    ...['-shared', '-fsanitize=address,undefined', '-Wl,-z,nodelete', ...sources.map(object)],
    ...['-o', join(folder, `${name}.node`), '-ldl', '-lpthread'],
  ]),
);

// Both before everything else: the sanitizer must find the C++ library's throw when it starts.
const preload = ['libasan.so', 'libstdc++.so.6'].map((library) =>
  spawnSync(compiler, [`-print-file-name=${library}`], { encoding: 'utf8' }).stdout.trim(),
);
const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js');
const files = chosen.flatMap((path) => ['--spec', path.endsWith('.js') ? path : `dist/${path}/**/*.test.js`]);
const { status, signal } = spawnSync(
  process.execPath,
  ['--enable-source-maps', mocha, '--no-config', '--timeout', '120000', ...files],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      HOTSLOT_ADDONS: folder,
      LD_PRELOAD: preload.join(' '),
      // The engine frees nothing at exit, so leaks are counted in handles instead; see test/device/contract.ts.
      ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0',
      UBSAN_OPTIONS: 'print_stacktrace=1',
    },
  },
);
if (signal) fail(`the tests ended with ${signal}`);
process.exit(status ?? 1);
