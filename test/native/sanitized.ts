/**
 * The addons under the address and undefined-behaviour sanitizers, built with the harnesses' cache.
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

// As binding.gyp builds them; checks of vptr need type information that Node's headers lack.
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
      // Without the net under lost wakes; see native/device/host/executor.hpp.
      const all = name === 'device' ? [...sources, 'test/native/stress_pause.cpp'] : sources;
      const defines = (source: string) =>
        /addon\/|system\/|binding\.cpp$/.test(source) ? asAddon : [];
      return { name, units: all.map((source) => stressed({ source, defines: defines(source) })) };
    });
}

export const partsOfAddons = (): Part[] =>
  units().map((each) => ({ units: each.units, sanitizer }));

/** Builds all of them; what a process needs in its environment to run with them. */
export function buildSanitizedAddons(): NodeJS.ProcessEnv {
  const built = units().map((each) =>
    buildLibrary(`addons/${each.name}.node`, each.units, sanitizer),
  );
  // Both before everything else: the sanitizer must find the C++ library's throw when it starts.
  const preload = ['libasan.so', 'libstdc++.so.6'].map((library) =>
    spawnSync(compiler, [`-print-file-name=${library}`], { encoding: 'utf8' }).stdout.trim(),
  );
  return {
    HOTSLOT_ADDONS: dirname(built[0]!),
    LD_PRELOAD: preload.join(' '),
    // The engine frees nothing at exit, so leaks are counted in handles instead; see
    // test/device/contract.ts.
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0:allocator_may_return_null=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
  };
}
