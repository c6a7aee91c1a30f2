/**
 * `hotslot build`: compiles the addons of the installed package, for machines without matching
 * prebuilt addons.
 */

import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cannotRunHere } from '../base/addon.ts';
import { packageRoot } from '../base/package-root.ts';

const root = packageRoot(import.meta.url);
const tools = [
  [process.env.CXX ?? 'g++', 'g++'],
  ['make', 'make'],
  ['python3', 'python3'],
] as const;

/**
 * Returns the path of npm's node-gyp, or null if it is not found. If npm runs this command, npm has
 * set an environment variable to the path.
 */
function nodeGyp(): string | null {
  const bundled = join(
    dirname(dirname(process.execPath)),
    'lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js',
  );
  return (
    [process.env.npm_config_node_gyp, bundled].find(
      (path) => path !== undefined && existsSync(path),
    ) ?? null
  );
}

function fail(sentence: string): 1 {
  process.stderr.write(`hotslot: ${sentence}\n`);
  return 1;
}

/** Returns exit code 0 if the addons were built and copied into the package, else 1. */
export function build({ print }: { print(text: string): void }): 0 | 1 {
  const never = cannotRunHere();
  if (never) return fail(never);
  const missing = tools.filter(([tool]) => spawnSync(tool, ['--version']).error !== undefined);
  if (missing.length > 0) {
    const names = missing.map(([tool]) => `'${tool}'`).join(', ');
    return fail(
      `not installed: ${names}; on Debian or Ubuntu: apt-get install ${missing.map(([, name]) => name).join(' ')}`,
    );
  }
  const gyp = nodeGyp();
  if (gyp === null)
    return fail('node-gyp, which comes with npm, was not found: run this as `npx hotslot build`');
  const description = [join(root, 'prebuilds/binding.gyp'), join(root, 'binding.gyp')].find(
    existsSync,
  );
  if (description === undefined) return fail(`${root} holds no binding.gyp: install hotslot again`);
  // Builds in a temporary folder, because a build leaves many files. Only the last step writes to
  // the package's folder, which may be read-only.
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-build-'));
  try {
    cpSync(join(root, 'native'), join(folder, 'native'), { recursive: true });
    copyFileSync(description, join(folder, 'binding.gyp'));
    print('building the native code of hotslot, which takes a minute …\n');
    // If Node was unpacked from its archive, its headers are in the archive's folder. Otherwise
    // node-gyp finds or downloads the headers.
    const prefix = dirname(dirname(process.execPath));
    const own =
      existsSync(join(prefix, 'include/node/node_api.h')) && !process.env.npm_config_nodedir;
    const packages = dirname(
      dirname(createRequire(import.meta.url).resolve('node-addon-api/package.json')),
    );
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [gyp, 'rebuild', '--jobs', 'max', '--loglevel=warn'],
      {
        cwd: folder,
        encoding: 'utf8',
        maxBuffer: 1 << 28,
        env: {
          ...process.env,
          NODE_PATH: packages,
          ...(own ? { npm_config_nodedir: prefix } : {}),
        },
      },
    );
    if (status !== 0) {
      process.stderr.write(`${stdout}${stderr}\n`);
      return fail('the build failed; the reason is printed above');
    }
    const place = join(root, 'build/Release');
    mkdirSync(place, { recursive: true });
    const addons = readdirSync(join(folder, 'build/Release')).filter((name) =>
      name.endsWith('.node'),
    );
    for (const name of addons) copyFileSync(join(folder, 'build/Release', name), join(place, name));
    print(`built ${addons.length} addons into ${place}; npx hotslot doctor tests them\n`);
    return 0;
  } catch (error) {
    return fail(`the addons could not be put in place: ${(error as Error).message}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
