/**
 * Builds the addons with the address and undefined-behavior sanitizers, with the cache of the
 * harnesses.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildLibrary, type Part, type Unit } from '../drivers/build.ts';
import { stressed } from './harnesses.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const compiler = process.env.CXX ?? 'g++';
const sanitizer = 'address,undefined';
const { include_dir: napi } = createRequire(import.meta.url)('node-addon-api') as {
  include_dir: string;
};

// The same defines as in binding.gyp. Checks of vptr are off, because they need type information
// that Node's headers lack.
const node = [
  'NAPI_VERSION=9',
  'NODE_ADDON_API_DISABLE_DEPRECATED',
  'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS',
  'NAPI_CPP_EXCEPTIONS',
  'BUILDING_NODE_EXTENSION',
].map((name) => `-D${name}`);
const headers = [join(dirname(dirname(process.execPath)), 'include/node'), join(root, napi), napi];
const asAddon = ['-fno-sanitize=vptr', ...node, ...headers.flatMap((path) => ['-isystem', path])];

function units(): { name: string; units: Unit[] }[] {
  const { variables } = JSON.parse(readFileSync(join(root, 'native/sources.gypi'), 'utf8')) as {
    variables: Record<string, string[]>;
  };
  return Object.entries(variables)
    .filter(([name]) => name.endsWith('_sources'))
    .map(([key, sources]) => {
      const name = key.slice(0, -'_sources'.length);
      // HOTSLOT_STRESS removes the timeout that hides lost wakes (native/device/host/executor.hpp),
      // and needs stress_pause.cpp.
      const all = name === 'device' ? [...sources, 'test/native/stress_pause.cpp'] : sources;
      const defines = (source: string) =>
        /addon\/|system\/|binding\.cpp$/.test(source) ? asAddon : [];
      return { name, units: all.map((source) => stressed({ source, defines: defines(source) })) };
    });
}

export const partsOfAddons = (): Part[] =>
  units().map((each) => ({ units: each.units, sanitizer }));

/** Builds all addons, and returns the environment that a process needs to run with them. */
export function buildSanitizedAddons(): NodeJS.ProcessEnv {
  const built = units().map((each) =>
    buildLibrary(`addons/${each.name}.node`, each.units, sanitizer),
  );
  // These libraries must load first: the sanitizer looks for the C++ library's throw when it
  // starts.
  const preload = ['libasan.so', 'libstdc++.so.6'].map((library) =>
    spawnSync(compiler, [`-print-file-name=${library}`], { encoding: 'utf8' }).stdout.trim(),
  );
  return {
    HOTSLOT_ADDONS: dirname(built[0]!),
    LD_PRELOAD: preload.join(' '),
    // V8 frees nothing at exit, so the tests count open handles instead of leaks
    // (test/device/contract.ts).
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0:allocator_may_return_null=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  };
}
